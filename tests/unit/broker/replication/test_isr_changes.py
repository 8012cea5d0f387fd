"""Proposals on their way to the controller: sent again while nothing is known, taken back only when refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replicas import PARTITION, Brokers
from waiting import until

from ottla_broker.machines.partition import IsrProposal
from ottla_broker.peers.registration_view import BrokerEpoch
from ottla_broker.replication import isr_changes
from ottla_broker.replication.isr_changes import IsrChanges
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId
from ottla_core.rpc.status import TransportError
from ottla_proto import controller_pb2 as pb

ALONE = Partition(replicas=(1, 2, 3), leader=1, leader_epoch=1, isr=(1,))


class Seated:
    secret = b"proof"

    def current(self) -> BrokerEpoch:
        return BrokerEpoch(1, 11)


class Answering:
    """A controller: it notes what it is asked and answers by plan, with success where the plan is over."""

    def __init__(self) -> None:
        self.asked: list[pb.AlterPartitionRequest] = []
        self.plan: list[OttlaError | int] = []

    async def call(
        self, method: Any, request: pb.AlterPartitionRequest, *, timeout: float
    ) -> pb.AlterPartitionResponse:
        self.asked.append(request)
        answer = self.plan.pop(0) if self.plan else ErrorCode.NONE
        if isinstance(answer, OttlaError):
            raise answer
        response = pb.AlterPartitionResponse()
        for wanted in request.partitions:
            decided = response.partitions.add(topic_id=wanted.topic_id, partition=wanted.partition)
            decided.error.code = answer
        return response


class World:
    def __init__(self, path: Path) -> None:
        self.brokers = Brokers(path)
        self.brokers.apply(ALONE)
        self.controller = Answering()
        self.leader = self.brokers.leading(1)
        controller: Any = self.controller
        seat: Any = Seated()
        self.changes = IsrChanges(controller, seat)

    async def propose(self, follower: int = 2) -> None:
        await self.brokers.fetch(follower, 1)
        self.changes.submit(self.leader)

    def isrs(self) -> list[list[int]]:
        return [[m.broker_id for m in asked.partitions[0].new_isr] for asked in self.controller.asked]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    await world.changes.start()
    yield world
    await world.changes.stop()


@pytest.mark.rule(12, 22)
async def test_a_proposal_carries_every_epoch_that_it_relies_on(world: World) -> None:
    await world.propose()
    await until(lambda: world.controller.asked)
    [asked] = world.controller.asked
    assert (asked.broker_id, asked.broker_epoch) == (1, 11)
    [proposal] = asked.partitions
    assert (proposal.topic_id, proposal.partition) == PARTITION
    assert (proposal.leader_epoch, proposal.partition_epoch) == (1, 0)
    assert [(m.broker_id, m.broker_epoch) for m in proposal.new_isr] == [(1, -1), (2, 12)]


@pytest.mark.rule(13)
async def test_after_a_lost_answer_it_is_sent_again_and_still_counts(world: World) -> None:
    world.controller.plan = [TransportError(ErrorCode.REQUEST_TIMED_OUT, "lost"), OttlaError(41, "not the controller")]
    await world.propose()
    await until(lambda: len(world.controller.asked) == 3)
    assert world.isrs() == [[1, 2]] * 3
    assert world.leader.proposal is not None, "the maximal ISR, until the watch tells"


@pytest.mark.rule(12)
async def test_what_was_carried_out_is_not_sent_again(world: World) -> None:
    await world.propose()
    await until(lambda: world.controller.asked)
    await world.propose()
    await world.propose(3)
    world.brokers.apply(Partition(replicas=(1, 2, 3), leader=1, leader_epoch=1, isr=(1, 2), partition_epoch=1))
    await world.propose(3)
    await until(lambda: len(world.controller.asked) == 2)
    assert world.isrs() == [[1, 2], [1, 2, 3]]


@pytest.mark.rule(13)
async def test_only_a_definite_refusal_takes_it_back(world: World) -> None:
    world.controller.plan = [ErrorCode.INELIGIBLE_REPLICA]
    await world.propose()
    await until(lambda: world.leader.proposal is None)


@pytest.mark.rule(12, 13)
@pytest.mark.parametrize("code", [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.FENCED_LEADER_EPOCH])
async def test_an_outdated_proposal_waits_for_the_watch(world: World, code: ErrorCode) -> None:
    """It may be outdated by its own first sending, so the maximal ISR holds until the metadata tells."""
    world.controller.plan = [code]
    await world.propose()
    await until(lambda: world.controller.asked)
    await world.propose(3)
    assert world.leader.proposal is not None
    world.brokers.apply(Partition(replicas=(1, 2, 3), leader=1, leader_epoch=1, isr=(1, 2), partition_epoch=1))
    assert world.leader.proposal is None
    assert len(world.controller.asked) == 1


@pytest.mark.story("proposals-that-never-settle-starve-others")
async def test_proposals_that_never_settle_keep_no_other_from_being_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_changes, "_MAX_BATCH", 2)
    nobody: Any = None
    changes = IsrChanges(nobody, nobody)
    proposal = IsrProposal(1, 0, (1, 2), (-1, 12))
    replicas = [SimpleNamespace(id=PartitionId(PARTITION.topic_id, n), proposal=proposal) for n in range(5)]
    for replica in replicas:
        proposing: Any = replica
        changes.submit(proposing)
    sent = [replica.id.partition for _ in range(5) for replica, _ in changes._take()]
    assert sent == [0, 1, 2, 3, 4] * 2
