"""Compaction of a log with transactions: what never became true goes, markers stay for as long as they are of use."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON
from logs import SMALL, open_log
from produced import stored_headers
from transactional_logs import end_of, end_transaction

from ottla_broker.compaction.candidate import Candidate
from ottla_broker.compaction.cleaning import clean
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage.log import Log
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

HOUR_MS = 3_600_000
CONFIG = replace(SMALL, segment_bytes=400, compacts=True, delete_retention_ms=HOUR_MS)


def write(log: Log, key: bytes, value: bytes, sequence: int, *, producer_id: int = 7, epoch: int = 0) -> None:
    builder = new_builder(1 << 20)
    builder.append(NOON, key, value)
    batch = builder.seal(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=TRANSACTIONAL
    )
    log.append(batch, 1, NOON, transactional=True)


def fill_up(log: Log) -> None:
    """What was written before is in sealed segments; each of these keys stays."""
    for _ in range(10):
        builder = new_builder(1 << 20)
        builder.append(NOON, b"filler-%d" % log.log_end_offset, b"x" * 50)
        log.append(builder.seal(), 1, NOON)


def cleaned(log: Log, now_ms: int = NOON, *, all_of_it: bool = True) -> None:
    if all_of_it:
        log.compaction.first_dirty_offset = 0
    log.secure_sealed()
    candidate = Candidate.of(log, log.producers.last_stable_offset(0, HighWatermark(log.log_end_offset)), now_ms)
    clean(candidate.job(CleanerSettings(), now_ms), candidate.swap)


def committed(log: Log) -> dict[bytes, bytes]:
    """The newest value of each key, as a reader of committed records has it, who drops what the log tells it to."""
    end = log.producers.last_stable_offset(0, HighWatermark(log.log_end_offset))
    values: dict[bytes, bytes] = {}
    void = log.aborted.between(0, end)
    for header in stored_headers(log):
        if header.is_control or header.base_offset >= end or not header.record_count:
            continue
        if header.is_transactional and any(
            a.producer_id == header.producer_id and a.first_offset <= header.base_offset < a.last_offset for a in void
        ):
            continue
        for _, _, key, value, _ in read_records(log.read(header.base_offset, 1, log.log_end_offset)):
            assert key is not None
            values[key] = value or b""
    return {key: value for key, value in values.items() if not key.startswith(b"filler")}


def markers(log: Log) -> list[int]:
    return [h.base_offset for h in stored_headers(log) if h.is_control and h.record_count]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "log", CONFIG)


@pytest.mark.rule(62)
def test_an_aborted_value_takes_no_committed_ones_place(log: Log) -> None:
    write(log, b"k", b"true", 0)
    end_transaction(log, end_of(7, 1))
    write(log, b"k", b"void", 0, epoch=1)
    write(log, b"other", b"void", 1, epoch=1)
    end_transaction(log, end_of(7, 2, committed=False))
    fill_up(log)
    cleaned(log)
    assert committed(log) == {b"k": b"true"}
    left = {h.base_offset: h.record_count for h in stored_headers(log)}
    assert left[0] == 1
    assert not left.get(2), "its records are gone"


@pytest.mark.rule(62)
def test_what_is_aborted_by_a_marker_behind_the_clean_is_void_all_the_same(log: Log) -> None:
    """An open transaction of another producer keeps the clean from the marker."""
    write(log, b"k", b"true", 0, producer_id=1)
    end_transaction(log, end_of(1, 1))
    write(log, b"k", b"void", 0)
    fill_up(log)
    write(log, b"open", b"?", 0, producer_id=9)
    end_transaction(log, end_of(7, 1, committed=False))
    cleaned(log)
    assert committed(log) == {b"k": b"true"}
    assert log.producers.last_stable_offset(0, HighWatermark(log.log_end_offset)) == 13


@pytest.mark.rule(30, 62)
def test_a_marker_goes_when_nothing_of_its_transaction_is_left_and_readers_have_had_time(log: Log) -> None:
    write(log, b"k", b"void", 0)
    end_transaction(log, end_of(7, 1, committed=False))
    write(log, b"k", b"true", 0, epoch=1)
    end_transaction(log, end_of(7, 2))
    fill_up(log)
    cleaned(log)
    assert (markers(log), log.aborted.between(0, 9)[0].last_offset) == ([1, 3], 1), "its records were there until now"
    cleaned(log, NOON + 1)
    assert markers(log) == [1, 3], "it has a delete horizon"
    cleaned(log, NOON + HOUR_MS)
    assert markers(log) == [1, 3]
    cleaned(log, NOON + HOUR_MS + 1)
    assert markers(log) == [3], "the other one's records are there"
    assert log.aborted.between(0, 9) == []
    again = open_log(log.directory, CONFIG, recovery_point=log.log_end_offset)
    assert (again.aborted.between(0, 9), committed(again)) == ([], {b"k": b"true"})


@pytest.mark.rule(30)
def test_the_marker_that_fences_a_producer_stays(log: Log) -> None:
    end_transaction(log, end_of(7, 3))
    fill_up(log)
    for hours in (0, 2, 4):
        cleaned(log, NOON + hours * HOUR_MS)
    assert markers(log) == [0]


@pytest.mark.rule(62)
def test_the_indexes_of_merged_segments_are_one(log: Log) -> None:
    for n in range(6):
        write(log, b"k%d" % n, b"void", n, epoch=0)
        end_transaction(log, end_of(7, 0, committed=False, v2=False))
        write(log, b"k", b"v" * n, 0, producer_id=20 + n)
        end_transaction(log, end_of(20 + n, 1))
    fill_up(log)
    before = log.aborted.between(0, log.log_end_offset)
    count = len(log.segments)
    log.config = replace(CONFIG, segment_bytes=10_000)
    cleaned(log)
    assert len(log.segments) < count
    assert log.aborted.between(0, log.log_end_offset) == before
    log.flush(NOON)
    again = open_log(log.directory, CONFIG, recovery_point=log.log_end_offset)
    assert again.aborted.between(0, log.log_end_offset) == before
    assert committed(again) == {b"k": b"v" * 5}
