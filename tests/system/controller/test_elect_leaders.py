"""ElectLeaders: by name or all, preferred or unclean, each partition with its own result (KIP-460)."""

from __future__ import annotations

import pytest
from controllers import CONTEXT, World
from failovers import ActingNode, start_acting_active
from waiting import until

from ottla_core.cluster import keys
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import NO_LEADER
from ottla_proto import controller_pb2 as pb


async def elect(node: ActingNode, kind: pb.ElectionType, *partitions: tuple[str, int]) -> dict[tuple[str, int], int]:
    """The error code of each; without `partitions`, of all."""
    named = [pb.PartitionOfTopic(topic=topic, partition=n) for topic, n in partitions]
    request = pb.ElectLeadersRequest(type=kind, partitions=named, all_partitions=not named)
    response = await node.service.elect_leaders(request, CONTEXT)
    return {(p.topic, p.partition): p.error.code for p in response.partitions}


@pytest.fixture
async def node(world: World) -> ActingNode:
    """A topic `t`: 0 and 1 prefer broker 0, which is back but in sync only for 0; 2 has its preferred leader."""
    await world.register(0, 1)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1), (0, 1), (1, 0))
    await world.remove(keys.broker(0))
    await until(lambda: node.leaders == [1, 1, 1])
    await world.register(0)
    await until(lambda: 0 in node.follower.image.brokers)
    assert (await node.propose(1, (1, 0))).error.code == 0
    return node


@pytest.mark.feature(114)
async def test_preferred_leaders_by_name(node: ActingNode) -> None:
    asked = [("t", 0), ("t", 1), ("t", 2), ("t", 9), ("nowhere", 0)]
    assert await elect(node, pb.ELECTION_PREFERRED, *asked) == {
        ("t", 0): 0,
        ("t", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        ("t", 2): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nowhere", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert node.leaders == [0, 1, 1]


@pytest.mark.feature(114)
async def test_of_all_partitions_those_are_answered_that_needed_an_election(node: ActingNode) -> None:
    assert await elect(node, pb.ELECTION_PREFERRED) == {
        ("t", 0): 0,
        ("t", 1): ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    }
    assert node.leaders == [0, 1, 1]
    assert await elect(node, pb.ELECTION_UNCLEAN) == {}


@pytest.mark.rule(19)
async def test_an_unclean_leader_by_command(world: World, node: ActingNode) -> None:
    await world.remove(keys.broker(1))
    await until(lambda: node.leaders == [0, NO_LEADER, NO_LEADER])
    assert await elect(node, pb.ELECTION_UNCLEAN, ("t", 0), ("t", 1)) == {
        ("t", 0): ErrorCode.ELECTION_NOT_NEEDED,
        ("t", 1): 0,
    }
    assert [(p.leader, p.recovering) for p in node.partitions()] == [(0, False), (0, True), (NO_LEADER, False)]
    assert node.count("ottla_controller_unclean_elections_total") == 1
    await world.remove(keys.broker(0))
    await until(lambda: node.leaders == [NO_LEADER] * 3)
    assert await elect(node, pb.ELECTION_UNCLEAN, ("t", 2)) == {("t", 2): ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE}


async def test_what_can_not_be_asked_is_refused_as_a_whole(node: ActingNode) -> None:
    with pytest.raises(OttlaError, match="t-0 twice"):
        await elect(node, pb.ELECTION_PREFERRED, ("t", 0), ("t", 0))
    with pytest.raises(OttlaError, match="7 is not a type of election") as refused:
        await elect(node, 7, ("t", 0))  # type: ignore[arg-type]  # a later release's
    assert refused.value.code == ErrorCode.INVALID_REQUEST
