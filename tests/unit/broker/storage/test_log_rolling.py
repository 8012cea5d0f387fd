"""When a new segment begins, and what the files of a log are called."""

from __future__ import annotations

import os
import struct
from itertools import pairwise
from pathlib import Path, PurePath

import pytest
from batches import NOON, raw_batch, raw_record
from logs import all_records, fill, headers_of, offsets_as_values, open_log, values_batch

from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import OttlaError


def bases(directory: PurePath) -> list[int]:
    return sorted(int(path.stem) for path in Path(directory).glob("*.log"))


@pytest.mark.feature(84, 85, 94)
def test_a_segment_ends_where_the_next_batch_would_be_too_much(tmp_path: Path) -> None:
    batch = values_batch(b"x" * 100)
    log = open_log(tmp_path / "log", LogConfig(segment_bytes=3 * len(batch)))
    rolled = [log.append(batch, 1, NOON).rolled for _ in range(7)]
    assert rolled == [False, False, False, True, False, False, True]
    assert bases(log.directory) == [0, 3, 6]
    log.close(NOON)
    names = {path.name for path in Path(log.directory).iterdir()}
    assert names == {"leader-epoch-checkpoint", f"{6:020d}.snapshot"} | {f"{base:020d}.log" for base in (0, 3, 6)}


@pytest.mark.feature(84)
def test_a_segment_ends_after_its_time_by_the_clock_of_its_records(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(segment_ms=1000))
    for at_ms, rolls in ((0, False), (1000, False), (500, False), (1001, True), (1500, False), (2002, True)):
        assert log.append(values_batch(b"x", at_ms=NOON + at_ms), 1, NOON + at_ms).rolled == rolls
    assert bases(log.directory) == [0, 3, 5]


@pytest.mark.feature(84)
def test_segments_end_at_times_of_their_own_within_the_jitter(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000, segment_jitter_ms=600)
    ends = set()
    for number in range(40):
        log = open_log(tmp_path / f"{number}", config)
        times_ms = iter(range(0, 1100, 50))
        ends.add(next(ms for ms in times_ms if log.append(values_batch(b"x", at_ms=NOON + ms), 1, NOON + ms).rolled))
    assert min(ends) > 400
    assert max(ends) <= 1050
    assert len(ends) > 5


@pytest.mark.feature(84)
def test_without_timestamps_the_brokers_clock_counts(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(segment_ms=1000))
    batch = raw_batch(raw_record(0), base_timestamp=-1, max_timestamp=-1)
    assert [log.append(batch, 1, NOON + ms).rolled for ms in (0, 1000, 1001)] == [False, False, True]


def test_the_clock_of_a_segment_outlives_a_restart(tmp_path: Path) -> None:
    config = LogConfig(segment_ms=1000, index_interval_bytes=100)
    log = open_log(tmp_path / "log", config)
    for _ in range(5):
        log.append(values_batch(b"x", at_ms=NOON), 1, NOON)
    log.close(NOON)
    for clean in (True, False):
        again = open_log(tmp_path / "log", config, clean=clean)
        assert again.segments[-1].first_timestamp_ms == NOON
    assert again.append(values_batch(b"x", at_ms=NOON + 1001), 1, NOON + 1001).rolled


@pytest.mark.feature(94)
def test_a_segment_ends_with_its_index(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(segment_index_bytes=48, index_interval_bytes=1))
    fill(log, 12)
    assert bases(log.directory) == [0, 12, 24], "four entries fit, the last of them is kept for the seal"
    assert all_records(log) == offsets_as_values(0, 36)


def test_an_offset_that_the_index_can_not_hold_begins_a_segment(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig())
    log.append_replicated(raw_batch(b"", 0, last_offset_delta=2**31 - 2, leader_epoch=1), NOON)  # compaction took them
    assert not log.append(values_batch(b"the last that fits"), 1, NOON).rolled
    assert log.append(values_batch(b"x"), 1, NOON).rolled
    assert bases(log.directory) == [0, 2**31]
    assert headers_of(log.read(2**31, 100, 2**31 + 1))[0].base_offset == 2**31


def test_a_segment_that_can_not_be_made_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = values_batch(b"x" * 100)
    log = open_log(tmp_path / "log", LogConfig(segment_bytes=len(batch)))
    log.append(batch, 1, NOON)

    def no_descriptor_left(*_: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", no_descriptor_left)
    with pytest.raises(OttlaError, match="Too many open files"):
        log.append(batch, 1, NOON)
    monkeypatch.undo()
    assert log.log_end_offset == 1
    assert log.append(batch, 1, NOON).base_offset == 1
    assert len(all_records(log)) == 2


@pytest.mark.feature(91, 92, 94)
def test_indexes_lie_on_disk_in_kafkas_format(tmp_path: Path) -> None:
    """As Kafka's DumpLogSegments checks them: each entry names a batch by its last offset and where it starts."""
    log = open_log(tmp_path / "log", LogConfig(index_interval_bytes=4096, segment_bytes=1 << 20))
    fill(log, 100, records=100)
    log.close(NOON)
    data = (Path(log.directory / f"{0:020d}.log")).read_bytes()
    headers, starts, at = headers_of(data), {}, 0
    for header in headers:
        starts[at] = header
        at += header.size_bytes
    entries = list(struct.iter_unpack(">ii", (Path(log.directory / f"{0:020d}.index")).read_bytes()))
    assert len(data) / 10_000 < len(entries) < len(data) / 4096
    assert all(starts[position].last_offset == offset for offset, position in entries)
    gaps = [after[1] - before[1] for before, after in pairwise(entries)]
    assert min(gaps) > 4096
    times = list(struct.iter_unpack(">qi", (Path(log.directory / f"{0:020d}.timeindex")).read_bytes()))
    by_last = {header.last_offset: header.max_timestamp for header in headers}
    assert all(by_last[offset] == timestamp for timestamp, offset in times)
    assert times[-1] == (headers[-1].max_timestamp, headers[-1].last_offset), "the seal adds the largest"
