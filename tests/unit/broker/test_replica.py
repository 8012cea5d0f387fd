"""One partition as a broker holds it: who leads, what waits for the platter, and what the end of a disk means."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON
from logs import SMALL, open_log, records_of, values_batch

from ottla_broker.replica import Replica
from ottla_broker.storage.log import Log
from ottla_broker.waiters import Waiters
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId

LED_HERE = Partition(replicas=(1, 2), leader=1, leader_epoch=3, isr=(1,))


class Held:
    """A replica on broker 1, its log, and the disk failures that it reported."""

    def __init__(self, log: Log) -> None:
        self.failures: list[OttlaError] = []
        self.waiters = Waiters()
        self.log = log
        self.replica = Replica(
            PartitionId(TopicId(b"t" * 16), 0), "t", 1, log, self.waiters, lambda: NOON, self.failures.append
        )
        self.replica.on_partition(LED_HERE)


@pytest.fixture
def held(tmp_path: Path) -> Held:
    return Held(open_log(tmp_path / "log", replace(SMALL, flush_messages=1)))


def code_of(call: Callable[[], object]) -> int:
    with pytest.raises(OttlaError) as raised:
        call()
    return raised.value.code


@pytest.mark.rule(5)
def test_who_knows_another_epoch_is_told_which_side_is_behind(held: Held) -> None:
    held.replica.check_leader(None)
    held.replica.check_leader(3)
    assert code_of(lambda: held.replica.check_leader(2)) == ErrorCode.FENCED_LEADER_EPOCH
    assert code_of(lambda: held.replica.check_leader(4)) == ErrorCode.UNKNOWN_LEADER_EPOCH
    held.replica.on_partition(replace(LED_HERE, leader=2, leader_epoch=4))
    assert code_of(lambda: held.replica.check_leader(4)) == ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.mark.rule(4)
def test_an_older_decision_that_comes_late_changes_nothing(held: Held) -> None:
    held.replica.on_partition(replace(LED_HERE, leader=2, leader_epoch=2))
    held.replica.check_leader(3)
    assert held.log.epochs.latest == 3, "the epoch's start is known before anything is appended in it"


async def test_a_change_of_leader_wakes_who_waits(held: Held) -> None:
    with held.waiters.parked([held.replica.id], 1 << 20) as waiter:
        held.replica.on_partition(replace(LED_HERE, leader=2, leader_epoch=4))
        assert await waiter.sleep(0)


@pytest.mark.rule(20)
async def test_what_must_be_on_the_platter_is_there_before_the_answer(held: Held) -> None:
    held.replica.append(values_batch(b"a"))
    held.replica.append(values_batch(b"b"))
    assert held.replica.must_flush
    await held.replica.flushed()
    assert held.log.recovery_point == 2
    assert not held.replica.must_flush
    assert [value for _, value in records_of(await held.replica.read(0, 1000, min_one_batch=True))] == [b"a", b"b"]


@pytest.mark.rule(20)
async def test_a_failed_fsync_is_reported_and_nothing_is_acknowledged_any_more(
    held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    held.replica.append(values_batch(b"a"))
    with pytest.raises(OttlaError, match="goes offline"):
        await held.replica.flushed()
    assert [failure.code for failure in held.failures] == [ErrorCode.KAFKA_STORAGE_ERROR]
    monkeypatch.undo()
    assert code_of(lambda: held.replica.append(values_batch(b"b"))) == ErrorCode.KAFKA_STORAGE_ERROR


async def test_a_log_that_was_closed_meanwhile_is_no_failure_of_the_disk(held: Held) -> None:
    held.replica.append(values_batch(b"a"))
    held.log.abandon()
    with pytest.raises(OttlaError, match="is closed"):
        await held.replica.start_flush()
    assert held.failures == []


async def test_a_full_disk_refuses_and_ends_nothing(held: Held, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(fd: int, buffers: object, position: int) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    assert code_of(lambda: held.replica.append(values_batch(b"a"))) == ErrorCode.KAFKA_STORAGE_ERROR
    assert held.failures == []
    monkeypatch.undo()
    assert held.replica.append(values_batch(b"b")).base_offset == 0
    await held.replica.flushed()
