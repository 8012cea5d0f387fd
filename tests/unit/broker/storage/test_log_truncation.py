"""A log that is cut forgets what was behind the cut, and is on the platter before it goes on (rule 60)."""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread

import pytest
from batches import NOON
from logs import SMALL, all_records, fill, headers_of, offsets_as_values, open_log, records_of, values_batch
from produced import known, produced, stored_bytes, stored_headers, told_by

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage import checkpoint
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.segment import Segment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import MAX_TIMESTAMP, PartitionId, TopicId
from ottla_core.records.batch import BatchHeader


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Sixty batches of three records in many segments; epoch 1 up to 89, 2 up to 149, then 5."""
    log = open_log(tmp_path / "log", SMALL)
    for epoch, batches in ((1, 30), (2, 20), (5, 10)):
        fill(log, batches, leader_epoch=epoch)
    return log


@pytest.mark.rule(2, 60)
@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("offset", [1, 3, 89, 90, 100, 120, 149, 150, 151, 177, 179])
def test_the_batch_that_holds_the_offset_and_all_after_it_go(log: Log, offset: int, closed: bool) -> None:
    end = offset - offset % 3
    whole = stored_bytes(log)
    assert log.truncate_to(offset) == end == log.log_end_offset
    assert whole.startswith(stored_bytes(log))
    assert all_records(log) == offsets_as_values(0, end)
    assert [entry for entry in log.epochs.entries if entry.start_offset >= max(1, end)] == []
    with pytest.raises(OttlaError) as caught:
        log.read(end + 1, 100, 180)
    assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    fill(log, 60, leader_epoch=7)
    assert all_records(log) == offsets_as_values(0, end + 180)
    for at in range(0, end + 180, 3):
        found = log.offset_for_time(NOON + at * 1000, end + 180)
        assert found == (at, NOON + at * 1000)
    if closed:
        log.close(NOON)
    again = open_log(log.directory, SMALL, clean=closed)
    assert all_records(again) == offsets_as_values(0, end + 180)
    assert again.epochs.entries == log.epochs.entries


@pytest.mark.rule(2)
def test_every_offset_of_a_small_log_can_be_the_cut(tmp_path: Path) -> None:
    for offset in range(40):
        log = open_log(tmp_path / f"{offset}", LogConfig(segment_bytes=400, index_interval_bytes=1))
        fill(log, 13)
        log.truncate_to(offset)
        end = min(offset - offset % 3, 39)
        assert (log.log_end_offset, all_records(log)) == (end, offsets_as_values(0, end))
        found = log.offset_for_time(NOON + end * 1000, 39)
        assert found is None
        fill(log, 5)
        assert all_records(log) == offsets_as_values(0, end + 15)


@pytest.mark.rule(59)
@pytest.mark.parametrize("sealed", [True, False])
def test_the_indexes_are_cut_and_not_built_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sealed: bool) -> None:
    config = LogConfig(segment_bytes=8000, index_interval_bytes=100)
    log = open_log(tmp_path / "log", config)
    fill(log, 120 if sealed else 60)
    assert len(log.segments) == (2 if sealed else 1)
    walked: list[int] = []
    real = Segment.headers_from

    def headers_from(segment: Segment, position: int) -> Iterator[tuple[int, BatchHeader]]:
        for found in real(segment, position):
            walked.append(found[0])
            yield found

    monkeypatch.setattr(Segment, "headers_from", headers_from)
    log.truncate_to(120)
    assert len(walked) < 10, "a few batches, however large the segment is"
    assert log.offset_for_time(MAX_TIMESTAMP, 120) == (117, NOON + 117_000)
    directory = log.directory
    entries = struct.iter_unpack(">ii", (Path(directory / f"{0:020d}.index")).read_bytes())
    assert max(relative for relative, _ in entries) < 120
    times = struct.iter_unpack(">qi", (Path(directory / f"{0:020d}.timeindex")).read_bytes())
    assert max(relative for _, relative in times) < 120


def test_a_cut_that_can_not_begin_leaves_the_log_as_it_was(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> int:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr(os, "open", none_left)
        with pytest.raises(OttlaError, match="Too many open files"):
            log.truncate_to(179)
    assert (log.log_end_offset, log.is_offline) == (180, False)
    fill(log, 1, leader_epoch=5)
    assert all_records(log) == offsets_as_values(0, 183)


@pytest.mark.rule(2)
def test_a_cut_at_the_end_or_beyond_takes_only_epochs_without_batches(log: Log) -> None:
    whole = stored_bytes(log)
    log.assign_epoch(9)
    assert log.epochs.latest == 9
    assert log.truncate_to(200) == 180
    assert log.epochs.latest == 9, "its beginning is not touched"
    assert log.truncate_to(180) == 180
    assert log.epochs.latest == 5
    log.flush(NOON)
    assert (Path(log.directory / checkpoint.LEADER_EPOCHS)).read_text() == "0\n3\n1 0\n2 90\n5 150\n"
    assert stored_bytes(log) == whole


def test_a_log_that_is_cut_within_a_gap_ends_where_a_start_finds_its_end(tmp_path: Path, log: Log) -> None:
    follower = open_log(tmp_path / "follower", SMALL)
    parts = [log.read(offset, 1, 180) for offset in (0, 3, 30, 33)]
    follower.append_replicated(b"".join(parts), NOON)
    assert follower.truncate_to(20) == 6 == open_log(follower.directory, SMALL).log_end_offset
    assert [header.base_offset for header in stored_headers(follower)] == [0, 3]
    follower.append_replicated(log.read(21, 1, 180), NOON)
    assert stored_bytes(open_log(follower.directory, SMALL)) == parts[0] + parts[1] + log.read(21, 1, 180)


@pytest.mark.parametrize("offset", [0, 50, 180, 500])
def test_a_log_that_has_nothing_of_its_leader_begins_anew(log: Log, offset: int) -> None:
    log.append(produced(0), 5, NOON)
    log.flush(NOON)
    log.truncate_fully_and_start_at(offset)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (offset, offset, offset)
    assert log.epochs.entries == ()
    assert len(log.producers) == 0
    assert log.read(offset, 100, offset) == b""
    assert not list(Path(log.directory).glob("*.snapshot"))
    assert [path.name for path in Path(log.directory).glob("*.log")] == [f"{offset:020d}.log"]
    fill(log, 10, leader_epoch=8)
    assert all_records(log) == offsets_as_values(offset, offset + 30)
    again = open_log(log.directory, SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (offset, offset + 30)
    assert again.epochs.entries == ((8, offset),)


def test_a_cut_at_or_below_the_start_of_the_log_empties_it(log: Log) -> None:
    log.delete_records_before(100, HighWatermark(180))
    log.truncate_to(90)
    assert (log.log_start_offset, log.log_end_offset) == (90, 90)
    fill(log, 2)
    assert all_records(log) == offsets_as_values(90, 96)


@pytest.mark.rule(60)
def test_all_is_on_the_platter_before_an_append(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.flush(NOON)
    done: list[str] = []
    fsync, fdatasync, ftruncate = os.fsync, os.fdatasync, os.ftruncate

    def name_of(fd: int) -> str:
        return Path(os.readlink(f"/proc/self/fd/{fd}")).name

    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(f"sync {name_of(fd)}"), fsync(fd)))
    monkeypatch.setattr(os, "fdatasync", lambda fd: (done.append(f"sync {name_of(fd)}"), fdatasync(fd)))
    monkeypatch.setattr(os, "ftruncate", lambda fd, size: (done.append(f"cut {name_of(fd)}"), ftruncate(fd, size)))
    hit = [segment.path.name for segment in log.segments if segment.base_offset < 100][-1]
    log.truncate_to(100)
    done.remove("sync log")  # what follows a cut is gone first
    order = [done.index(step) for step in (f"cut {hit}", f"sync {hit}", "sync log", "sync leader-epoch-checkpoint.tmp")]
    assert order == sorted(order)
    assert log.recovery_point == 99


@pytest.mark.rule(60)
def test_what_the_checkpoints_promise_is_taken_back_before_an_append(tmp_path: Path) -> None:
    me, partition = DirectoryIdentity("c", 1, "A" * 22), PartitionId(TopicId(b"t" * 16), 0)
    log_dir = LogDir.open(tmp_path, me, SMALL, now_ms=NOON)
    log = log_dir.create(partition, "t", SMALL, now_ms=NOON)
    fill(log, 60)
    log.flush(NOON)
    log_dir.checkpoint({partition: 170})
    points, watermarks = (tmp_path / name for name in (checkpoint.RECOVERY_POINTS, checkpoint.HIGH_WATERMARKS))
    log.truncate_to(120)
    assert checkpoint.read_offsets(points) == {partition: 120} == checkpoint.read_offsets(watermarks)
    assert log_dir.high_watermark(partition) == 120
    fill(log, 5)
    log_dir.checkpoint({partition: 130})
    before = points.stat().st_mtime_ns
    log.truncate_to(132)
    assert points.stat().st_mtime_ns == before, "they promise no more than what is left"
    log.truncate_fully_and_start_at(10)
    assert checkpoint.read_offsets(points) == {partition: 10} == checkpoint.read_offsets(watermarks)
    starts = tmp_path / checkpoint.LOG_START_OFFSETS
    assert checkpoint.read_offsets(starts) == {partition: 0}, "a start finds that the first segment begins later"
    fill(log, 1)
    log_dir.secure_starts()
    log_dir.checkpoint({})
    assert checkpoint.read_offsets(starts) == {partition: 10}


@pytest.mark.rule(60)
def test_a_log_that_starts_earlier_is_not_cut_to_its_old_start(tmp_path: Path) -> None:
    me, partition = DirectoryIdentity("c", 1, "A" * 22), PartitionId(TopicId(b"t" * 16), 0)
    log_dir = LogDir.open(tmp_path, me, SMALL, now_ms=NOON)
    log = log_dir.create(partition, "t", SMALL, now_ms=NOON)
    fill(log, 60)
    log.delete_records_before(100, HighWatermark(180))
    log_dir.secure_starts()
    log_dir.checkpoint({})
    assert checkpoint.read_offsets(tmp_path / checkpoint.LOG_START_OFFSETS) == {partition: 100}
    log.truncate_to(50)
    fill(log, 3)
    log_dir.abandon()
    again = LogDir.open(tmp_path, me, SMALL, now_ms=NOON).logs[partition]
    assert all_records(again) == offsets_as_values(50, 59)


@pytest.mark.rule(60)
def test_what_could_not_be_written_down_is_before_the_next_append(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no space left")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "write_epochs", full)
        with pytest.raises(OttlaError, match="no space left"):
            log.truncate_to(100)
        for leader_epoch in (5, 7):
            with pytest.raises(OttlaError, match="no space left"):
                fill(log, 1, leader_epoch=leader_epoch)
    assert log.log_end_offset == 99
    fill(log, 1, leader_epoch=7)
    assert (Path(log.directory / checkpoint.LEADER_EPOCHS)).read_text() == "0\n2\n1 0\n2 90\n"
    assert log.epochs.entries[-1] == (7, 99)


def test_half_a_cut_takes_the_directory_offline(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "ftruncate", broken)
    with pytest.raises(OttlaError, match="goes offline: cutting"):
        log.truncate_to(100)
    monkeypatch.undo()
    with pytest.raises(OttlaError, match="is offline"):
        fill(log, 1)
    again = open_log(log.directory, SMALL)
    assert again.log_end_offset >= 99, "a start finds a log without a hole"
    assert all_records(again) == offsets_as_values(0, again.log_end_offset)


def test_a_crash_in_the_middle_of_a_cut_leaves_no_hole(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    real, left = Segment.discard, [3]

    def killed(segment: Segment) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        real(segment)

    monkeypatch.setattr(Segment, "discard", killed)
    with pytest.raises(KeyboardInterrupt):
        log.truncate_to(50)
    monkeypatch.undo()
    again = open_log(log.directory, SMALL)
    assert 50 < again.log_end_offset < 180
    assert all_records(again) == offsets_as_values(0, again.log_end_offset)
    assert again.truncate_to(50) == 48


@pytest.mark.rule(29)
@pytest.mark.parametrize("offset", [1, 50, 100, 141, 190, 199])
def test_producers_are_what_they_were_at_the_cut(tmp_path: Path, offset: int) -> None:
    log = open_log(tmp_path / "log", SMALL)
    for n in range(200):
        log.append(produced(n // 4, producer_id=n % 4, epoch=0), 1, NOON)
        if n % 30 == 0:
            log.flush(NOON)
    log.flush(NOON)
    assert list(Path(log.directory).glob("*.snapshot"))
    log.truncate_to(offset)
    assert known(log.producers) == told_by(stored_headers(log))
    assert all(int(path.stem) <= offset for path in Path(log.directory).glob("*.snapshot"))
    assert log.append(produced(offset // 4, producer_id=offset % 4), 1, NOON).base_offset == offset
    again = open_log(log.directory, SMALL)
    assert known(again.producers) == known(log.producers)


@pytest.mark.rule(29)
def test_a_snapshot_of_what_was_cut_off_vouches_for_nothing(log: Log) -> None:
    """Even one that knows no producer: what is written there later has some."""
    log.flush(NOON)
    assert list(Path(log.directory).glob("*.snapshot"))
    log.truncate_to(10)
    assert not list(Path(log.directory).glob("*.snapshot"))
    for n in range(171):
        log.append(produced(n), 7, NOON)
    again = open_log(log.directory, SMALL)
    assert known(again.producers) == known(log.producers)


@pytest.mark.rule(29)
def test_a_snapshot_that_waits_to_be_written_is_cut_off_too(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    for n in range(60):
        log.append(produced(n), 1, NOON)
    last_roll = log.segments[-1].base_offset
    log.truncate_to(last_roll - 1)
    log.append(values_batch(b"one more record than before", b"and another"), 1, NOON)
    log.flush(NOON)
    assert not list(Path(log.directory).glob("*.snapshot"))
    again = open_log(log.directory, SMALL)
    assert known(again.producers) == told_by(stored_headers(again))


@pytest.fixture
def racing(log: Log) -> Iterator[tuple[Log, list[bytes], Event]]:
    """A reader in another thread that reads one place, again and again, while the log is cut and filled anew."""
    found: list[bytes] = []
    stop = Event()

    def read() -> None:
        while not stop.is_set():
            with suppress(OttlaError):  # out of range, for a moment
                found.append(log.read(120, 700, 1 << 30))

    thread = Thread(target=read)
    thread.start()
    yield log, found, stop
    stop.set()
    thread.join(10)


@pytest.mark.rule(57)
def test_a_reader_beside_a_cut_never_takes_torn_bytes_for_good(racing: tuple[Log, list[bytes], Event]) -> None:
    log, found, _ = racing
    for n in range(20):
        log.truncate_to(100 + n % 7)
        for size in (n, 3 * n % 50, 7) * 12:
            log.append(values_batch(*[b"x" * size] * (n % 4 + 1)), 6 + n, NOON)
    wanted = len(found) + 5
    while len(found) < wanted:
        assert log._disk.failure == ""
    assert any(found)
    for data in set(found):
        headers = headers_of(data)
        assert sum(header.size_bytes for header in headers) == len(data)
        assert len(records_of(data)) == sum(header.record_count for header in headers)  # each CRC is checked


def test_a_read_that_a_cut_came_into_is_done_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same race, at its worst moment: the place is found, and before it is read other batches lie there."""
    real, cuts = os.preadv, [1]

    def preadv(fd: int, buffers: list[memoryview], at: int, flags: int = 0) -> int:
        if cuts.pop() if cuts else 0:
            log.truncate_to(100)
            for n in range(40):
                log.append(values_batch(b"y" * n), 6, NOON)
        return real(fd, buffers, at, flags)

    monkeypatch.setattr(os, "preadv", preadv)
    found = records_of(log.read(130, 400, 180))
    assert found
    assert found[0] == (130, b"y" * 31)


def test_where_reads_ended_is_forgotten_with_what_was_there(log: Log) -> None:
    for offset in range(100, 180):
        log.read(offset, 200, 180)
    log.truncate_to(100)
    for n in range(81):
        log.append(values_batch(b"z" * (n % 5)), 6, NOON)
    for offset in range(99, 180):
        assert records_of(log.read(offset, 1, 180)) == [(offset, b"z" * ((offset - 99) % 5))]


def test_a_cut_lets_go_of_a_disk_that_is_full_of_what_went(tmp_path: Path) -> None:
    disk = Disk(tmp_path)
    log = open_log(tmp_path / "log", SMALL, disk=disk)
    fill(log, 60)
    log.truncate_to(1)
    assert len(log.segments) == 1
    assert disk.unlink_discarded() > 10
    assert not list(Path(log.directory).glob("*.deleted"))
