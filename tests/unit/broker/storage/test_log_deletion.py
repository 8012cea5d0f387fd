"""Old segments and deleted records: what goes, what stays, and what readers see meanwhile."""

from __future__ import annotations

import errno
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath
from typing import Any

import pytest
from batches import NOON, raw_batch, raw_record
from logs import SMALL, all_records, close_files, fill, offsets_as_values, open_log, records_of

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.machines.retention import DeletionCause
from ottla_broker.storage.disk import Disk, OpenFiles
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.index import SegmentIndexes
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import ErrorCode, OttlaError


@pytest.fixture
def unflushed(tmp_path: Path) -> Log:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 60)
    assert len(log.segments) > 5
    return log


@pytest.fixture
def log(unflushed: Log) -> Log:
    unflushed.flush(NOON)
    return unflushed


def names(directory: PurePath, suffix: str) -> list[str]:
    return sorted(path.name for path in Path(directory).iterdir() if path.name.endswith(suffix))


@pytest.mark.feature(86, 87)
@pytest.mark.rule(63)
def test_time_takes_whole_segments_and_moves_the_log_start(log: Log) -> None:
    third = log.segments[2].base_offset
    newest_of_second_ms = NOON + (third - 3) * 1000
    log.config = LogConfig(retention_ms=1000)
    assert log.delete_old_segments(HighWatermark(180), newest_of_second_ms + 1001) == [
        DeletionCause.TIME,
        DeletionCause.TIME,
    ]
    assert log.log_start_offset == third
    assert log.epochs.entries == ((1, third),)
    assert all_records(log) == offsets_as_values(third, 180)
    with pytest.raises(OttlaError) as caught:
        log.read(third - 1, 100, 180)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert open_log(log.directory, SMALL).log_start_offset == third


@pytest.mark.feature(86)
@pytest.mark.rule(63)
def test_size_keeps_what_was_asked_for(log: Log) -> None:
    log.config = LogConfig(retention_bytes=2500, retention_ms=-1)
    causes = log.delete_old_segments(HighWatermark(180), NOON)
    assert set(causes) == {DeletionCause.SIZE}
    assert 2500 <= log.size_bytes < 3500
    assert log.delete_old_segments(HighWatermark(180), NOON) == []


@pytest.mark.rule(63)
def test_nothing_above_the_high_watermark_goes(log: Log) -> None:
    second, third = (segment.base_offset for segment in log.segments[1:3])
    log.config = LogConfig(retention_bytes=0, retention_ms=-1)
    log.delete_old_segments(HighWatermark(third - 1), NOON)
    assert log.log_start_offset == second
    assert all_records(log) == offsets_as_values(second, 180)


@pytest.mark.feature(85, 86)
def test_a_topic_nobody_writes_to_empties_and_keeps_its_offsets(log: Log) -> None:
    log.config = LogConfig(retention_ms=1000)
    causes = log.delete_old_segments(HighWatermark(180), NOON + 10**9)
    log.secure_deletion()
    causes += log.delete_old_segments(HighWatermark(180), NOON + 10**9)
    assert len(causes) > 5
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (180, 180, 0)
    assert names(log.directory, ".log") == [f"{180:020d}.log"]
    again = open_log(log.directory, SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (180, 180)
    fill(again, 1)
    assert all_records(again) == offsets_as_values(180, 183)


def test_without_timestamps_the_age_of_the_file_counts(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(retention_ms=1000))
    log.append(raw_batch(raw_record(0), base_timestamp=-1, max_timestamp=-1), 1, NOON)
    written_ms = next(Path(log.directory).glob("*.log")).stat().st_mtime_ns // 1_000_000
    assert log.delete_old_segments(HighWatermark(1), written_ms + 1000) == []
    log.delete_old_segments(HighWatermark(1), written_ms + 1001)
    log.secure_deletion()
    assert log.delete_old_segments(HighWatermark(1), written_ms + 1001) == [DeletionCause.TIME]


def test_deleted_files_are_renamed_at_once_and_unlinked_later(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = open_log(tmp_path / "log", SMALL, disk=disk)
    fill(log, 60)
    log.flush(NOON)
    first, second = log.segments[:2]
    reader = first.file()
    log.delete_records_before(second.base_offset, HighWatermark(180))
    assert f"{first.path.name}.deleted" in names(log.directory, ".deleted")
    assert len(reader.read(0, 100)) == 100, "who is reading it goes on"
    assert disk.unlink_discarded() == 3
    assert names(log.directory, ".deleted") == []


def test_deleting_records_hides_them_before_their_segment_goes(log: Log) -> None:
    first_segment = log.segments[0]
    assert log.delete_records_before(4, HighWatermark(180)) == 4
    assert log.segments[0] is first_segment
    assert all_records(log) == offsets_as_values(4, 180)
    assert records_of(log.read(4, 1, 180)) == offsets_as_values(3, 6), "the reader skips what the batch has before"
    assert log.delete_records_before(2, HighWatermark(180)) == 4, "it never goes back"
    assert log.delete_records_before(180, HighWatermark(180)) == 180
    assert log.read(180, 100, 180) == b""
    log.secure_deletion()
    log.delete_old_segments(HighWatermark(180), NOON)
    assert len(log.segments) == 1


def test_records_that_are_not_replicated_are_not_deleted(log: Log) -> None:
    for offset in (-1, 101):
        with pytest.raises(OttlaError) as caught:
            log.delete_records_before(offset, HighWatermark(100))
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_start_offset == 0


def test_a_read_of_a_segment_that_goes_meanwhile_is_out_of_range(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def deleted_just_now(path: str, *rest: int) -> int:
        if str(path).endswith(".log"):
            log._segments.start_offset = 90
            raise FileNotFoundError(path)
        return real(path, *rest)

    close_files(log)
    monkeypatch.setattr(os, "open", deleted_just_now)
    with pytest.raises(OttlaError) as caught:
        log.read(0, 100, 180)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_segment_that_is_lost_is_not_out_of_range(log: Log) -> None:
    """Or a consumer that resets would skip what was there."""
    first = sorted(Path(log.directory).glob("*.log"))[0]
    first.unlink()
    close_files(log)
    with pytest.raises(OttlaError, match="no longer exists") as caught:
        log.read(0, 100, 180)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_read_of_a_log_that_goes_meanwhile_is_not_out_of_range(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a consumer would start again at the beginning of whatever has the name next."""

    def deleted_with_its_log(*_: object) -> int:
        log.abandon()
        raise FileNotFoundError

    close_files(log)
    monkeypatch.setattr(os, "open", deleted_with_its_log)
    for call in (lambda: log.read(0, 100, 180), lambda: log.offset_for_time(NOON, 180)):
        with pytest.raises(OttlaError, match="is closed"):
            call()


def test_a_flush_of_a_segment_that_goes_meanwhile_is_no_failure(
    unflushed: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = unflushed
    went: list[Any] = []
    real = OpenFiles.get
    log.delete_records_before(log.segments[1].base_offset, HighWatermark(180))
    log.secure_deletion()
    close_files(log)

    def retention_is_faster(files: OpenFiles, path: Path, *, write: bool = False) -> DataFile:
        if not went:
            went.append(path.name)
            log.delete_old_segments(HighWatermark(180), NOON)
        return real(files, path, write=write)

    monkeypatch.setattr(OpenFiles, "get", retention_is_faster)
    assert log.flush(NOON) == 180
    assert went == [f"{0:020d}.log"]


def test_segments_go_on_a_full_disk_that_has_no_room_for_the_next_ones_index(
    unflushed: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, second = unflushed, unflushed.segments[1].base_offset

    def no_room(index: SegmentIndexes, disk: Disk) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(SegmentIndexes, "sync", no_room)
    log.delete_records_before(second, HighWatermark(180))
    log.secure_deletion()
    log.delete_old_segments(HighWatermark(180), NOON)
    assert log.segments[0].base_offset == second


def test_a_deletion_waits_for_the_flush_that_runs(unflushed: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log = unflushed
    running, go_on = threading.Event(), threading.Event()
    real = os.fdatasync

    def slow(fd: int) -> None:
        running.set()
        assert go_on.wait(20)
        real(fd)

    monkeypatch.setattr(os, "fdatasync", slow)
    with ThreadPoolExecutor(2) as pool:
        flush = pool.submit(log.flush, NOON)
        assert running.wait(20)
        deletion = pool.submit(log.abandon)
        with pytest.raises(TimeoutError):
            deletion.result(timeout=0.02)
        go_on.set()
        assert flush.result(timeout=20) == 180
        deletion.result(timeout=20)
    with pytest.raises(OttlaError, match="is closed"):
        log.flush(NOON)


def test_retention_reads_of_old_segments_no_more_than_it_has_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start leaves the indexes of sealed segments alone; to load thousands at the first look would stop the loop."""
    fill(log := open_log(tmp_path / "log"), 100)
    log.close(NOON)
    again = open_log(tmp_path / "log", clean=True)
    assert len(again.segments) > 9
    loaded: list[None] = []
    load = SegmentIndexes.load
    monkeypatch.setattr(SegmentIndexes, "load", lambda *arguments: loaded.append(load(*arguments)))
    assert again.delete_old_segments(HighWatermark(again.log_end_offset), NOON) == []
    assert len(loaded) == 1


def test_retention_says_in_words_that_a_file_is_gone(tmp_path: Path) -> None:
    fill(log := open_log(tmp_path / "log"), 100)
    log.close(NOON)
    again = open_log(tmp_path / "log", clean=True)
    close_files(again)
    Path(again.segments[0].path).unlink()
    with pytest.raises(OttlaError, match="looking for expired segments of log failed: No such file"):
        again.delete_old_segments(HighWatermark(again.log_end_offset), NOON)
