"""The broker's way to a coordinator: heartbeats go over one stream, each with its own answer."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from group_server import GroupServer
from waiting import until

from ottla_broker.peers.coordinator_peers import CoordinatorPeers
from ottla_core.cluster.image import ClusterImage, Coordinator
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group

LIMIT_S = 10.0


class ScriptedCoordinator(GroupServer):
    """Answers a heartbeat with its generation as the error; `beats` are the generations that came."""

    def __init__(self) -> None:
        self.beats: list[int] = []
        self.gate = asyncio.Event()
        self.gate.set()
        super().__init__()

    async def heartbeat(self, request: pb.HeartbeatRequest, context: RequestContext) -> pb.HeartbeatResponse:
        self.beats.append(request.generation)
        await self.gate.wait()
        return pb.HeartbeatResponse(error=Error(code=request.generation))

    async def consumer_heartbeat(
        self, request: pb.ConsumerHeartbeatRequest, context: RequestContext
    ) -> pb.ConsumerHeartbeatResponse:
        return pb.ConsumerHeartbeatResponse()

    @property
    def registered(self) -> Coordinator:
        return Coordinator("group", 0, 1, self.address)


@pytest.fixture
async def coordinator() -> AsyncIterator[ScriptedCoordinator]:
    coordinator = ScriptedCoordinator()
    await coordinator.start()
    yield coordinator
    await coordinator.server.kill()


Changed = Callable[[ClusterImage, ClusterImage], None]


@pytest.fixture
def on_change() -> list[Changed]:
    """Who is told of another image."""
    return []


@pytest.fixture
async def peers(on_change: list[Changed]) -> AsyncIterator[CoordinatorPeers]:
    metadata: Any = SimpleNamespace(on_change=on_change.append)
    peers = CoordinatorPeers(metadata)
    await peers.start()
    yield peers
    await peers.stop()


async def beat(peers: CoordinatorPeers, coordinator: Coordinator, generation: int, limit_s: float = LIMIT_S) -> int:
    asked = pb.HeartbeatRequest(group="g", generation=generation)
    return (await peers.ask(coordinator, Group.HEARTBEAT, asked, limit_s)).error.code


async def test_heartbeats_go_together_and_each_has_its_own_answer(
    peers: CoordinatorPeers, coordinator: ScriptedCoordinator
) -> None:
    codes = [
        ErrorCode.NONE,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ]
    told = await asyncio.gather(*(beat(peers, coordinator.registered, code) for code in codes))
    assert told == codes
    assert coordinator.beats == codes
    assert coordinator.streams == 1


async def test_heartbeats_wait_a_moment_for_others(peers: CoordinatorPeers, coordinator: ScriptedCoordinator) -> None:
    """The first goes at once; those after it go together, a moment later."""
    loop = asyncio.get_running_loop()
    began_at = loop.time()
    await beat(peers, coordinator.registered, 0)
    second = asyncio.create_task(beat(peers, coordinator.registered, 0))
    await asyncio.sleep(0.02)
    third = asyncio.create_task(beat(peers, coordinator.registered, 0))
    done, _ = await asyncio.wait({second, third}, return_when=asyncio.FIRST_COMPLETED)
    assert done == {second, third}
    assert loop.time() - began_at >= 0.05


@pytest.mark.parametrize(
    ("request_", "waits"),
    [
        (pb.ConsumerHeartbeatRequest(group="g", member_epoch=3), True),
        (pb.ConsumerHeartbeatRequest(group="g", member_epoch=3, owned=pb.AssignedPartitions()), False),
        (pb.ConsumerHeartbeatRequest(group="g", member_epoch=0), False),
        (pb.ConsumerHeartbeatRequest(group="g", member_epoch=-1), False),
    ],
    ids=["reports nothing", "reports its partitions", "joins", "leaves"],
)
async def test_a_consumer_heartbeat_waits_for_others_only_if_it_reports_nothing(
    peers: CoordinatorPeers, coordinator: ScriptedCoordinator, request_: pb.ConsumerHeartbeatRequest, waits: bool
) -> None:
    loop = asyncio.get_running_loop()
    times = [loop.time()]
    for _ in range(5):
        await peers.ask(coordinator.registered, Group.CONSUMER_HEARTBEAT, request_, LIMIT_S)
        times.append(loop.time())
    if waits:
        assert times[-1] - times[0] >= 4 * 0.05
    else:
        assert min(after - before for before, after in itertools.pairwise(times[1:])) < 0.025


async def test_a_connection_that_breaks_under_them_is_made_again(
    peers: CoordinatorPeers, coordinator: ScriptedCoordinator
) -> None:
    """All that were under way hear that nobody answers, and look for the coordinator again."""
    coordinator.gate.clear()
    owner = coordinator.registered
    lost = [asyncio.create_task(beat(peers, owner, 0)) for _ in range(3)]
    await until(lambda: coordinator.beats == [0, 0, 0])
    await coordinator.server.kill()
    outcomes = await asyncio.gather(*lost, return_exceptions=True)
    assert [each.code for each in outcomes if isinstance(each, OttlaError)] == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 3
    with pytest.raises(OttlaError) as raised:
        await beat(peers, owner, 0)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    coordinator.gate.set()
    await coordinator.start(int(owner.address.rpartition(":")[2]))
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                assert await beat(peers, owner, 0) == ErrorCode.NONE
            except OttlaError:
                await asyncio.sleep(0.02)
            else:
                return


async def test_who_waits_for_a_coordinator_that_goes_is_told_so(
    peers: CoordinatorPeers, coordinator: ScriptedCoordinator, on_change: list[Changed]
) -> None:
    """Its connection is closed before the heartbeat has been sent."""
    owner = coordinator.registered
    assert await beat(peers, owner, 0) == ErrorCode.NONE
    waits = asyncio.create_task(beat(peers, owner, 0))
    await asyncio.sleep(0)
    on_change[0](ClusterImage("c", coordinators={("group", 0): owner}), ClusterImage("c"))
    with pytest.raises(OttlaError) as raised:
        await asyncio.wait_for(waits, LIMIT_S)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_a_coordinator_that_hangs_is_not_waited_for(
    peers: CoordinatorPeers, coordinator: ScriptedCoordinator
) -> None:
    coordinator.gate.clear()
    with pytest.raises(OttlaError) as raised:
        await beat(peers, coordinator.registered, 0, 0.2)
    assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_each_coordinator_hears_its_own(peers: CoordinatorPeers, coordinator: ScriptedCoordinator) -> None:
    """The shard of a group has moved: whoever asks again asks the other."""
    other = ScriptedCoordinator()
    await other.start()
    told = await asyncio.gather(beat(peers, coordinator.registered, 16), beat(peers, other.registered, 0))
    assert [*told] == [ErrorCode.NOT_COORDINATOR, ErrorCode.NONE]
    assert (coordinator.beats, other.beats) == ([16], [0])
    await other.server.kill()
