"""What a read gives: whole batches, within the limit, from anywhere in the log."""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from batches import NOON
from logs import (
    SMALL,
    all_records,
    close_files,
    fill,
    headers_of,
    offsets_as_values,
    open_log,
    records_of,
    values_batch,
)

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage import reading
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_core.errors import ErrorCode, OttlaError

_LENGTH, _MAGIC, _LAST_OFFSET_DELTA = 11, 16, 26
"""The positions of the last byte of these fields in the header of a batch."""


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Thirty records in ten batches in one segment."""
    log = open_log(tmp_path / "log", LogConfig(index_interval_bytes=200))
    fill(log, 10)
    return log


@pytest.mark.rule(57)
def test_only_whole_batches_come_but_always_the_first(log: Log) -> None:
    sizes = [header.size_bytes for header in headers_of(log.read(0, 1 << 20, 30))]
    assert len(sizes) == 10
    assert len(log.read(0, sizes[0] + sizes[1], 30)) == sizes[0] + sizes[1]
    assert len(log.read(0, sizes[0] + sizes[1] - 1, 30)) == sizes[0]
    for max_bytes in (0, 1, 60, 62, sizes[0] - 1):
        assert len(log.read(0, max_bytes, 30)) == sizes[0]
        assert log.read(0, max_bytes, 30, min_one_batch=False) == b""


@pytest.mark.rule(57)
def test_a_batch_may_start_below_the_offset(log: Log) -> None:
    assert records_of(log.read(4, 1, 30)) == offsets_as_values(3, 6)
    assert records_of(log.read(29, 1 << 20, 30)) == offsets_as_values(27, 30)


def test_nothing_comes_from_above_the_limit(log: Log) -> None:
    assert records_of(log.read(0, 1 << 20, 12)) == offsets_as_values(0, 12)
    assert records_of(log.read(0, 1 << 20, 13)) == offsets_as_values(0, 12), "a batch is below it whole or not at all"
    assert log.read(12, 1 << 20, 12) == b""
    assert log.read(20, 1 << 20, 12) == b""
    assert log.read(0, 1 << 20, 2) == b""
    assert records_of(log.read(0, 1 << 20, 1000)) == offsets_as_values(0, 30)


def test_outside_the_log_is_an_error_and_its_end_is_not(log: Log) -> None:
    assert log.read(30, 100, 30) == b""
    for offset in (-1, 31):
        with pytest.raises(OttlaError, match="from 0 to 30") as caught:
            log.read(offset, 100, 30)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_every_offset_is_found_from_everywhere(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    fill(log, 60)
    assert len(log.segments) > 3
    for offset in [*range(0, 180, 7), *reversed(range(180))]:
        first = records_of(log.read(offset, 1, 180))
        assert (offset, b"%d" % offset) in first
        assert first == offsets_as_values(offset - offset % 3, offset - offset % 3 + 3)
    assert all_records(log) == offsets_as_values(0, 180)


def test_a_reader_at_the_tail_sees_an_append_at_once(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    for start in range(0, 300, 3):
        assert log.read(start, 1 << 20, log.log_end_offset) == b""
        fill(log, 1)
        assert records_of(log.read(start, 1 << 20, log.log_end_offset)) == offsets_as_values(start, start + 3)
    assert len(log.segments) > 3, "the tail moved through segments"


def test_going_on_where_a_read_ended_looks_nothing_up(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    log.read(0, 300, 30)
    preads: list[int] = []
    monkeypatch.setattr(os, "pread", lambda *_: pytest.fail("a lookup"))
    real = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, at, flags=0: preads.append(at) or real(fd, views, at, flags))
    data = log.read(9, 300, 30)
    assert records_of(data)[0] == (9, b"9")
    assert len(preads) == 1


@pytest.mark.story("place-is-looked-up-on-the-loop")
@pytest.mark.rule(57)
def test_a_place_that_nobody_has_read_to_is_not_looked_up_where_the_loop_would_wait(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert log.read_hot(0, 1 << 20, 30), "where a segment begins is known"
    log.read(0, 1 << 20, 15)
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", None)
        patched.setattr(os, "pread", None)
        assert log.read_hot(21, 1 << 20, 30) is None
        assert records_of(log.read_hot(15, 1 << 20, 30) or b"") == offsets_as_values(15, 30)
    (header,) = headers_of(log.read(21, 150, 30))
    assert log.read_hot(header.next_offset, 1 << 20, 30), "a thread has found the way"


@pytest.mark.story("file-is-opened-on-the-loop")
def test_a_file_that_is_not_open_is_not_opened_where_the_loop_would_wait(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 30)
    assert len(log.segments) > 2
    close_files(log)
    assert log.read_hot(0, 1 << 20, 30) is None
    assert log.read(0, 1 << 20, 30) == log.read_hot(0, 1 << 20, 30)


def test_a_first_batch_larger_than_a_read_takes_comes_in_a_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(tmp_path / "log", LogConfig())
    value = os.urandom(reading.READ_MAX_BYTES + 1)
    log.config = LogConfig(max_message_bytes=1 << 30)
    log.append(values_batch(value), 1, NOON)
    assert log.read_hot(0, 1 << 30, 1) is None
    assert records_of(log.read(0, 1, 1)) == [(0, value)]
    assert log.read(0, 1 << 20, 1, min_one_batch=False) == b""


class TestHotAndCold:
    """A read on the loop never waits for the disk: it gives way to one in a thread."""

    def test_what_was_just_written_is_hot(self, log: Log) -> None:
        hot = log.read_hot(0, 1 << 20, 30)
        assert hot is not None
        assert records_of(hot) == offsets_as_values(0, 30)
        assert log.read_hot(30, 100, 30) == b""

    def test_pages_that_are_gone_are_cold(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.preadv

        def cold(fd: int, views: list[memoryview], at: int, flags: int = 0) -> int:
            if flags == os.RWF_NOWAIT:
                raise BlockingIOError
            return real(fd, views, at, flags)

        monkeypatch.setattr(os, "preadv", cold)
        assert log.read_hot(0, 1 << 20, 30) is None
        assert records_of(log.read(0, 1 << 20, 30)) == offsets_as_values(0, 30)

    def test_pages_that_are_partly_gone_are_cold(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.preadv
        monkeypatch.setattr(os, "preadv", lambda fd, views, at, flags=0: real(fd, [views[0][:50]], at, flags))
        assert log.read_hot(0, 1 << 20, 30) is None

    def test_a_file_system_that_can_not_tell_counts_as_hot(self, log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
        real = os.preadv

        def in_memory(fd: int, views: list[memoryview], at: int, flags: int = 0) -> int:
            if flags:
                raise OSError(95, "Operation not supported")
            return real(fd, views, at)

        monkeypatch.setattr(os, "preadv", in_memory)
        assert log.read_hot(0, 1 << 20, 30) == log.read(0, 1 << 20, 30)

    def test_a_lookup_in_a_sealed_segment_is_not_done_on_the_loop(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "log", SMALL)
        fill(log, 60)
        assert log.read_hot(4, 100, 180) is None
        log.read(4, 100, 180)
        assert log.read_hot(6, 100, 180) is not None, "the place where the read ended is remembered"


@pytest.mark.parametrize("damage", [lambda b: b"\0" * len(b), lambda b: b[:8] + b"\xff" * 4 + b[12:]])
def test_bytes_that_are_no_batch_are_never_served(log: Log, damage: Callable[[bytes], bytes]) -> None:
    path = next(Path(log.directory).glob("*.log"))
    data = path.read_bytes()
    header = headers_of(data)[4]
    at = sum(h.size_bytes for h in headers_of(data)[:4])
    path.write_bytes(data[:at] + damage(data[at : at + header.size_bytes]) + data[at + header.size_bytes :])
    assert records_of(log.read(0, 1 << 20, 30)) == offsets_as_values(0, 12)
    with pytest.raises(OttlaError) as caught:
        log.read(12, 1 << 20, 30)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


class TestAReadThatReturnsAWrongHeader:
    """A disk may flip a bit of a header, in one read or in each. No read passes over records because of that."""

    @staticmethod
    def flip_once(monkeypatch: pytest.MonkeyPatch, position: int, bit: int) -> None:
        """Have the next read of this position return it with one bit flipped."""
        flips = [position]

        def flipped(data: bytes, begin: int) -> bytes:
            if not flips or not begin <= position < begin + len(data):
                return data
            at = flips.pop() - begin
            return data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :]

        read, read_into = DataFile.read, DataFile.read_into

        def read_flipped(self: DataFile, position: int, size_bytes: int) -> bytes:
            return flipped(read(self, position, size_bytes), position)

        def read_flipped_into(self: DataFile, view: memoryview, position: int, *, hot: bool = False) -> int | None:
            count = read_into(self, view, position, hot=hot)
            view[:] = flipped(bytes(view), position)
            return count

        monkeypatch.setattr(DataFile, "read", read_flipped)
        monkeypatch.setattr(DataFile, "read_into", read_flipped_into)

    @staticmethod
    def damage(path: Path, position: int, bit: int) -> None:
        data = bytearray(path.read_bytes())
        data[position] ^= bit
        path.write_bytes(data)

    @pytest.mark.story("flipped-header-passed-over-records")
    @pytest.mark.parametrize("field", [_MAGIC, _LENGTH, _LAST_OFFSET_DELTA])
    def test_a_lookup_passes_over_no_batch(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: int) -> None:
        log = open_log(tmp_path / "log", LogConfig(segment_bytes=1000, index_interval_bytes=10_000))
        fill(log, 30)
        first = headers_of(log.read(0, 1 << 20, 90))
        offset, at = first[-1].base_offset, sum(header.size_bytes for header in first[:-1])
        self.flip_once(monkeypatch, at + field, 2)
        assert records_of(log.read(offset + 2, 1, 90)) == offsets_as_values(offset, offset + 3)

    @pytest.mark.story("flipped-header-passed-over-records")
    @pytest.mark.parametrize("field", [_MAGIC, _LENGTH, _LAST_OFFSET_DELTA])
    def test_damage_is_an_error_and_no_gap(self, tmp_path: Path, field: int) -> None:
        log = open_log(tmp_path / "log", LogConfig(segment_bytes=1000, index_interval_bytes=10_000))
        fill(log, 30)
        first = headers_of(log.read(0, 1 << 20, 90))
        offset, at = first[-1].base_offset, sum(header.size_bytes for header in first[:-1])
        self.damage(Path(log.segments[0].path), at + field, 2)
        with pytest.raises(OttlaError, match=r"the sound batches of .* end at") as caught:
            log.read(offset + 2, 1 << 20, 90)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert records_of(log.read(first[-1].next_offset, 1, 90))[0][0] == first[-1].next_offset

    @pytest.mark.story("place-of-a-wrong-header-was-remembered")
    @pytest.mark.parametrize("hot", [False, True])
    def test_the_place_where_it_ended_is_looked_up_again(
        self, log: Log, monkeypatch: pytest.MonkeyPatch, *, hot: bool
    ) -> None:
        first, *_ = headers_of(log.read(0, 1 << 20, 30))
        self.flip_once(monkeypatch, first.size_bytes + _LAST_OFFSET_DELTA, 2)
        log.read(0, 2 * first.size_bytes, 30)  # its last batch seems to end at 4
        data = log.read_hot(4, 1 << 20, 30) if hot else log.read(4, 1 << 20, 30)
        assert data is None if hot else records_of(data or b"")[0] == (3, b"3")

    @pytest.mark.story("flipped-header-kept-what-was-cut-off")
    @pytest.mark.parametrize("field", [_MAGIC, _LENGTH, _LAST_OFFSET_DELTA])
    def test_a_truncation_leaves_nothing_behind_the_cut(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: int
    ) -> None:
        log = open_log(tmp_path / "log", LogConfig(index_interval_bytes=10_000))
        fill(log, 6)
        sizes, before = [header.size_bytes for header in headers_of(log.read(0, 1 << 20, 18))], log.size_bytes
        self.flip_once(monkeypatch, sum(sizes[:5]) + field, 64)
        assert log.truncate_to(15) == 15
        fill(log, 1)
        assert records_of(log.read(0, 1 << 20, 18)) == offsets_as_values(0, 18)
        assert log.size_bytes == before

    def test_a_truncation_cuts_off_no_batch_too_many(self, log: Log) -> None:
        first, *_ = headers_of(log.read(0, 1 << 20, 30))
        at = 4 * first.size_bytes + _LAST_OFFSET_DELTA
        self.damage(Path(log.segments[0].path), at, 64)  # the batch at 12 seems to hold 15, too
        with pytest.raises(OttlaError) as caught:
            log.truncate_to(15)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
        assert log.log_end_offset == 30
        self.damage(Path(log.segments[0].path), at, 64)
        assert log.truncate_to(15) == 15

    def test_a_search_by_time_is_an_error(self, tmp_path: Path) -> None:
        log = open_log(tmp_path / "log", LogConfig(segment_bytes=1000, index_interval_bytes=10_000))
        fill(log, 30)
        first = headers_of(log.read(0, 1 << 20, 90))
        at = sum(header.size_bytes for header in first[:-1])
        self.damage(Path(log.segments[0].path), at + _MAGIC, 1)
        with pytest.raises(OttlaError) as caught:
            log.offset_for_time(NOON + 1000 * first[-1].base_offset, 90)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_an_error_of_the_device_takes_the_directory_offline(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> int:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "preadv", broken)
    with pytest.raises(OttlaError, match="goes offline"):
        log.read(0, 100, 30)
    monkeypatch.undo()
    with pytest.raises(OttlaError, match="is offline") as caught:
        log.read(0, 100, 30)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR


def test_threads_may_read_while_the_log_grows_rolls_and_shrinks(tmp_path: Path) -> None:
    """Whatever a read gives is what was written there; an offset that is gone by now is out of range."""
    log = open_log(tmp_path / "log", LogConfig(segment_bytes=2000, index_interval_bytes=200))
    fill(log, 10)
    done = threading.Event()

    def follow(seed: int) -> int:
        chance, reads = random.Random(seed), 0
        while not done.is_set():
            start, end = log.log_start_offset, log.log_end_offset
            offset = chance.randrange(start, end)
            try:
                records = records_of(log.read(offset, 500, end))
                log.offset_for_time(NOON + offset * 1000, end)
            except OttlaError as error:
                if error.code != ErrorCode.OFFSET_OUT_OF_RANGE:
                    raise
                continue
            assert records[0][0] <= offset <= records[-1][0]
            assert records == offsets_as_values(records[0][0], records[-1][0] + 1)
            reads += 1
        return reads

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(follow, seed) for seed in range(3)]
        try:
            for step in range(300):
                fill(log, 5)
                if step % 10 == 0:
                    log.flush(NOON)
                    log.delete_records_before(max(0, log.log_end_offset - 400), HighWatermark(log.log_end_offset))
                    log._disk.unlink_discarded()
        finally:
            done.set()
        assert min(reader.result(timeout=20) for reader in readers) > 10
