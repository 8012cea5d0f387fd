"""Shards on three real brokers: what their owner has appended is there once, in order, whoever dies or is replaced."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest
from batches import NOON
from coordinators import RegisteredCoordinator
from kafka_clients import CLIENTS, Client
from shards import keyed
from waiting import LIMIT_S, until, wait_until

import ottla
from ottla_core.cluster import keys
from ottla_core.cluster.store import Delete
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import iter_headers
from ottla_core.records.fence import ShardFence, fence_of, seal_fence
from ottla_core.rpc.aio import AioPeer
from ottla_proto.contracts import Controller
from ottla_proto.controller_pb2 import ReleaseShardRequest
from ottla_stack.cluster import Cluster

OFFSETS = "__consumer_offsets"
TTL_S = 6


class Stage:
    """A cluster of three brokers and its coordinators, which run on the cluster's loop."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.coordinators: list[RegisteredCoordinator] = []

    def run(self, work: Any) -> Any:
        return self.cluster.run(work, limit_s=2 * LIMIT_S)

    def coordinator(self, instance_id: int) -> RegisteredCoordinator:
        async def start() -> RegisteredCoordinator:
            coordinator = RegisteredCoordinator(self.cluster._store, instance_id)
            await coordinator.start()
            return coordinator

        coordinator: RegisteredCoordinator = self.run(start())
        self.coordinators.append(coordinator)
        return coordinator

    def watched(self) -> float:
        """Return how many processes the controller has an open stream to."""
        controller = self.cluster._controller
        assert controller is not None
        assert controller.metrics is not None
        held: Any = controller.metrics.samples["ottla_controller_health_streams"][()]
        return float(held())

    def end(self, coordinator: RegisteredCoordinator, *, kill: bool = False) -> None:
        self.coordinators.remove(coordinator)
        self.run(coordinator.kill() if kill else coordinator.stop())

    def stored(self, number: int = 0) -> bytes:
        """What every broker has of one shard, once it is the same on all that run."""
        found: list[bytes] = []

        def equal() -> bool:
            found[:] = [
                b"".join(path.read_bytes() for path in sorted(broker.data_dir.glob(f"{self.topic_id}-{number}/*.log")))
                for broker in self.cluster.brokers
                if broker.running
            ]
            return all(each == found[0] for each in found)

        wait_until(equal)
        return found[0]

    @property
    def topic_id(self) -> str:
        return self.coordinators[0].image.topics[OFFSETS].id.hex()


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Cluster(brokers=3, group_coordinators=0) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.configs.set({"offsets.topic.num.partitions": 4})
        stage = Stage(cluster)
        yield stage
        for coordinator in list(stage.coordinators):
            stage.end(coordinator)


def values(stage: Stage, number: int = 0) -> list[int]:
    """Return the values of the shard, as a consumer reads them."""
    return [int(r.value) for r in stage.cluster.read(OFFSETS) if r.partition == number]


def fences(data: bytes) -> list[ShardFence]:
    found = (fence_of(data[at : at + header.size_bytes]) for at, header in iter_headers(data))
    return [fence for fence in found if fence is not None]


def check_no_gap(data: bytes) -> None:
    next_offset = 0
    for _, header in iter_headers(data):
        assert header.base_offset == next_offset
        next_offset = header.next_offset


def test_a_leader_that_dies_under_an_owner_leaves_no_gap_and_nothing_twice(stage: Stage) -> None:
    """Answers are lost on top of it, by a chance that is the same in every run."""
    owner = stage.coordinator(1)
    chance = random.Random(7)
    acknowledged: list[int] = []

    async def write(first: int, count: int, fence: ShardFence, expected: int) -> int:
        for n in range(first, first + count):
            if chance.random() < 0.3:  # the answer is lost: this call does not wait for it
                await owner.append_once(0, fence, expected, keyed(b"%d" % n), timeout_s=0)
            response = await owner.append(0, fence, expected, keyed(b"%d" % n))
            assert (response.error.code, response.base_offset) == (0, expected)
            acknowledged.append(n)
            expected += 1
        return expected

    fence, expected = stage.run(owner.take(0, NOON))
    for round_number in range(3):
        leader = owner.place(0)[1].leader
        writing = asyncio.run_coroutine_threadsafe(write(round_number * 60, 60, fence, expected), stage.cluster._loop)
        wait_until(lambda reached=round_number * 60 + 20: len(acknowledged) >= reached)
        stage.cluster.brokers[leader].kill()
        expected = writing.result(3 * LIMIT_S)
        stage.cluster.brokers[leader].restart()
        wait_until(lambda: {*owner.place(0)[1].isr} == {0, 1, 2})
    assert values(stage) == acknowledged == list(range(180))
    data = stage.stored()
    check_no_gap(data)
    assert fences(data) == [fence]


def test_a_former_owner_writes_nothing_more(stage: Stage) -> None:
    first = stage.coordinator(1)
    was, expected = stage.run(first.take(0, NOON))
    assert stage.run(first.append(0, was, expected, keyed(b"0"))).base_offset == expected
    stage.run(first.seat.kill())  # its process goes on, and knows of nothing
    stage.run(_remove(stage, first))
    second = stage.coordinator(2)
    wait_until(lambda: len(second.owned()) == 4)
    new, expected = stage.run(second.take(0, NOON))
    assert new.epoch == was.epoch + 1
    late = stage.run(first.append_once(0, was, expected, keyed(b"late")))
    assert late.error.code == ErrorCode.SHARD_FENCED
    assert ShardFence(late.current_fence.shard_epoch, late.current_fence.incarnation) == new
    assert stage.run(first.append_once(0, was, expected, seal_fence(was, NOON))).error.code == ErrorCode.SHARD_FENCED
    assert stage.run(first.check(0, was, expected)).error.code == ErrorCode.SHARD_FENCED
    assert stage.run(second.append(0, new, expected, keyed(b"1"))).base_offset == expected
    assert values(stage) == [0, 1]
    assert fences(stage.stored()) == [was, new]


async def _remove(stage: Stage, coordinator: RegisteredCoordinator) -> None:
    """What the end of its lease does."""
    text = keys.key_text("ottla", keys.coordinator("group", coordinator.id))
    await stage.cluster._store.txn([], [Delete(text)], timeout=1.0)


def test_an_idle_check_is_quick_and_right(stage: Stage) -> None:
    owner = stage.coordinator(1)
    fence, expected = stage.run(owner.take(0, NOON))
    took_s = []
    for _ in range(20):
        began_at = time.perf_counter()
        response = stage.run(owner.check(0, fence, expected))
        took_s.append(time.perf_counter() - began_at)
        assert (response.error.code, response.high_watermark) == (0, expected)
    took_s.sort()
    print(f"idle check: median {took_s[10] * 1000:.1f} ms, worst {took_s[-1] * 1000:.1f} ms")
    assert took_s[10] < 0.25, "no long poll: a parked fetch would take half a second"
    response = stage.run(owner.check(0, fence, expected + 1))
    assert response.error.code == ErrorCode.OFFSET_MISMATCH


def test_shards_follow_the_coordinators(stage: Stage) -> None:
    one = stage.coordinator(1)
    wait_until(lambda: len(one.owned()) == 4)
    two = stage.coordinator(2)
    wait_until(lambda: (len(one.owned()), len(two.owned())) == (2, 2))
    held = {n: shard.epoch for n, shard in two.owned().items()}
    owners = {n: one.image.owner_of("group", n) for n in range(4)}
    assert {n for n, owner in owners.items() if owner is not None and owner.id == 2} == held.keys()
    # The death of a process that the controller has never reached is proven only by its lease.
    wait_until(lambda: stage.watched() == len(stage.cluster.brokers) + len(stage.coordinators))
    began_at = time.monotonic()
    stage.end(two, kill=True)
    wait_until(lambda: len(one.owned()) == 4)
    took_s = time.monotonic() - began_at
    print(f"taken over after {took_s:.2f} s")
    assert took_s < TTL_S / 2, "its connection tells, long before its lease"
    assert {n: shard.epoch for n, shard in one.owned().items() if n in held} == {n: e + 1 for n, e in held.items()}
    began_anew = stage.coordinator(2)
    wait_until(lambda: len(began_anew.owned()) == 2)
    assert len({s.epoch for s in began_anew.image.shards.values()}) > 1


def test_who_falls_silent_loses_its_shards_with_its_lease(stage: Stage) -> None:
    """A stopped process keeps its connections: only its lease tells."""
    silent, other = stage.coordinator(1), stage.coordinator(2)
    wait_until(lambda: len(other.owned()) == 2)
    began_at = time.monotonic()
    stage.run(silent.seat.kill())
    wait_until(lambda: len(other.owned()) == 4)
    took_s = time.monotonic() - began_at
    print(f"taken over after {took_s:.2f} s")
    assert took_s < TTL_S + 20


def test_an_owner_that_lost_track_gets_a_higher_epoch(stage: Stage) -> None:
    owner = stage.coordinator(1)
    fence, expected = stage.run(owner.take(0, NOON))
    controller = owner.image.controller
    assert controller is not None
    request = ReleaseShardRequest(
        kind="group", shard=0, shard_epoch=fence.epoch, instance_id=1, instance_epoch=fence.incarnation
    )

    async def release() -> Any:
        peer = AioPeer(controller.address)
        try:
            return await peer.call(Controller.RELEASE_SHARD, request, timeout=LIMIT_S)
        finally:
            await peer.close()

    released = stage.run(release())
    assert (released.owner, released.incarnation, released.shard_epoch) == (1, fence.incarnation, fence.epoch + 1)
    assert stage.run(release()).shard_epoch == fence.epoch + 1, "asked again, it is the same"
    wait_until(lambda: owner.owned()[0].epoch == fence.epoch + 1)
    new, _ = stage.run(owner.take(0, NOON))
    assert stage.run(owner.append_once(0, fence, expected + 1, keyed(b"x"))).error.code == ErrorCode.SHARD_FENCED
    assert fences(stage.stored()) == [fence, new]


def test_the_topic_is_made_as_safe_as_the_cluster_allows(stage: Stage) -> None:
    owner = stage.coordinator(1)
    wait_until(lambda: len(owner.owned()) == 4)
    topic = owner.image.topics[OFFSETS]
    assert (topic.partition_count, topic.configs["min.insync.replicas"]) == (4, "2")
    assert all(len(p.replicas) == 3 for _, p in owner.image.partitions_of(topic))


def test_the_topic_grows_with_the_cluster_while_it_is_written(stage: Stage) -> None:
    for late in (1, 2):
        stage.cluster.brokers[late].stop()
    owner = stage.coordinator(1)
    fence, expected = stage.run(owner.take(0, NOON))
    assert owner.place(0)[1].replicas == (0,)

    async def write(count: int) -> None:
        for n in range(count):
            response = await owner.append(0, fence, expected + n, keyed(b"%d" % n))
            assert (response.error.code, response.base_offset) == (0, expected + n)

    writing = asyncio.run_coroutine_threadsafe(write(300), stage.cluster._loop)
    for late in (1, 2):
        stage.cluster.brokers[late].restart()
    writing.result(3 * LIMIT_S)
    wait_until(lambda: owner.place(0)[0].configs["min.insync.replicas"] == "2")
    wait_until(lambda: all({*p.isr} == {0, 1, 2} for _, p in owner.image.partitions_of(owner.place(0)[0])))
    assert values(stage) == list(range(300))
    check_no_gap(stage.stored())


def test_clients_write_to_no_internal_topic(stage: Stage) -> None:
    owner = stage.coordinator(1)
    stage.run(owner.take(0, NOON))
    with pytest.raises(OttlaError) as refused:
        stage.cluster.produce(OFFSETS, [b"x"])
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    with ottla.Admin(stage.cluster.bootstrap) as admin:
        for change in (
            lambda: admin.topics.delete(OFFSETS),
            lambda: admin.topics.delete_records(OFFSETS, {0: 1}),
            lambda: admin.topics.create("__transaction_state"),
        ):
            with pytest.raises(OttlaError) as refused:
                change()
            assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert values(stage) == []


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_kafka_clients_read_over_a_fence(stage: Stage, client: Client) -> None:
    owner = stage.coordinator(1)
    fence, expected = stage.run(owner.take(0, NOON))
    stage.run(owner.append(0, fence, expected, keyed(b"0", b"1")))
    stage.run(_released_and_taken(stage, owner, fence))
    found = client.consume(stage.cluster.bootstrap, OFFSETS, 3)
    assert [record.value for record in found] == [b"0", b"1", b"2"]


async def _released_and_taken(stage: Stage, owner: RegisteredCoordinator, fence: ShardFence) -> None:
    """Another fence in the middle of the log, and a record behind it."""
    await owner.seat.stop()
    await owner.seat.start()
    await until(lambda: 0 in owner.owned())
    new, expected = await owner.take(0, NOON)
    assert new.epoch > fence.epoch
    await owner.append(0, new, expected, keyed(b"2"))
