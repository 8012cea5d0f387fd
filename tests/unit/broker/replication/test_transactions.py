"""Transactions in a partition as a broker holds it: markers, and what readers of committed records get, and when."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from led import Led
from logs import SMALL, values_batch
from produced import produced
from replicas import PARTITION, Brokers
from transactional_logs import end_of, transactions_told_by
from waiting import until

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.metrics import add_metrics
from ottla_broker.partition_requests.transaction_markers import (
    MOST_MARKERS,
    MarkersToWrite,
    check_markers,
    write_markers,
)
from ottla_broker.replication.fetch import Consumers, FetchLimits, FetchResult, PartitionFetch, fetch
from ottla_broker.replication.leading import Leading
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import LATEST_TIMESTAMP, PartitionId
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.records.leader_epochs import EpochStart
from ottla_core.telemetry import Metrics

LONG = FetchLimits(60, 1, 1 << 20)
AT_ONCE = FetchLimits(0, 1, 1 << 20)
BOTH = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2))


def transactional(sequence: int, *, producer_id: int = 7, epoch: int = 0, value: bytes = b"v") -> bytes:
    return produced(sequence, producer_id=producer_id, epoch=epoch, value=value, attributes=TRANSACTIONAL)


@pytest.fixture
def led(tmp_path: Path) -> Led:
    return Led(tmp_path, count=1)


@pytest.fixture
def replica(led: Led) -> Replica:
    return led.replicas[led.id(0)]


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    brokers = Brokers(tmp_path, (1, 2), replace(SMALL, min_insync_replicas=2))
    brokers.apply(BOTH)
    return brokers


async def committed(
    led: Led, offset: int = 0, limits: FetchLimits = AT_ONCE, *, read_committed: bool = True
) -> FetchResult:
    consumers = Consumers(cast(Any, led), None, any_replica=False, read_committed=read_committed)
    [part] = await fetch([PartitionFetch(led.id(0), 1, offset, 1 << 20)], consumers, limits)
    return part


def error_of(call: Any, *args: Any, **kwargs: Any) -> ErrorCode:
    with pytest.raises(OttlaError) as caught:
        call(*args, **kwargs)
    return ErrorCode(caught.value.code)


@pytest.mark.rule(17, 37, 38)
async def test_readers_of_committed_records_end_at_the_last_stable_offset(led: Led, replica: Replica) -> None:
    replica.led_in(None).append(values_batch(b"plain"))
    replica.led_in(None).append(transactional(0), transactional=True)
    replica.led_in(None).append(values_batch(b"behind it"))
    part = await committed(led)
    assert (part.high_watermark, part.last_stable_offset, part.aborted) == (3, 1, ())
    assert part.records == replica.log.read(0, 1 << 20, 1)
    assert (await committed(led, 2)).records == b"", "it is in the log, and not to be seen"
    everything = await committed(led, read_committed=False)
    assert len(everything.records) == len(replica.log.read(0, 1 << 20, 3))
    replica.led_in(None).append_marker(end_of(7, 1, committed=False))
    part = await committed(led)
    assert part.last_stable_offset == 4
    assert part.aborted == [AbortedTransaction(7, 1, 3, 4)]
    assert (await committed(led, read_committed=False)).aborted == ()
    assert not (await committed(led, 0, FetchLimits(0, 1, 80))).aborted, "what it got is before the transaction"


@pytest.mark.rule(56)
async def test_a_fetch_of_committed_records_waits_for_a_marker(led: Led, replica: Replica) -> None:
    """Its bytes are below the high watermark for long; of them it hears when they are stable."""
    size = replica.led_in(None).append(transactional(0, value=b"v" * 500), transactional=True).size_bytes
    fetching = asyncio.create_task(committed(led, 0, FetchLimits(60, size + 1, 1 << 20)))
    await until(lambda: led.consumers.parked == 1)
    replica.led_in(None).append(transactional(1), transactional=True)
    await asyncio.sleep(0)
    assert not fetching.done(), "min_bytes counts what may be read"
    replica.led_in(None).append_marker(end_of(7, 1))
    part = await asyncio.wait_for(fetching, 20)
    assert (part.last_stable_offset, len(part.records)) == (3, replica.log.size_bytes)


@pytest.mark.rule(56)
async def test_without_transactions_a_fetch_is_not_woken_for_too_few_bytes(led: Led, replica: Replica) -> None:
    fetching = asyncio.create_task(committed(led, 0, FetchLimits(60, 10_000, 1 << 20)))
    await until(lambda: led.consumers.parked == 1)
    led.since()
    replica.led_in(None).append(values_batch(b"v"))
    replica.led_in(None).append_marker(end_of(9, 0))
    await asyncio.sleep(0)
    assert led.since() == []
    fetching.cancel()


@pytest.mark.rule(17)
async def test_the_latest_offset_of_committed_records_is_the_last_stable_one(replica: Replica) -> None:
    replica.led_in(None).append(values_batch(b"plain"))
    replica.led_in(None).append(transactional(0), transactional=True)
    latest = await replica.led_in(None).offset_for_time(LATEST_TIMESTAMP, read_committed=True)
    assert latest is not None
    assert latest.offset == 1
    assert await replica.led_in(None).offset_for_time(LATEST_TIMESTAMP) == (2, -1)


async def test_a_transactional_batch_needs_a_caller_who_knows_the_transaction(replica: Replica) -> None:
    assert error_of(replica.led_in(None).append, transactional(0)) == ErrorCode.INVALID_REQUEST
    nobodys = produced(-1, producer_id=-1, epoch=-1, attributes=TRANSACTIONAL)
    assert error_of(replica.led_in(None).append, nobodys, transactional=True) == ErrorCode.INVALID_RECORD
    replica.log.config = replace(replica.log.config, compacts=True)
    await replica.disk.walk(transactional(0))
    assert replica.log.log_end_offset == 0


@pytest.mark.rule(36, 39)
async def test_a_marker_takes_guards_away_and_its_repeat_writes_nothing(replica: Replica) -> None:
    guard = replica.guards.begin(7)
    replica.led_in(None).append(transactional(0), transactional=True)
    first = replica.led_in(None).append_marker(end_of(7, 1))
    assert not replica.guards.end(7, guard)
    again = replica.led_in(None).append_marker(end_of(7, 1))
    assert (again.duplicate, again.last_offset, replica.log.log_end_offset) == (True, first.last_offset, 2)
    assert error_of(replica.led_in(None).append_marker, end_of(7, 0)) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert (
        error_of(replica.led_in(None).append_marker, end_of(7, 5, coordinator_epoch=0))
        == ErrorCode.TRANSACTION_COORDINATOR_FENCED
    )


@pytest.mark.rule(37)
async def test_a_follower_knows_what_its_leader_knows(brokers: Brokers) -> None:
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    leader.led_in(None).append(transactional(0), transactional=True)
    leader.led_in(None).append(transactional(0, producer_id=8), transactional=True)
    leader.led_in(None).append_marker(end_of(7, 1, committed=False))
    await brokers.fetch(2, 1)
    await brokers.fetch(2, 1)
    assert [r.offsets.last_stable_offset for r in (leader, follower)] == [1, 1]
    leader.led_in(None).append_marker(end_of(8, 1))
    assert leader.offsets.last_stable_offset == 1, "its marker is not replicated"
    for _ in range(2):
        await brokers.fetch(2, 1)
    assert [r.offsets.last_stable_offset for r in (leader, follower)] == [4, 4]
    assert follower.log.aborted.between(0, 4) == leader.log.aborted.between(0, 4)
    assert transactions_told_by(follower.log) == transactions_told_by(leader.log)


def ended_in(*replicas: Replica) -> list[int]:
    """Return how many ended transactions each replica keeps."""
    return [len(replica.log.producers.transactions.ended()) for replica in replicas]


async def catch_up(brokers: Brokers, follower: int, leader: int) -> None:
    """Fetch until the follower has all, and knows that all is committed. A fetch ends with a segment."""
    ours, theirs = brokers.replicas[follower], brokers.replicas[leader]
    for _ in range(20):
        if int(ours.offsets.high_watermark) == ours.log.log_end_offset == theirs.log.log_end_offset:
            return
        await brokers.fetch(follower, leader)
    raise AssertionError(f"{ours} is at {ours.offsets.high_watermark} of {theirs.log.log_end_offset}")


async def transact(brokers: Brokers, count: int, *, leader: int = 1, followers: tuple[int, ...] = (2,)) -> None:
    """Append `count` transactions to the leader, replicated and committed one by one."""
    replica = brokers.replicas[leader]
    for _ in range(count):
        state = replica.log.producers.get(7)
        epoch = 0 if state is None else state.epoch
        replica.led_in(None).append(transactional(0, epoch=epoch), transactional=True)
        replica.led_in(None).append_marker(end_of(7, epoch + 1, committed=False))
        for follower in followers:
            await catch_up(brokers, follower, leader)


@pytest.mark.rule(37)
@pytest.mark.story("followers-kept-every-transaction")
async def test_what_has_ended_is_forgotten_in_every_role(brokers: Brokers) -> None:
    """Nobody reads here: the last stable offset of a follower is asked for by no one."""
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    await transact(brokers, 20)
    assert ended_in(leader, follower) == [0, 0]
    leader.led_in(None).append(transactional(0, epoch=20), transactional=True)
    leader.led_in(None).append_marker(end_of(7, 21))
    await brokers.fetch(2, 1)
    assert ended_in(leader, follower) == [1, 1], "its marker is not below the follower's high watermark"
    brokers.apply(replace(BOTH, leader=2, leader_epoch=2, partition_epoch=1))
    await catch_up(brokers, 1, 2)
    assert ended_in(leader, follower) == [0, 0], "nor does what ended before a failover stay"
    await transact(brokers, 20, leader=2, followers=(1,))
    assert ended_in(leader, follower) == [0, 0]


@pytest.mark.rule(29, 37)
@pytest.mark.story("followers-kept-every-transaction")
async def test_a_start_forgets_what_has_ended_below_the_high_watermark(brokers: Brokers) -> None:
    """The broker was killed, so its transactions come from the log's batches."""
    await transact(brokers, 20)
    follower = brokers.replicas[2]
    end = follower.log.log_end_offset
    follower.log.abandon()
    assert ended_in(brokers.open(2, high_watermark=end - 6)) == [3]
    brokers.replicas[2].log.abandon()
    restored = brokers.open(2, high_watermark=end)
    assert (restored.leads, ended_in(restored)) == (False, [0])


@pytest.mark.rule(29, 37)
async def test_a_log_that_was_cut_forgets_again_what_its_snapshot_or_batches_say(brokers: Brokers) -> None:
    await transact(brokers, 5)
    follower = brokers.replicas[2]
    await brokers.following(2).on_diverging(EpochStart(1, follower.log.log_end_offset - 1), 0)
    assert ended_in(follower) == [0]
    state = follower.log.producers.get(7)
    assert state is not None
    assert state.transaction_offset == follower.log.log_end_offset - 1, "its last marker is gone"


@pytest.mark.rule(17, 37)
@pytest.mark.story("last-stable-offset-before-the-log")
async def test_the_last_stable_offset_is_never_before_the_log_starts(led: Led, replica: Replica) -> None:
    """Records are deleted beyond the first one of a transaction that is still open."""
    replica.led_in(None).append(transactional(0), transactional=True)
    for _ in range(5):
        replica.led_in(None).append(values_batch(b"plain"))
    replica.led_in(None).begin_at(4)
    assert replica.offsets.positions == (4, 4, 6)
    latest = await replica.led_in(None).offset_for_time(LATEST_TIMESTAMP, read_committed=True)
    assert latest is not None
    assert latest.offset == 4
    part = await committed(led, 4)
    assert (part.error, part.log_start_offset, part.last_stable_offset, part.high_watermark) == (None, 4, 4, 6)
    assert part.records == b""
    out_of_range = await committed(led, 0)
    assert out_of_range.error is not None
    assert (out_of_range.log_start_offset, out_of_range.last_stable_offset) == (4, 4)
    replica.led_in(None).append_marker(end_of(7, 1))
    assert replica.offsets.positions == (4, 7, 7)


@pytest.mark.rule(17, 37)
@pytest.mark.story("last-stable-offset-before-the-log")
async def test_nor_after_retention_has_taken_where_an_open_transaction_began(brokers: Brokers) -> None:
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    leader.led_in(None).append(transactional(0), transactional=True)
    while len(leader.log.segments) < 4:
        leader.led_in(None).append(values_batch(b"v"))
    await catch_up(brokers, 2, 1)
    for replica in (leader, follower):
        replica.log.config = replace(replica.log.config, retention_bytes=1500)
        replica.tidy(brokers.clock.wall_ms())
        replica.log.secure_deletion()
        replica.tidy(brokers.clock.wall_ms())
        start, stable, high_watermark = replica.offsets.positions
        assert 0 < start == stable < high_watermark


@pytest.mark.rule(43)
async def test_a_transaction_is_late_by_its_producers_last_batch_and_on_its_leader_alone(brokers: Brokers) -> None:
    leader, follower = brokers.replicas[1], brokers.replicas[2]
    metrics = Metrics()
    any_: Any = SimpleNamespace(table=SimpleNamespace(all=lambda: [leader, follower]))
    add_metrics(metrics, cast(Any, None), any_, cast(Any, SimpleNamespace(lag=lambda: 0)))
    late = cast(Any, metrics.samples["ottla_broker_late_transaction_partitions"][()])
    for replica in (leader, follower):
        replica.log.config = replace(replica.log.config, late_transaction_ms=100_000)
    leader.led_in(None).append(transactional(0), transactional=True)
    leader.led_in(None).append(transactional(0, producer_id=8), transactional=True)
    await brokers.fetch(2, 1)
    brokers.clock.advance(60)
    leader.led_in(None).append(transactional(1, producer_id=8), transactional=True)
    brokers.clock.advance(40)
    assert late() == 0
    brokers.clock.advance(1)
    assert late() == 1
    assert not follower.has_late_transaction
    leader.led_in(None).append_marker(end_of(7, 1))
    assert late() == 0, "the next one is still written to"
    brokers.clock.advance(60)
    assert late() == 1
    leader.led_in(None).append_marker(end_of(8, 1))
    assert late() == 0


async def test_markers_are_answered_one_by_one(led: Led, brokers: Brokers) -> None:
    replica, lagging = led.add(led.id(3)), brokers.replicas[1]
    leads = replica.id
    internal = led.add(PartitionId(led.topic, 5))
    cast(Any, internal.disk).topic = "__consumer_offsets"
    replica.led_in(None).append(transactional(0), transactional=True)

    def leading(partition_id: PartitionId) -> Leading:
        return (lagging if partition_id == PARTITION else led.find(partition_id)).led_in(None)

    requested = [
        MarkersToWrite(end_of(7, 1), [leads, led.id(9), PARTITION, internal.id]),
        MarkersToWrite(end_of(7, 0), [leads]),
    ]
    codes = [
        [None if error is None else error.code for error in errors]
        for errors in await write_markers(leading, requested, timeout_s=0.01)
    ]
    assert codes == [
        [None, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.INVALID_TOPIC_EXCEPTION],
        [ErrorCode.INVALID_PRODUCER_EPOCH],
    ]
    again = asyncio.create_task(write_markers(leading, [MarkersToWrite(end_of(7, 1), [PARTITION])], timeout_s=20))
    await asyncio.sleep(0)
    assert not again.done(), "a repeat is answered at the high watermark, too"
    for _ in range(2):
        await brokers.fetch(2, 1)
    assert await again == [[None]]
    assert lagging.log.log_end_offset == 1


async def test_a_marker_needs_min_isr_and_its_repeat_does_not(brokers: Brokers) -> None:
    leader = brokers.replicas[1]
    leader.led_in(None).append_marker(end_of(7, 1))
    brokers.apply(replace(BOTH, isr=(1,), partition_epoch=1), 1)
    assert leader.led_in(None).append_marker(end_of(7, 1)).duplicate
    assert error_of(leader.led_in(None).append_marker, end_of(8, 1)) == ErrorCode.NOT_ENOUGH_REPLICAS


def test_what_is_no_marker_is_refused_whole(led: Led) -> None:
    for end in (end_of(-1, 0), end_of(1, -1), end_of(1, 2**15), end_of(1, 0, coordinator_epoch=-1)):
        assert error_of(check_markers, [MarkersToWrite(end, [led.id(0)])]) == ErrorCode.INVALID_REQUEST
    check_markers([MarkersToWrite(end_of(1, 2**15 - 1), [led.id(0)] * MOST_MARKERS)])
    assert (
        error_of(check_markers, [MarkersToWrite(end_of(1, 0), [led.id(0)] * (MOST_MARKERS + 1))])
        == ErrorCode.INVALID_REQUEST
    )
