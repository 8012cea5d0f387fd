"""Heartbeats that come together: each has its own answer, and none waits for another's shard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from waiting import until

from ottla_core.cluster.image import ClusterImage, Shard, Topic
from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.memory_log import MemoryShardLog
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.coordination.shard_log import Call, Check, Result
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_core.records.fence import ShardFence
from ottla_core.routing import shard_of
from ottla_core.rpc.context import RequestContext
from ottla_core.telemetry import Metrics
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_group_coordinator.machines.transition import SessionTimer
from ottla_group_coordinator.service import GroupService
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import ShardsRequest

SHARDS = 4
OFFSETS = Topic("__consumer_offsets", TopicId(b"o" * 16), SHARDS)
IMAGE = ClusterImage("c", topics={OFFSETS.name: OFFSETS})
ME, INCARNATION = 7, 700
CALLER = RequestContext(client_id="test")
GROUPS = {shard_of(name, SHARDS): name for name in map(str, range(100))}
"""A group of each shard."""


def given(*shards: int, epoch: int = 1) -> ClusterImage:
    return replace(IMAGE, shards={("group", n): Shard(ME, INCARNATION, epoch) for n in shards})


class Log(MemoryShardLog):
    """Checks of the shards in `stuck` are answered once they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.stuck: set[int] = set()
        self.released = asyncio.Event()

    async def call(self, shard: int, owner: ShardFence, call: Call, *, timeout_s: float) -> Result:
        if shard in self.stuck and isinstance(call, Check):
            await self.released.wait()
        return await super().call(shard, owner, call, timeout_s=timeout_s)


class Coordinator:
    """One process with the shards that an image gives it."""

    def __init__(self, log: Log, limits: ShardLimits) -> None:
        settings = GroupSettings(initial_rebalance_delay_ms=0)
        metrics = Metrics()
        self.log = log
        self.shards = OwnedShards(
            "group",
            ME,
            lambda: INCARNATION,
            log,
            lambda n: GroupShard(settings),
            _release,
            metrics=metrics,
            limits=limits,
        )
        lag: Any = SimpleNamespace()
        group_metrics: Any = SimpleNamespace()
        metadata: Any = SimpleNamespace(image=IMAGE)
        self.service = GroupService(self.shards, metadata, ME, lag, group_metrics, lag)
        self._serving = metrics.samples["ottla_shards_serving"][(("kind", "group"),)]

    async def own(self, *shards: int, epoch: int = 1) -> None:
        self.shards.on_image(IMAGE, given(*shards, epoch=epoch))
        await until(lambda: cast(Any, self._serving)() == len(shards))

    async def member(self, group: str, instance_id: str | None = None) -> pb.HeartbeatRequest:
        """A member of a stable group of its own, as its heartbeat."""
        joined = await self.service.join(
            pb.JoinRequest(
                group=group,
                member=pb.Member(instance_id=instance_id),
                session_timeout_ms=10_000,
                protocol_type="consumer",
                protocols=[pb.Protocol(name="range")],
            ),
            CALLER,
        )
        who = pb.Member(member_id=joined.member_id, instance_id=instance_id)
        assigned = [pb.MemberAssignment(member_id=joined.member_id)]
        synced = pb.SyncRequest(group=group, member=who, generation=joined.generation, assignments=assigned)
        await self.service.sync(synced, CALLER)
        return pb.HeartbeatRequest(group=group, member=who, generation=joined.generation)

    async def codes(self, *beats: pb.HeartbeatRequest) -> list[int]:
        """Of heartbeats that begin in one turn, as a stream of gathered calls starts them."""
        return [*await asyncio.gather(*map(self.code, beats))]

    async def code(self, beat: pb.HeartbeatRequest) -> int:
        try:
            return (await self.service.heartbeat(beat, CALLER)).error.code
        except OttlaError as error:
            return error.code


async def _release(shard: int, epoch: int) -> None:
    """Nobody gives a new epoch here."""


@pytest.fixture
async def coordinator() -> AsyncIterator[Coordinator]:
    coordinator = Coordinator(Log(), ShardLimits(unproved_s=20.0, append_s=10.0))
    await coordinator.shards.start()
    yield coordinator
    await coordinator.shards.kill()


async def test_each_has_its_own_answer(coordinator: Coordinator) -> None:
    """Every refusal of the contract, and one that is well, together."""
    await coordinator.own(0, 1, 2)
    well = await coordinator.member(GROUPS[0])
    static = await coordinator.member(GROUPS[1], "i-1")
    rebalancing = await coordinator.member(GROUPS[2])
    newcomer = asyncio.create_task(coordinator.member(GROUPS[2]))  # the group waits for its first member

    async with asyncio.timeout(10):
        while await coordinator.code(rebalancing) != ErrorCode.REBALANCE_IN_PROGRESS:
            await asyncio.sleep(0)
    stranger = pb.HeartbeatRequest(group=GROUPS[0], member=pb.Member(member_id="who"), generation=1)
    former = pb.HeartbeatRequest(group=GROUPS[0], member=well.member, generation=0)
    impostor = pb.Member(member_id="who", instance_id="i-1")
    expected = {
        ErrorCode.NONE: well,
        ErrorCode.REBALANCE_IN_PROGRESS: rebalancing,
        ErrorCode.UNKNOWN_MEMBER_ID: stranger,
        ErrorCode.ILLEGAL_GENERATION: former,
        ErrorCode.FENCED_INSTANCE_ID: pb.HeartbeatRequest(
            group=GROUPS[1], member=impostor, generation=static.generation
        ),
        ErrorCode.NOT_COORDINATOR: pb.HeartbeatRequest(group=GROUPS[3], member=well.member, generation=1),
        ErrorCode.INVALID_GROUP_ID: pb.HeartbeatRequest(member=well.member, generation=1),
    }
    assert await coordinator.codes(*expected.values()) == list(expected)
    newcomer.cancel()


async def test_a_shard_that_is_loading_says_so(coordinator: Coordinator) -> None:
    await coordinator.own(0)
    well = await coordinator.member(GROUPS[0])
    coordinator.shards.on_image(given(0), given(0, 1))
    other = pb.HeartbeatRequest(group=GROUPS[1], member=well.member, generation=1)
    assert await coordinator.codes(well, other) == [ErrorCode.NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


async def test_they_are_not_answered_by_who_has_lost_the_shard(coordinator: Coordinator) -> None:
    await coordinator.own(0, 1)
    lost, kept = await coordinator.member(GROUPS[0]), await coordinator.member(GROUPS[1])
    coordinator.shards.on_image(given(0, 1), given(1))
    assert await coordinator.codes(lost, kept) == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]


@pytest.mark.parametrize("proved", [False, True])
async def test_a_deposed_owner_answers_as_long_as_its_proof_lives_and_no_longer(proved: bool) -> None:
    """It has not heard that another has a higher fence; the log tells it, once it has to ask."""
    log = Log()
    deposed, owner = (Coordinator(log, ShardLimits(unproved_s=20.0, append_s=10.0)) for _ in range(2))
    for each in (deposed, owner):
        await each.shards.start()
    await deposed.own(0, 1)
    beats = [await deposed.member(GROUPS[n]) for n in (0, 1)]
    assert await deposed.codes(*beats) == [ErrorCode.NONE, ErrorCode.NONE]
    await owner.own(0, epoch=2)
    if not proved:
        for held in deposed.shards._held.values():
            held.owner.on_gap(60.0)  # what it remembers is no proof any more
    expected = ErrorCode.NONE if proved else ErrorCode.NOT_COORDINATOR
    assert await deposed.codes(*beats) == [expected, ErrorCode.NONE]
    for each in (deposed, owner):
        await each.shards.kill()


async def test_no_heartbeat_waits_for_the_shard_of_another(coordinator: Coordinator) -> None:
    await coordinator.own(0, 1)
    slow, well = await coordinator.member(GROUPS[0]), await coordinator.member(GROUPS[1])
    coordinator.shards._held[0].owner.on_gap(60.0)
    coordinator.log.stuck = {0}
    waits = [asyncio.create_task(coordinator.code(slow)) for _ in range(2)]
    assert await coordinator.codes(well, well) == [ErrorCode.NONE] * 2
    assert not any(each.done() for each in waits)
    coordinator.log.released.set()
    assert await asyncio.gather(*waits) == [ErrorCode.NONE] * 2
    assert await coordinator.codes(slow, well) == [ErrorCode.NONE, ErrorCode.NONE]


async def test_they_keep_sessions_alive(coordinator: Coordinator) -> None:
    await coordinator.own(0)
    beat = await coordinator.member(GROUPS[0])
    timers = coordinator.shards._held[0].owner._timers
    session = SessionTimer(beat.group, beat.member.member_id)
    ends_at = timers._at[session]
    await asyncio.sleep(0.001)
    assert await coordinator.codes(beat) == [ErrorCode.NONE]
    assert timers._at[session] > ends_at


async def test_how_it_is_with_each_shard_is_told(coordinator: Coordinator) -> None:
    await coordinator.own(1, 2)
    (_, first), (_, second) = sorted((e.shard, e.state) for e in coordinator.shards.statuses())
    second.unreadable = 3
    response = await coordinator.service.shards(ShardsRequest(), CALLER)
    assert [(s.shard, s.phase, s.coordinator, s.trouble, s.unreadable) for s in response.shards] == [
        (1, "serving", ME, "", 0),
        (2, "serving", ME, "", 3),
    ]
    assert all(s.next_offset >= 1 for s in response.shards), "the fence"
    assert first.unreadable == 0
