"""AlterPartition against deaths, restarts and elections: the loser of a race rereads, and nothing is overwritten."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from controllers import CONTEXT, World
from failovers import ActingNode, start_acting_active
from waiting import until

from ottla_core.cluster import keys
from ottla_core.cluster.store import Delete, Put
from ottla_core.errors import ErrorCode, OttlaError
from ottla_proto import controller_pb2 as pb


@pytest.fixture
async def node(world: World) -> ActingNode:
    """Its topic `t` has one partition, on 0, 1 and 2, of which 2 is not in sync."""
    await world.register(0, 1, 2)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2))
    assert (await node.propose(0, (0, 1))).error.code == 0
    return node


@pytest.mark.rule(12)
@pytest.mark.feature(106)
async def test_a_proposal_is_committed_and_comes_back_by_watch(node: ActingNode) -> None:
    decided = await node.propose(0, (0, 1, 2))
    assert (decided.error.code, list(decided.isr), decided.partition_epoch) == (0, [0, 1, 2], 2)
    assert node.partitions()[0].isr == (0, 1, 2)
    assert (decided.leader, decided.leader_epoch) == (0, 0)


@pytest.mark.rule(12)
async def test_of_two_proposals_from_one_state_one_is_told_that_it_is_late(node: ActingNode) -> None:
    verdicts = await asyncio.gather(node.propose(0, (0, 1, 2)), node.propose(0, (0,)))
    assert [v.error.code for v in verdicts] == [0, ErrorCode.INVALID_UPDATE_VERSION]
    assert list(verdicts[1].isr) == [0, 1, 2]


@pytest.mark.rule(11)
async def test_a_follower_that_dies_between_the_decision_and_the_write_does_not_join(
    world: World, node: ActingNode
) -> None:
    dying = [keys.broker(2)]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if dying:
            await world.remove(dying.pop())

    node.store.before_txn = before_txn
    decided = await node.propose(0, (0, 1, 2))
    assert (decided.error.code, dying) == (ErrorCode.INELIGIBLE_REPLICA, [])
    assert node.partitions()[0].isr == (0, 1)


@pytest.mark.rule(22)
async def test_a_follower_that_restarts_between_the_decision_and_the_write_does_not_join(
    world: World, node: ActingNode
) -> None:
    """What it had fetched it may have lost: the leader has to see its new life fetch (KIP-903)."""
    restarting = [keys.broker(2)]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if restarting:
            await world.remove(restarting.pop())
            await world.register(2)

    node.store.before_txn = before_txn
    decided = await node.propose(0, (0, 1, 2))
    assert decided.error.code == ErrorCode.INELIGIBLE_REPLICA
    assert "is registered with epoch" in decided.error.message
    node.store.before_txn = None
    assert (await node.propose(0, (0, 1, 2))).error.code == 0


@pytest.mark.rule(12)
@pytest.mark.rule(22)
async def test_a_leader_that_was_given_up_can_not_shrink_the_isr_to_itself(world: World, node: ActingNode) -> None:
    """1. The leader's session ends. 2. Another leader is elected. 3. The old one wants everybody else out."""
    before = node.follower.image
    (partition,) = node.partitions()
    alone = pb.IsrProposal(
        topic_id=before.topics["t"].id,
        partition=0,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        new_isr=[pb.IsrMember(broker_id=0, broker_epoch=before.brokers[0].epoch)],
    )
    await world.remove(keys.broker(0))
    await until(lambda: node.leaders == [1])
    request = pb.AlterPartitionRequest(broker_id=0, broker_epoch=before.brokers[0].epoch, partitions=[alone])
    with pytest.raises(OttlaError) as refused:
        await node.service.alter_partition(request, CONTEXT)
    assert refused.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED
    await world.register(0)
    await until(lambda: 0 in node.follower.image.brokers)
    with pytest.raises(OttlaError) as refused:
        await node.service.alter_partition(request, CONTEXT)
    assert refused.value.code == ErrorCode.STALE_BROKER_EPOCH
    request.broker_epoch = node.follower.image.brokers[0].epoch
    (decided,) = (await node.service.alter_partition(request, CONTEXT)).partitions
    assert decided.error.code == ErrorCode.FENCED_LEADER_EPOCH
    assert (node.leaders, node.partitions()[0].isr) == ([1], (1,))


@pytest.mark.feature(110)
async def test_who_dies_between_its_election_and_the_write_is_not_the_leader(world: World) -> None:
    await world.register(0, 1, 2)
    node = await start_acting_active(world)
    await node.create_replicated((0, 1, 2))
    dying = [keys.broker(1)]

    async def before_txn(ops: Sequence[Put | Delete]) -> None:
        if dying:
            await world.remove(dying.pop())

    node.store.before_txn = before_txn
    await world.remove(keys.broker(0))
    await until(lambda: node.partitions()[0].isr == (2,))
    (partition,) = node.partitions()
    assert (partition.leader, partition.leader_epoch) == (2, 1)


@pytest.mark.rule(12)
async def test_many_partitions_of_one_request_are_few_transactions(world: World) -> None:
    await world.register(0, 1)
    node = await start_acting_active(world)
    await node.create_replicated(*[(0, 1)] * 250)
    image = node.follower.image
    proposals = [
        pb.IsrProposal(
            topic_id=image.topics["t"].id,
            partition=n,
            leader_epoch=0,
            partition_epoch=1 if n == 7 else 0,
            new_isr=[pb.IsrMember(broker_id=0, broker_epoch=image.brokers[0].epoch)],
        )
        for n in range(250)
    ]
    seq = image.seq
    request = pb.AlterPartitionRequest(broker_id=0, broker_epoch=image.brokers[0].epoch, partitions=proposals)
    decided = (await node.service.alter_partition(request, CONTEXT)).partitions
    assert [d.partition for d in decided] == list(range(250))
    assert {d.partition: d.error.code for d in decided if d.error.code} == {7: ErrorCode.NOT_CONTROLLER}
    assert node.follower.image.seq == seq + 3
    assert sum(p.isr == (0,) for p in node.partitions()) == 249
