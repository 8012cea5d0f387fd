"""Markers reach every partition, whatever fails on the way, and as long as their shard is owned under its epoch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from transactions import A, B, Producer, Shard
from waiting import until

from ottla_core.cluster.image import Broker, ClusterImage, Coordinator, Partition, Topic
from ottla_core.cluster.image import Shard as OwnedShard
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId, TopicPartition
from ottla_core.telemetry import Metrics
from ottla_proto.common_pb2 import Error
from ottla_txn_coordinator import markers
from ottla_txn_coordinator.ending import Ending
from ottla_txn_coordinator.machines.states import TransactionState
from ottla_txn_coordinator.machines.transaction import SendMarkers
from ottla_txn_coordinator.marker_calls import Destination, Lateness, MarkerToWrite, marker_of
from ottla_txn_coordinator.markers import CALLS_AT_ONCE, MOST_OF_A_CALL, TxnMarkers

pytestmark = [pytest.mark.rule(35)]

SHARD, EPOCH = 3, 7
IN_TIME, LATE = Lateness.IN_TIME, Lateness.LATE
OFFSETS = TopicPartition("__consumer_offsets", 1)
Write = Callable[[Destination, Sequence[MarkerToWrite]], Any]


def topic_id(name: str) -> TopicId:
    return TopicId((name.encode() + bytes(16))[:16])


def image(**leaders: int) -> ClusterImage:
    """`t`'s leaders by partition p0, p1, …; -1 for none. Shard 1 of groups is coordinator 4's."""
    t, groups = Topic("t", topic_id("t"), len(leaders)), Topic("__consumer_offsets", topic_id("g"), 2)
    parts = {PartitionId(t.id, n): Partition((0, 1), leader) for n, leader in enumerate(leaders.values())}
    return ClusterImage(
        "c",
        brokers={n: Broker(n, 1, "", f"b{n}") for n in range(2)},
        topics={t.name: t, groups.name: groups},
        partitions=parts,
        coordinators={("group", 4): Coordinator("group", 4, 9, "g4")},
        shards={("group", 1): OwnedShard(4, 9, 2)},
    )


class Held:
    """Shards, the metadata and whoever writes markers, as a test says. `calls` are those that came."""

    def __init__(self) -> None:
        self.shard = Shard().load()
        self.image = image(p0=0, p1=1)
        self.behind: ClusterImage | None = None
        self.unavailable = 0
        self.calls: list[tuple[str, list[MarkerToWrite]]] = []
        self.destinations: list[Destination] = []
        self.script: Write = lambda destination, markers: [Error()] * len(markers)
        self.completing: list[OttlaError] = []
        self.markers = TxnMarkers(self, self, self, Metrics())  # type: ignore[arg-type]  # it is all three

    def begin(self, number: int, decide: Any, *, timeout: float, at_leisure: bool) -> asyncio.Future[Any]:
        assert number == SHARD
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self.completing:
            response.set_exception(self.completing.pop())
        else:
            response.set_result(self.shard.take(decide(self.shard.machine, self.shard.now)))
        return response

    async def catch_up(self, timeout: float) -> ClusterImage:
        if self.unavailable:
            self.unavailable -= 1
            raise StoreUnavailableError("away", indefinite=False)
        self.image = self.behind or self.image
        return self.image

    async def write(self, destination: Destination, markers: Sequence[MarkerToWrite]) -> Any:
        self.calls.append((destination.address, list(markers)))
        self.destinations.append(destination)
        written = self.script(destination, markers)
        return await written if asyncio.iscoroutine(written) else written

    def end(self, *partitions: TopicPartition, name: str = "x", epoch: int = EPOCH, committed: bool = True) -> Producer:
        """Decide the end of a transaction with these partitions; its markers are to be sent."""
        producer: Producer = self.shard.init(name=name)
        assert self.shard.add(producer, *partitions, name=name) is None
        self.shard.end(producer, committed, name=name)
        self.markers.on_effect(SHARD, epoch, SendMarkers(name, self.shard.record(name)))
        return producer

    def is_complete(self, name: str = "x") -> bool:
        return self.shard.record(name).state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)

    def written(self) -> list[TopicPartition]:
        return [marker.partition for _, markers in self.calls for marker in markers]


@pytest.fixture
async def held() -> AsyncIterator[Held]:
    held = Held()
    await held.markers.start()
    yield held
    await held.markers.stop()


@pytest.mark.parametrize("committed", [True, False])
async def test_a_transaction_is_complete_once_each_partition_has_its_marker(held: Held, committed: bool) -> None:
    producer = held.end(A, B, OFFSETS, committed=committed)
    assert held.markers.left(SHARD, "x") == [OFFSETS, A, B]
    await until(held.is_complete)
    assert sorted(address for address, _ in held.calls) == ["b0", "b1", "g4"]
    assert held.markers.left(SHARD, "x") == []
    marker = marker_of(held.calls[0][1][0].ending)
    assert (marker.producer.epoch, marker.committed) == (producer.epoch + 1, committed)
    assert (marker.coordinator_epoch, marker.transaction_version) == (EPOCH, 2)
    assert held.markers._pending() == 0
    assert not held.markers._endings[SHARD, EPOCH]
    assert not held.markers._queues


async def test_what_waits_for_one_leader_goes_there_in_one_call(held: Held) -> None:
    gate = asyncio.Event()

    async def wait(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        await gate.wait()
        return [Error()] * len(markers)

    held.script = wait
    for n in range(2 * CALLS_AT_ONCE):
        held.end(A, name=f"first{n}")
    await until(lambda: len(held.calls) == CALLS_AT_ONCE or len(held.written()) == 2 * CALLS_AT_ONCE)
    for n in range(MOST_OF_A_CALL + 500):
        held.end(A, name=f"x{n}")
    await until(lambda: not held.markers._to_route)
    before = len(held.calls)
    assert before <= CALLS_AT_ONCE
    gate.set()
    await until(lambda: all(held.is_complete(name) for name, _ in held.shard.machine.records()))
    assert len(held.calls) - before <= 3
    assert max(len(markers) for _, markers in held.calls) <= MOST_OF_A_CALL


async def test_what_comes_while_a_call_is_under_way_goes_with_the_next_one(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(markers, "SLOW_S", 1_000.0)
    gate = asyncio.Event()

    async def wait(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        await gate.wait()
        return [Error()] * len(markers)

    held.script = wait
    held.end(A, name="first")
    await until(lambda: held.calls)
    for n in range(3):
        held.end(A, name=f"x{n}")
        await until(lambda: not held.markers._to_route)
    assert len(held.calls) == 1
    gate.set()
    await until(lambda: all(held.is_complete(f"x{n}") for n in range(3)))
    assert [len(markers) for _, markers in held.calls] == [1, 3]


async def test_a_call_that_is_slow_holds_up_its_own_markers_alone(held: Held) -> None:
    async def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        if len(held.calls) == 1:
            await asyncio.Event().wait()
        return [Error()] * len(markers)

    held.script = write
    held.end(A, name="slow")
    await until(lambda: held.calls)
    held.end(A, name="x")
    await until(lambda: held.is_complete("x"))
    assert not held.is_complete("slow")


@pytest.mark.story("a-late-partition-holds-up-its-leader")
async def test_a_partition_that_was_late_shares_its_calls_with_late_ones_alone(held: Held) -> None:
    """A call is answered when its slowest partition is done. A leader gets four calls at once, so four late partitions
    held everything up."""
    held.image = image(p0=0, p1=0)
    never, late, now = asyncio.Event(), Error(code=ErrorCode.REQUEST_TIMED_OUT), Error()

    async def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        if destination.late:
            await never.wait()
        return [late if marker.partition == A else now for marker in markers]

    held.script = write
    for n in range(CALLS_AT_ONCE):
        held.end(A, name=f"late{n}")
        await until(lambda n=n: sum(destination.late for destination in held.destinations) == n + 1)
    held.end(B, name="x")
    await until(lambda: held.is_complete("x"))
    held.end(A, B, name="both")
    await until(lambda: held.markers.left(SHARD, "both") == [A])
    tried = [m.ending.transactional_id for _, markers in held.calls for m in markers if m.partition == A]
    assert tried.count("both") == 0, "it waits for a call of late ones, without a try among the others"


async def test_a_partition_that_was_late_goes_with_the_others_again_once_a_marker_is_written(held: Held) -> None:
    answers = iter([Error(code=ErrorCode.REQUEST_TIMED_OUT)])
    held.script = lambda destination, markers: [next(answers, Error()) for _ in markers]
    for name in ("x", "y"):
        held.end(A, name=name)
        await until(lambda name=name: held.is_complete(name))
    assert [destination.late for destination in held.destinations] == [IN_TIME, LATE, IN_TIME]


@pytest.mark.story("a-call-that-ended-by-its-deadline-was-not-late")
async def test_all_partitions_of_a_call_that_ends_by_its_deadline_are_late(held: Held) -> None:
    """The call was sent again with the same short deadline, for ever, and with whatever else went there."""
    held.image = image(p0=0, p1=0)

    def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        if not destination.late and any(marker.partition == A for marker in markers):
            raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, "its deadline is over")
        return [Error()] * len(markers)

    held.script = write
    held.end(A, name="slow")
    await until(lambda: held.is_complete("slow"))
    assert [destination.late for destination in held.destinations] == [IN_TIME, LATE]
    held.end(B, name="x")
    await until(lambda: held.is_complete("x"))
    assert not held.destinations[-1].late


@pytest.mark.story("one-of-the-late-held-up-the-others")
async def test_who_holds_up_a_call_of_late_ones_has_calls_of_its_own(held: Held) -> None:
    """This may happen to a shard of groups whose coordinator ignores the request's timeout."""
    held.image = image(p0=0, p1=0, p2=0)
    others = {"x": B, "y": TopicPartition("t", 2)}

    def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        if any(marker.partition == A for marker in markers):
            raise OttlaError(ErrorCode.REQUEST_TIMED_OUT, "its deadline is over")
        return [Error()] * len(markers)

    held.script = write
    held.end(A, name="stuck")
    for name, partition in others.items():
        held.end(partition, name=name)
    await until(lambda: all(map(held.is_complete, others)))
    assert {marker.partition for marker in held.calls[0][1]} == {A, *others.values()}, "it began with one call"
    assert held.markers._late == {A: Lateness.ALONE}
    calls = len(held.calls)
    held.end(*others.values(), name="z")
    await until(lambda: held.is_complete("z"))
    since = zip(held.destinations[calls:], held.calls[calls:], strict=True)
    kinds = {destination.late for destination, (_, markers) in since if markers[0].partition != A}
    assert kinds == {IN_TIME}, "they are late no more"


@pytest.mark.story("a-shard-that-left-stayed-late")
async def test_a_partition_is_late_for_as_long_as_an_end_waits_for_it(held: Held) -> None:
    late = Error(code=ErrorCode.REQUEST_TIMED_OUT)
    held.script = lambda destination, markers: [late] * len(markers)
    held.end(A, B, name="x")
    held.end(B, name="y", epoch=EPOCH + 2)
    await until(lambda: held.markers._late.keys() == {A, B})
    held.markers.on_left(SHARD, EPOCH)
    assert held.markers._late.keys() == {B}, "another end waits for it still"
    held.markers.on_left(SHARD, EPOCH + 2)
    assert not held.markers._late


async def test_what_comes_of_a_call_after_its_shard_has_left_is_not_noted(held: Held) -> None:
    gate = asyncio.Event()

    async def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        await gate.wait()
        return [Error(code=ErrorCode.REQUEST_TIMED_OUT)] * len(markers)

    held.script = write
    held.end(A)
    await until(lambda: held.calls)
    held.markers.on_left(SHARD, EPOCH)
    gate.set()
    await until(lambda: not held.markers._queues)
    assert not held.markers._late


async def test_a_slow_or_failing_destination_holds_up_no_other(held: Held) -> None:
    async def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        if destination.address == "b0":
            await asyncio.Event().wait()
        return [Error()] * len(markers)

    held.script = write
    held.end(A, B, name="slow")
    for n in range(20):
        held.end(B, name=f"x{n}")
    await until(lambda: all(held.is_complete(f"x{n}") for n in range(20)))
    assert held.markers.left(SHARD, "slow") == [A]


async def test_a_destination_that_fails_is_called_ever_less_often_and_by_one_call_at_a_time(held: Held) -> None:
    def fail(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        raise OttlaError(ErrorCode.NETWORK_EXCEPTION, "it is away")

    held.script = fail
    held.end(A, name="x0")
    await asyncio.sleep(0.5)
    assert len(held.calls) < 20
    for n in range(1, 3_000):
        held.end(A, name=f"x{n}")
    held.script = lambda destination, markers: [Error()] * len(markers)
    await until(lambda: all(held.is_complete(f"x{n}") for n in range(3_000)))


async def test_a_leader_that_moves_is_followed_with_all_that_waited_for_it(held: Held) -> None:
    def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        if destination.address == "b0":
            raise ValueError("a bug even")
        return [Error()] * len(markers)

    held.script = write
    for n in range(100):
        held.end(A, name=f"x{n}")
    await until(lambda: bool(held.calls))
    held.image = image(p0=1, p1=1)
    await until(lambda: all(held.is_complete(f"x{n}") for n in range(100)))


async def test_a_partition_without_a_leader_or_a_group_without_an_owner_is_waited_for(held: Held) -> None:
    held.image = replace(image(p0=-1, p1=1), coordinators={})
    held.end(A, B, OFFSETS)
    await until(lambda: held.markers.left(SHARD, "x") == [OFFSETS, A])
    held.image = image(p0=0, p1=1)
    await until(held.is_complete)


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 12_345])
async def test_a_partition_that_fails_is_tried_again_and_no_other_twice(held: Held, code: int) -> None:
    failing = [3]

    def write(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        if destination.address == "b0" and failing[0]:
            failing[0] -= 1
            return [Error(code=code)] * len(markers)
        return [Error()] * len(markers)

    held.script = write
    held.end(A, B)
    await until(held.is_complete)
    assert sorted(held.written()) == [A, A, A, A, B]


@pytest.mark.rule(36)
@pytest.mark.parametrize("code", [ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
async def test_who_is_fenced_sends_its_marker_there_no_more(held: Held, code: int) -> None:
    held.script = lambda destination, markers: [Error(code=code)] * len(markers)
    held.end(A, B)
    await until(held.is_complete)
    assert sorted(held.written()) == [A, B]


async def test_a_partition_that_is_gone_needs_no_marker_but_not_by_metadata_that_is_behind(held: Held) -> None:
    held.behind, held.image = held.image, ClusterImage("c")
    held.unavailable = 2
    held.end(A, TopicPartition("gone", 0), TopicPartition("t", 99))
    await until(held.is_complete)
    assert held.written() == [A]


@pytest.mark.rule(36)
async def test_a_shard_that_has_left_sends_nothing_more_and_the_next_epoch_all_of_it(held: Held) -> None:
    gate = asyncio.Event()

    async def wait(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        await gate.wait()
        return [Error(code=ErrorCode.NOT_LEADER_OR_FOLLOWER)] * len(markers)

    held.script = wait
    held.end(A, B)
    await until(lambda: len(held.calls) == 2)
    held.markers.on_left(SHARD, EPOCH)
    gate.set()
    await asyncio.sleep(0.1)
    assert len(held.calls) == 2
    assert not held.is_complete()
    assert held.markers.left(SHARD, "x") == []
    held.script = lambda destination, markers: [Error()] * len(markers)
    held.markers.on_effect(SHARD, EPOCH + 2, SendMarkers("x", held.shard.record()))
    await until(held.is_complete)
    assert {marker_of(m.ending).coordinator_epoch for _, markers in held.calls[2:] for m in markers} == {EPOCH + 2}


async def test_who_waits_for_the_end_of_a_transaction_comes_right_behind_its_completion(held: Held) -> None:
    gate = asyncio.Event()

    async def wait(destination: Destination, markers: Sequence[MarkerToWrite]) -> list[Error]:
        await gate.wait()
        return [Error()] * len(markers)

    held.script = wait
    held.end(A, B)
    await held.markers.completing(SHARD, "x", 0.01)
    assert not held.is_complete(), "it waits no longer than it is to"
    await held.markers.completing(SHARD, "another", 60)
    await held.markers.completing(SHARD + 1, "x", 60)
    waiting = [asyncio.create_task(held.markers.completing(SHARD, "x", 60)) for _ in range(1_000)]
    cancelled = asyncio.create_task(held.markers.completing(SHARD, "x", 60))
    await asyncio.sleep(0)
    cancelled.cancel()
    assert not any(task.done() for task in waiting)
    gate.set()
    await asyncio.wait_for(waiting[0], 10)
    assert held.is_complete()
    await asyncio.wait_for(asyncio.gather(*waiting), 10)
    await held.markers.completing(SHARD, "x", 60)


@pytest.mark.story("a-stuck-end-delays-what-shares-its-call")
async def test_an_end_that_has_taken_longer_than_usual_holds_nobody_up(held: Held) -> None:
    """A broker adds to many transactions by one call, which was held up at each try of a stuck transaction."""
    loop = asyncio.get_running_loop()
    held.image = image(p0=-1, p1=-1)
    held.end(A)
    began = loop.time()
    await held.markers.completing(SHARD, "x", 0.1)
    assert loop.time() - began >= 0.09, "it is waited for as long as an end usually takes"
    for _ in range(100):
        waiting = asyncio.create_task(held.markers.completing(SHARD, "x", 0.1))
        for _ in range(3):
            await asyncio.sleep(0)
        assert waiting.done()


async def test_who_waits_for_the_end_of_a_transaction_does_not_wait_when_its_shard_has_left(held: Held) -> None:
    held.image = image(p0=-1, p1=-1)
    held.end(A)
    waiting = asyncio.create_task(held.markers.completing(SHARD, "x", 60))
    await asyncio.sleep(0)
    held.markers.on_left(SHARD, EPOCH)
    await asyncio.wait_for(waiting, 10)


async def test_complete_is_decided_until_it_is_durable(held: Held) -> None:
    held.completing = [OttlaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "late")] * 3
    held.end(A)
    await until(held.is_complete)
    assert held.written() == [A]


async def test_the_next_transaction_of_an_id_is_not_taken_for_the_last(held: Held) -> None:
    for n in range(50):
        producer = held.shard.record().producer if n else held.shard.init()
        held.shard.add(producer, A)
        held.shard.end(producer)
        held.markers.on_effect(SHARD, EPOCH, SendMarkers("x", held.shard.record()))
        await until(held.is_complete)
    await until(lambda: not held.markers._endings[SHARD, EPOCH])
    assert len(held.calls) == 50


async def test_what_completes_a_transaction_gives_up_once_the_next_one_ends(held: Held) -> None:
    """The record was written, and its response lost: with the shard gone meanwhile it would try for ever."""
    lost = OttlaError(ErrorCode.NOT_COORDINATOR, "gone")
    held.completing = [lost] * 1_000_000
    held.end(A)
    await until(lambda: len(held.completing) < 1_000_000)
    [first] = held.markers._endings[SHARD, EPOCH].values()
    held.markers.on_effect(SHARD, EPOCH, SendMarkers("x", held.shard.record()))
    held.markers.on_left(SHARD, EPOCH)
    await until(lambda: len(held.markers._tasks) == 1)  # the one that routes
    assert first.is_over


async def test_an_ending_knows_all_of_its_partitions() -> None:
    shard = Shard().load()
    shard.add(shard.init(), A, B)
    assert Ending(1, 2, "x", shard.record()).left == {A, B}
