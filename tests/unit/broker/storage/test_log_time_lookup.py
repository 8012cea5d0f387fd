"""ListOffsets: from a time to an offset, exact to the record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from batches import NOON, raw_batch, raw_record, sealed
from logs import SMALL, fill, open_log, values_batch

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_broker.storage.reading import FoundOffset
from ottla_broker.storage.validator import Walk
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_TIMESTAMP


def append_at(log: Log, *times_ms: int) -> None:
    """One batch with a record for each time."""
    log.append(sealed((n, NOON + t, None, b"", []) for n, t in enumerate(times_ms)), 1, NOON)


@pytest.mark.feature(55, 92)
def test_the_first_record_at_or_after_a_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(timestamp_after_max_ms=10**9))
    append_at(log, 10, 20, 30)
    append_at(log, 5, 40)
    append_at(log, 35, 60)
    expected = {0: 0, 10: 0, 11: 1, 20: 1, 25: 2, 31: 4, 40: 4, 41: 6, 60: 6}
    for at_ms, offset in expected.items():
        found = log.offset_for_time(NOON + at_ms, 7)
        assert found is not None
        assert found.offset == offset
    assert log.offset_for_time(NOON + 61, 7) is None


@pytest.mark.feature(55, 92)
@pytest.mark.parametrize("clean", [True, False])
def test_times_are_found_across_segments_and_restarts(tmp_path: Path, clean: bool) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 60)
    for _ in range(2):
        assert len(log.segments) > 3
        for offset in range(0, 180, 3):
            found = log.offset_for_time(NOON + offset * 1000, 180)
            assert found == FoundOffset(offset, NOON + offset * 1000)
            assert log.offset_for_time(NOON + offset * 1000 - 2999, 180) == found
        log.close(NOON)
        log = open_log(log.directory, SMALL, clean=clean)


def test_records_out_of_order_are_found_by_the_largest_so_far(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(index_interval_bytes=100, timestamp_after_max_ms=10**9))
    times = [50, 10, 60, 20, 60, 70, 30, 70, 80]
    for t in times:
        append_at(log, t)
    for at_ms in range(90):
        first = next((offset for offset, t in enumerate(times) if t >= at_ms), None)
        found = log.offset_for_time(NOON + at_ms, len(times))
        assert (found.offset if found else None) == first, at_ms


def test_the_ends_of_the_log_and_its_newest_record(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(timestamp_after_max_ms=10**9))
    assert log.offset_for_time(MAX_TIMESTAMP, 0) is None
    append_at(log, 10, 90, 30)
    append_at(log, 90, 20)
    assert log.offset_for_time(EARLIEST_TIMESTAMP, 5) == (0, -1)
    assert log.offset_for_time(LATEST_TIMESTAMP, 3) == (3, -1)
    assert log.offset_for_time(MAX_TIMESTAMP, 5) == (1, NOON + 90)
    log.delete_records_before(2, HighWatermark(5))
    assert log.offset_for_time(EARLIEST_TIMESTAMP, 5) == (2, -1)
    assert log.offset_for_time(NOON, 5) == (2, NOON + 30)


@pytest.mark.parametrize("config", [SMALL, LogConfig(timestamp_after_max_ms=10**9)])
def test_the_newest_record_is_one_that_is_not_deleted(tmp_path: Path, config: LogConfig) -> None:
    log = open_log(tmp_path / "log", replace(config, timestamp_after_max_ms=10**9))
    times = [10, 900, 30, 800, 20, 700, 25, 600, 40, 600, 90, 50]
    for first, second in zip(times[::2], times[1::2], strict=True):
        append_at(log, first, second)
    for start in range(len(times)):
        log.delete_records_before(start, HighWatermark(len(times)))
        newest = max(times[start:])
        assert log.offset_for_time(MAX_TIMESTAMP, 12) == (times.index(newest, start), NOON + newest)
    log.delete_records_before(12, HighWatermark(12))
    assert log.offset_for_time(MAX_TIMESTAMP, 12) is None


def test_the_newest_record_of_a_batch_that_lies_is_the_batchs(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(raw_batch(b"no records at all, really", 3, max_timestamp=NOON + 5), 1, NOON, walk=Walk.DONE)
    log.append(values_batch(b"b", at_ms=NOON), 1, NOON)
    log.delete_records_before(1, HighWatermark(4))
    assert log.offset_for_time(MAX_TIMESTAMP, 4) == (1, NOON + 5)


def test_nothing_is_found_above_the_limit(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    fill(log, 4)
    assert log.offset_for_time(NOON + 9000, 12) == (9, NOON + 9000)
    assert log.offset_for_time(NOON + 9000, 9) is None
    assert log.offset_for_time(MAX_TIMESTAMP, 9) is None


def test_with_append_time_a_batch_has_one_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME))
    for n in range(5):
        log.append(values_batch(b"a", b"b", at_ms=3), 1, NOON + n)
    assert log.offset_for_time(NOON + 2, 10) == (4, NOON + 2)


def test_records_without_times_are_not_found_by_time(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(raw_batch(raw_record(0), base_timestamp=-1, max_timestamp=-1), 1, NOON)
    assert log.offset_for_time(0, 1) is None
    assert log.offset_for_time(MAX_TIMESTAMP, 1) is None


@pytest.mark.rule(64)
def test_a_batch_that_lies_about_its_inside_is_passed_over_by_nobody(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(values_batch(b"a", at_ms=NOON), 1, NOON)
    log.append(raw_batch(b"no records at all, really", 3, max_timestamp=NOON + 5), 1, NOON, walk=Walk.DONE)
    log.append(values_batch(b"b", at_ms=NOON + 9), 1, NOON)
    assert log.offset_for_time(NOON + 3, 5) == (1, NOON + 5)
    assert log.offset_for_time(NOON + 6, 5) == (4, NOON + 9)
