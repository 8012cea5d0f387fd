"""What an owner's calls come to, over the log in memory and over real brokers: one suite. Then whole coordinators."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from batches import NOON
from coordinators import RegisteredCoordinator
from owners import Book, get, put
from waiting import LIMIT_S, until

import ottla
from ottla_core.coordination.batches import read_batches, seal_records
from ottla_core.coordination.broker_log import BrokerShardLog
from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.memory_log import MemoryShardLog
from ottla_core.coordination.runtime import OwnedShards
from ottla_core.coordination.shard import Entry, Marker, TransactionProducer
from ottla_core.coordination.shard_log import (
    Append,
    Appended,
    Batches,
    Call,
    Check,
    Confirmed,
    Fenced,
    Mismatch,
    Read,
    Rejected,
    Result,
    ShardLog,
    Unknown,
)
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.rpc.aio import AioPeer
from ottla_core.telemetry import Metrics
from ottla_proto.contracts import Controller
from ottla_proto.controller_pb2 import ReleaseShardRequest
from ottla_stack.cluster import Cluster

FIRST, OTHER, SECOND = ShardFence(1_000, 5), ShardFence(1_000, 6), ShardFence(1_001, 6)
TIMEOUT_S = 10.0
PRODUCER = TransactionProducer(77, 2)
ROUND = (Entry(b"c", b"d"), Entry(b"a", b"x", PRODUCER), Marker(PRODUCER, True, 9), Entry(b"e", b"e"))
UNUSED = 3  # a shard that no coordinator has


def entries(*values: bytes) -> bytes:
    return seal_records([Entry(value, value) for value in values], NOON)


async def examine(log: ShardLog) -> None:
    """A shard from its first fence to its second owner. `docs/design/shards.md` in calls."""

    async def ask(owner: ShardFence, call: Call) -> Result:
        """What is known in the end: a broker may not have heard yet that it leads."""
        give_up_at = asyncio.get_running_loop().time() + LIMIT_S
        while isinstance(result := await log.call(UNUSED, owner, call, timeout_s=TIMEOUT_S), Unknown):
            assert asyncio.get_running_loop().time() < give_up_at, result.error
            await asyncio.sleep(0.01)
        return result

    fence = Append(0, seal_fence(FIRST, NOON))
    assert await ask(FIRST, Append(0, entries(b"a"))) == Fenced()
    assert await ask(FIRST, Append(4, fence.batches)) == Mismatch(0)
    assert await ask(FIRST, fence) == Appended(0, 1)
    assert await ask(FIRST, fence) == Appended(0, 1)
    assert await ask(OTHER, Append(1, seal_fence(OTHER, NOON))) == Fenced()
    two = Append(1, entries(b"a", b"b"))
    assert await ask(FIRST, two) == Appended(1, 3)
    assert await ask(FIRST, two) == Appended(1, 3)  # a repeat
    assert await ask(FIRST, Append(1, entries(b"a", b"c"))) == Mismatch(3)
    assert await ask(FIRST, Append(2, entries(b"b"))) == Mismatch(3)
    assert await ask(FIRST, Append(4, entries(b"b"))) == Mismatch(3)
    assert await ask(FIRST, Check(3)) == Confirmed()
    assert isinstance(await ask(FIRST, Check(4)), Mismatch)
    assert await ask(OTHER, Check(3)) == Fenced()
    mixed = Append(3, seal_records(ROUND, NOON))
    assert await ask(FIRST, mixed) == Appended(3, 7)
    assert await ask(FIRST, mixed) == Appended(3, 7)
    for other in ((*ROUND[:-1], Entry(b"f", b"f")), (*ROUND, ROUND[0]), ROUND[1:]):
        assert await ask(FIRST, Append(3, seal_records(other, NOON))) == Mismatch(7)
    assert await ask(SECOND, Append(1, seal_fence(SECOND, NOON))) == Mismatch(7)
    assert await ask(SECOND, Append(7, seal_fence(SECOND, NOON))) == Appended(7, 8)
    assert await ask(SECOND, Append(8, entries(b"c"))) == Appended(8, 9)
    for late in (fence, two, mixed, Append(9, entries(b"d")), Check(3)):
        assert await ask(FIRST, late) == Fenced()
    read = await ask(SECOND, Read(0))
    assert isinstance(read, Batches)
    assert read.high_watermark == 9
    assert [tuple(batch) for batch in read_batches(read.data)] == [
        (1, [], [], FIRST),
        (3, [(b"a", b"a"), (b"b", b"b")], [], None),
        (4, [(b"c", b"d")], [], None),
        (5, [], [ROUND[1]], None),
        (6, [], [ROUND[2]], None),
        (7, [(b"e", b"e")], [], None),
        (8, [], [], SECOND),
        (9, [(b"c", b"c")], [], None),
    ]
    rest = await ask(SECOND, Read(8))
    assert isinstance(rest, Batches)
    assert read.data.endswith(rest.data)
    assert [batch.next_offset for batch in read_batches(rest.data)] == [9]
    assert await ask(SECOND, Read(9)) == Batches(b"", 9)


class Process(RegisteredCoordinator):
    """A coordinator whose shards are books."""

    def __init__(self, cluster: Cluster, instance_id: int) -> None:
        super().__init__(cluster._store, instance_id)
        self.log = BrokerShardLog("group", lambda: self.image)
        self.shards: OwnedShards[Book] = OwnedShards(
            "group",
            instance_id,
            lambda: self.seat.epoch,
            self.log,
            lambda shard: Book(),
            self._release,
            metrics=Metrics(),
            limits=ShardLimits(unproved_s=10.0, append_s=10.0),
        )

    async def start(self) -> None:
        await self.shards.start()
        await super().start()
        self.follower.on_change(self.shards.on_image)
        self.shards.on_image(self.image, self.image)

    async def stop(self) -> None:
        await self.shards.stop()
        await self.log.stop()
        await super().stop()

    async def kill(self) -> None:
        await self.shards.kill()
        await self.log.stop()
        await super().kill()

    async def _release(self, shard: int, epoch: int) -> None:
        controller = self.image.controller
        assert controller is not None
        peer = AioPeer(controller.address)
        request = ReleaseShardRequest(
            kind="group",
            shard=shard,
            shard_epoch=epoch,
            instance_id=self.id,
            instance_epoch=self.seat.epoch or 0,
        )
        try:
            await peer.call(Controller.RELEASE_SHARD, request, timeout=TIMEOUT_S)
        finally:
            await peer.close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_coordinators=0) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.configs.set({"offsets.topic.num.partitions": 4})
        yield cluster


def run(cluster: Cluster, work: Any) -> Any:
    return cluster.run(work, limit_s=3 * LIMIT_S)


async def ask_until_answered(processes: list[Process], shard: int, decide: Any) -> Any:
    """As a client does: whoever owns the shard, again and again."""
    give_up_at = asyncio.get_running_loop().time() + 2 * LIMIT_S
    while True:
        for process in processes:
            with contextlib.suppress(OttlaError):
                return await process.shards.ask_shard(shard, decide, timeout=TIMEOUT_S)
        assert asyncio.get_running_loop().time() < give_up_at, f"nobody answers for shard {shard}"
        await asyncio.sleep(0.02)


async def test_the_log_in_memory() -> None:
    await examine(MemoryShardLog())


def test_the_log_on_brokers(cluster: Cluster) -> None:
    async def work() -> None:
        coordinator = RegisteredCoordinator(cluster._store, 1)
        await coordinator.start()
        await coordinator.until_image(lambda image: len(coordinator.owned()) == 4)
        log = BrokerShardLog("group", lambda: coordinator.image)
        await log.start()
        await examine(log)
        nobody = await log.call(4, FIRST, Check(0), timeout_s=TIMEOUT_S)
        assert isinstance(nobody, Rejected)
        assert nobody.error.code == ErrorCode.LEADER_NOT_AVAILABLE
        await log.stop()
        await coordinator.stop()

    run(cluster, work())


def test_what_was_acknowledged_outlives_leaders_and_owners(cluster: Cluster) -> None:
    processes: list[Process] = []
    acknowledged: dict[bytes, bytes] = {}

    async def start() -> None:
        for instance_id in (1, 2):
            processes.append(Process(cluster, instance_id))
            await processes[-1].start()
        await until(lambda: sum(len(process.shards.owned()) for process in processes) == 4)

    async def write(first: int, count: int) -> None:
        async def one(n: int) -> None:
            key, value = b"k%d" % (n % 20), b"%d" % n
            await ask_until_answered(processes, n % 4, put(key + b"-%d" % n, value))
            acknowledged[key + b"-%d" % n] = value

        await asyncio.gather(*(one(n) for n in range(first, first + count)))

    async def check() -> None:
        for key, value in acknowledged.items():
            assert await ask_until_answered(processes, int(value) % 4, get(key)) == value

    async def kill_an_owner() -> None:
        killed = processes.pop(0)
        await killed.kill()

    run(cluster, start())
    run(cluster, write(0, 100))
    writing = asyncio.run_coroutine_threadsafe(write(100, 200), cluster._loop)
    cluster.brokers[0].kill()
    writing.result(3 * LIMIT_S)
    cluster.brokers[0].restart()
    run(cluster, kill_an_owner())
    run(cluster, write(300, 100))
    run(cluster, check())
    assert len(acknowledged) == 400
    for process in processes:
        run(cluster, process.stop())
