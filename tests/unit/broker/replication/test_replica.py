"""One partition as a broker holds it: who leads, what waits for the platter, and what the end of a disk means."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from batches import with_fresh_crc
from logs import SMALL, records_of, values_batch
from replicas import Brokers
from waiting import LIMIT_S

from ottla_broker.machines.follower_session import Followed
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.replica_role import ReplicaRole
from ottla_broker.replication.fetch_purgatory import ParkedFollowerFetch
from ottla_broker.replication.following import LeaderResponse
from ottla_broker.replication.leading import ACKS_ALL
from ottla_broker.replication.replica import Replica
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import HEADER_SIZE, read_header, write_header

LED_HERE = Partition(replicas=(1, 2), leader=1, leader_epoch=3, isr=(1,))


@pytest.fixture
def brokers(tmp_path: Path) -> Brokers:
    return Brokers(tmp_path, (1, 2), replace(SMALL, flush_messages=1))


@pytest.fixture
def held(brokers: Brokers) -> Replica:
    """Broker 1's replica, alone in the ISR."""
    brokers.apply(LED_HERE)
    return brokers.replicas[1]


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(OttlaError) as raised:
        call()
    return raised.value.code


@pytest.mark.story("lookups-take-the-readers-threads")
async def test_lookups_that_wait_keep_no_read_from_the_disk_waiting(
    held: Replica, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each goes through the records of a batch: 200 of them in one request kept every consumer waiting for seconds."""
    may_end = threading.Event()
    monkeypatch.setattr(held.log, "offset_for_time", lambda *_: may_end.wait(LIMIT_S))
    lookups = [asyncio.create_task(held.led_in(None).offset_for_time(0)) for _ in range(10)]
    await asyncio.sleep(0)
    try:
        async with asyncio.timeout(LIMIT_S / 2):
            assert await brokers.around[1].threads.read(lambda: "read") == "read"
    finally:
        may_end.set()
        await asyncio.gather(*lookups)


@pytest.mark.rule(5)
def test_who_knows_another_epoch_is_told_which_side_is_behind(held: Replica) -> None:
    held.led_in(None)
    held.led_in(3)
    assert code_of(lambda: held.led_in(2)) == ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(lambda: held.led_in(4)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    held.on_partition(replace(LED_HERE, leader=2, leader_epoch=4))
    assert code_of(lambda: held.led_in(4)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_call_that_waits_finds_the_present_epoch_after_any_number_of_elections(held: Replica) -> None:
    before = held.led_in(3)
    for epoch in range(4, 2_000):
        held.become_leader(replace(LED_HERE, leader_epoch=epoch))
    assert before.present() is held.led_in(1_999)
    held.on_partition(replace(LED_HERE, leader=2, leader_epoch=2_000))
    assert code_of(before.present) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.rule(4)
@pytest.mark.story("min-isr-from-the-next-epoch-on")
@pytest.mark.rule(8, 9)
async def test_a_change_of_min_insync_replicas_holds_in_the_present_leader_epoch(held: Replica) -> None:
    leading, batch = held.led_in(None), values_batch(b"a")
    leading.append(batch, ACKS_ALL)
    held.configure(replace(held.log.config, min_insync_replicas=2), 7.0)
    assert code_of(lambda: leading.append(batch, ACKS_ALL)) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert leading.leader.lag_max_s == 7.0
    held.configure(replace(held.log.config, min_insync_replicas=1), 30.0)
    assert leading.append(batch, ACKS_ALL).base_offset == 1


@pytest.mark.story("late-answers-are-written")
@pytest.mark.rule(2)
async def test_an_answer_to_a_fetch_from_another_offset_changes_nothing(brokers: Brokers) -> None:
    """The log was truncated while the answer was on its way: what it has belongs elsewhere."""
    brokers.apply(LED_HERE)
    for value in (b"a", b"b", b"c"):
        brokers.leading(1).append(values_batch(value))
    log, following = brokers.replicas[2].log, brokers.following(2)
    leader = brokers.replicas[1].log
    first = leader.read(0, 1, 1)
    following.on_fetched(0, LeaderResponse(first, HighWatermark(0), 0))
    assert log.log_end_offset == 1
    for offset in (0, 2, 3):
        following.on_fetched(offset, LeaderResponse(leader.read(1, 1, 2), HighWatermark(1), 1))
        assert (log.log_end_offset, log.log_start_offset, brokers.replicas[2].offsets.high_watermark) == (1, 0, 0)


def test_an_older_decision_that_comes_late_changes_nothing(held: Replica) -> None:
    held.on_partition(replace(LED_HERE, leader=2, leader_epoch=2))
    held.led_in(3)
    assert held.log.epochs.latest == 3, "the epoch's start is known before anything is appended in it"


async def test_a_change_of_leader_wakes_who_waits(held: Replica, brokers: Brokers) -> None:
    session = brokers.around[1].followers.begin(2, 12, 1, ParkedFollowerFetch())
    session.follow(Followed(held.id, held.leader_epoch, 0, 1 << 20))
    session.look_at(held.id, held.id)
    with brokers.around[1].consumers.delayed([held.id]) as waiter:
        held.on_partition(replace(LED_HERE, leader=2, leader_epoch=held.leader_epoch + 1))
        assert await waiter.sleep(0, 1 << 20)
    assert await session.parked.sleep(0, 1 << 20)
    assert session.due == [held.id]


@pytest.mark.rule(20)
async def test_what_must_be_on_the_platter_is_there_before_the_answer(held: Replica) -> None:
    held.led_in(None).append(values_batch(b"a"))
    held.led_in(None).append(values_batch(b"b"))
    assert held.disk.must_flush
    await held.disk.flushed()
    assert held.log.recovery_point == 2
    assert not held.disk.must_flush
    assert [value for _, value in records_of(await held.disk.read(0, 1000, 2, min_one_batch=True))] == [b"a", b"b"]


@pytest.mark.rule(20)
async def test_a_failed_fsync_is_reported_and_nothing_is_acknowledged_any_more(
    held: Replica, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    held.led_in(None).append(values_batch(b"a"))
    with pytest.raises(OttlaError, match="goes offline"):
        await held.disk.flushed()
    assert [failure.code for failure in brokers.failures] == [ErrorCode.KAFKA_STORAGE_ERROR]
    monkeypatch.undo()
    assert code_of(lambda: held.led_in(None).append(values_batch(b"b"))) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_was_closed_meanwhile_is_no_failure_of_the_disk(held: Replica, brokers: Brokers) -> None:
    held.led_in(None).append(values_batch(b"a"))
    held.log.abandon()
    with pytest.raises(OttlaError, match="is closed"):
        await held.disk.start_flush()
    assert brokers.failures == []


async def test_a_full_disk_refuses_and_ends_nothing(
    held: Replica, brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, buffers: object, position: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    assert code_of(lambda: held.led_in(None).append(values_batch(b"a"))) == ErrorCode.KAFKA_STORAGE_ERROR
    assert brokers.failures == []
    monkeypatch.undo()
    assert held.led_in(None).append(values_batch(b"b")).base_offset == 0
    await held.disk.flushed()


@pytest.mark.rule(4, 10)
def test_an_election_is_announced_once_before_the_epoch_starts(tmp_path: Path) -> None:
    """At once, and nothing more after it: ten thousand partitions may change their leader together."""
    brokers = Brokers(tmp_path, (1,))
    announced: list[tuple[ReplicaRole, int | None]] = []
    replica = brokers.replicas[1]
    cast(Any, replica)._on_role_change = lambda replica: announced.append((replica.role, replica.leader_id))
    for epoch, leader in ((1, 2), (2, 1), (3, 1), (4, 2)):
        brokers.apply(Partition(replicas=(1, 2), leader=leader, leader_epoch=epoch, isr=(1, 2)))
    starting = (ReplicaRole.STARTING_EPOCH, None)
    assert announced == [(ReplicaRole.FOLLOWER, 2), starting, starting, (ReplicaRole.FOLLOWER, 2)]


async def test_records_past_retention_are_stored_counted_and_logged_once_an_hour(
    held: Replica, brokers: Brokers, caplog: pytest.LogCaptureFixture
) -> None:
    clock, hour_ms = brokers.clock, 3_600_000
    held.log.config = replace(held.log.config, retention_ms=hour_ms)
    now_ms = clock.wall_ms()
    held.led_in(None).append(values_batch(b"on time", at_ms=now_ms - hour_ms))
    assert held.traffic.past_retention == 0
    for _ in range(3):
        held.led_in(None).append(values_batch(b"late", b"too", at_ms=now_ms - hour_ms - 1))
    assert held.log.log_end_offset == 7
    assert held.traffic.past_retention == 6
    both = values_batch(b"late", at_ms=now_ms - 2 * hour_ms) + values_batch(b"on time", at_ms=now_ms)
    held.led_in(None).append(both)
    assert held.traffic.past_retention == 7
    timeless = read_header(both)._replace(base_timestamp=-1, max_timestamp=-1)
    held.led_in(None).append(with_fresh_crc(write_header(timeless) + both[HEADER_SIZE : timeless.size_bytes]))
    assert held.traffic.past_retention == 7
    logged = [record for record in caplog.records if "older than retention.ms by" in record.message]
    assert [record.args[1] for record in logged] == [1]  # type: ignore[index]  # a tuple
    clock.advance(3600)
    held.led_in(None).append(values_batch(b"late", at_ms=now_ms - hour_ms))
    assert len([record for record in caplog.records if "older than retention.ms by" in record.message]) == 2
    held.log.config = replace(held.log.config, retention_ms=-1)
    held.led_in(None).append(values_batch(b"late", at_ms=0))
    assert held.traffic.past_retention == 8
