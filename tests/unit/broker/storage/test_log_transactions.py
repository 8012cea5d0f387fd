"""The index of aborted transactions through crashes: no hint, so a start trusts it only where it was synced."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from errno import EBADMSG
from pathlib import Path, PurePath
from threading import Thread
from typing import Any
from unittest.mock import Mock

import pytest
from batches import NOON
from logs import fill, open_log
from produced import produced
from transactional_logs import end_of, end_transaction, transactions_told_by

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log import Log
from ottla_broker.storage.producer_history import ProducerHistory
from ottla_broker.storage.transactions.aborted_index import AbortedIndex, packed
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import ATTRIBUTES_OFFSET, CONTROL, TRANSACTIONAL


@pytest.mark.rule(38, 58)
def test_an_index_that_was_not_synced_before_the_power_went_is_rebuilt(tmp_path: Path) -> None:
    """Though a snapshot of the producers behind it is on the disk."""
    log = open_log(tmp_path / "log")
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    fill(log, 30)
    log.flush(NOON)
    expected = transactions_told_by(log).aborted
    assert log.aborted.between(0, 9) == expected != []
    (Path(log.directory / f"{0:020d}.txnindex")).unlink()
    again = open_log(log.directory, recovery_point=0)
    assert again.aborted.between(0, 9) == expected
    assert (Path(log.directory / f"{0:020d}.txnindex")).stat().st_size == 34


AFTER_A_CUT: dict[str, Callable[[bytes], bytes]] = {
    "zeros": lambda whole: bytes(len(whole)),
    "zeros before it": lambda whole: bytes(2 * 34) + whole,
    "another aborted transaction": lambda whole: packed([AbortedTransaction(7, 0, 1, 2)]) + whole,
    "garbage": lambda whole: b"\x00\x07" * (len(whole) // 2),
    "half": lambda whole: whole[: len(whole) // 2],
}


@pytest.mark.rule(38, 58)
@pytest.mark.story("index-kept-what-a-power-cut-left")
@pytest.mark.parametrize("left", AFTER_A_CUT)
def test_whatever_a_power_cut_leaves_of_an_index_is_not_in_it_after_a_start(tmp_path: Path, left: str) -> None:
    """It was not synced. Zeros look like transactions that ended before the segment."""
    log = open_log(tmp_path / "log")
    fill(log, 20)
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    log.flush(NOON)
    expected = transactions_told_by(log).aborted
    assert expected
    assert len(log.segments) > 1
    log.segments[-1].aborted.write()
    path = log.segments[-1].path.with_suffix(".txnindex")
    whole = Path(path).read_bytes()
    Path(path).write_bytes(AFTER_A_CUT[left](whole))
    again = open_log(log.directory, recovery_point=log.recovery_point)
    assert again.aborted.between(0, again.log_end_offset) == expected
    assert Path(path).read_bytes() == whole


@pytest.mark.rule(38, 58)
@pytest.mark.story("emptied-segment-kept-its-index")
def test_a_power_cut_that_takes_all_batches_of_a_segment_leaves_nothing_in_its_index(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    log.segments[-1].aborted.write()
    path = Path(log.segments[-1].path)
    path.write_bytes(b"")
    again = open_log(log.directory, recovery_point=0)
    fill(again, 10)
    again.flush(NOON)
    assert again.aborted.between(0, again.log_end_offset) == []
    assert path.with_suffix(".txnindex").stat().st_size == 0


@pytest.mark.rule(38, 58)
@pytest.mark.story("emptied-index-was-not-synced")
def test_an_index_that_a_truncation_has_emptied_is_synced_with_its_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a power cut brings the transaction back, and readers leave out the records that came instead of it."""
    log = open_log(tmp_path / "log")
    fill(log, 1)
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    log.segments[-1].aborted.write()
    synced: list[str] = []
    syncing = Disk.sync
    monkeypatch.setattr(Disk, "sync", lambda disk, file: (synced.append(file.path.name), syncing(disk, file)))
    log.truncate_to(3)
    fill(log, 60)
    log.flush(NOON)
    assert f"{0:020d}.txnindex" in synced
    assert (Path(log.directory / f"{0:020d}.txnindex")).stat().st_size == 0


class Synced:
    """The files of a log as of their last fsync, which is what a power cut leaves at the least."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.files: dict[PurePath, bytes] = {}
        self.directories: list[PurePath] = []
        syncing, syncing_directory = Disk.sync, Disk.sync_directory

        def sync(disk: Disk, file: DataFile) -> None:
            syncing(disk, file)
            self.files[file.path] = Path(file.path).read_bytes()

        def sync_directory(disk: Disk, directory: PurePath) -> None:
            syncing_directory(disk, directory)
            self.directories.append(directory)

        monkeypatch.setattr(Disk, "sync", sync)
        monkeypatch.setattr(Disk, "sync_directory", sync_directory)

    def cut_power(self, index: Path) -> None:
        """Leave of an index what was synced."""
        index.write_bytes(self.files.get(index, b""))


def abort_one(log: Log) -> Path:
    """Abort a transaction, and return the path of the index that has it."""
    segment = log.segments[-1]
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    assert log.segments[-1] is segment
    return Path(segment.path).with_suffix(".txnindex")


def roll_at_the_recovery_point(log: Log) -> None:
    end_offset = log.log_end_offset
    assert int(log.recovery_point) == end_offset
    log.config = replace(log.config, segment_bytes=log.segments[-1].size_bytes)
    fill(log, 1)
    assert log.segments[-1].base_offset == end_offset


@pytest.mark.rule(38, 58)
@pytest.mark.story("index-of-a-flushed-segment-was-not-synced")
@pytest.mark.parametrize("flushed_before", [False, True])
def test_a_flush_syncs_the_index_of_the_active_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flushed_before: bool
) -> None:
    """The segment may roll right there. Then a start trusts it, although no flush has seen it sealed."""
    log, synced = open_log(tmp_path / "log"), Synced(monkeypatch)
    if flushed_before:
        fill(log, 1)
        log.flush(NOON)
    index = abort_one(log)
    synced.directories.clear()
    log.flush(NOON)
    assert log.directory in synced.directories, "its name lasts, too"
    assert log.aborted.between(0, 9)
    del synced.files[index]
    log.flush(NOON)
    fill(log, 1)
    log.flush(NOON)
    assert index not in synced.files, "a flush without new entries does not sync it"


@pytest.mark.rule(38, 58)
@pytest.mark.story("index-of-a-flushed-segment-was-not-synced")
def test_what_a_flush_covers_is_in_the_index_after_a_power_cut_even_if_the_log_rolls_right_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, synced = open_log(tmp_path / "log"), Synced(monkeypatch)
    index = abort_one(log)
    log.flush(NOON)
    roll_at_the_recovery_point(log)
    expected = log.aborted.between(0, 9)
    synced.cut_power(index)
    again = open_log(log.directory, recovery_point=log.recovery_point)
    assert again.aborted.between(0, 9) == expected != []


@pytest.mark.rule(38, 58)
@pytest.mark.story("flush-passed-a-marker-that-was-not-noted")
def test_a_flush_between_the_write_of_a_marker_and_its_note_does_not_pass_the_marker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, synced = open_log(tmp_path / "log"), Synced(monkeypatch)
    noting = ProducerHistory.on_stored

    def flush_first(history: ProducerHistory, *arguments: Any) -> None:
        log.flush(NOON)
        noting(history, *arguments)

    with monkeypatch.context() as beside:
        beside.setattr(ProducerHistory, "on_stored", flush_first)
        index = abort_one(log)
    assert log.recovery_point < log.log_end_offset
    log.flush(NOON)
    roll_at_the_recovery_point(log)
    expected = log.aborted.between(0, 9)
    synced.cut_power(index)
    again = open_log(log.directory, recovery_point=log.recovery_point)
    assert again.aborted.between(0, 9) == expected != []


def test_an_index_whose_sync_failed_is_synced_by_the_next_flush(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk stays online where no file descriptor is free."""
    log, synced = open_log(tmp_path / "log"), Synced(monkeypatch)
    fill(log, 1)
    log.flush(NOON)
    index = abort_one(log)
    failure = OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "too many files")
    with monkeypatch.context() as scarce:
        scarce.setattr(Disk, "sync_directory", Mock(side_effect=failure))
        with pytest.raises(OttlaError, match="too many files"):
            log.flush(NOON)
    synced.files.clear()
    synced.directories.clear()
    log.flush(NOON)
    assert index in synced.files
    assert log.directory in synced.directories


def test_a_flush_creates_no_index_for_a_segment_that_retention_has_just_taken(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    index = abort_one(log)
    segment = log.segments[0]
    segment.aborted.write()
    index.unlink()
    with pytest.raises(FileNotFoundError):
        segment.aborted.sync(Disk(tmp_path))
    assert not index.exists()


def index_of(directory: Path, count: int, *, unordered_at: int = -1) -> AbortedIndex:
    """An index file of `count` aborted transactions, two offsets each."""
    entries = [AbortedTransaction(7, 2 * n, 2 * n + 1, 2 * n + 2) for n in range(count)]
    if unordered_at >= 0:
        entries[unordered_at] = entries[unordered_at]._replace(last_offset=entries[unordered_at].first_offset)
    (directory / f"{0:020d}.txnindex").write_bytes(packed(entries))
    return AbortedIndex(directory / f"{0:020d}.log")


@pytest.mark.rule(58)
@pytest.mark.story("a-start-read-every-aborted-transaction")
def test_an_orderly_start_reads_nothing_of_what_was_aborted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = open_log(tmp_path / "log")
    for n in range(20):
        log.append(produced(0, epoch=n, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
        end_transaction(log, end_of(7, n + 1, committed=False))
        if n % 5 == 4:
            fill(log, 30)
    log.close(NOON)
    expected = transactions_told_by(log).aborted
    indexes = list(Path(log.directory).glob("*.txnindex"))
    assert len(indexes) > 2
    read: list[PurePath] = []
    reading = DataFile.read

    def noted(self: DataFile, position: int, size_bytes: int) -> bytes:
        read.append(self.path)
        return reading(self, position, size_bytes)

    monkeypatch.setattr(DataFile, "read", noted)
    again = open_log(log.directory, clean=True)
    assert not {*indexes} & {*read}
    assert again.aborted.between(0, again.log_end_offset) == expected
    assert {*indexes} <= {*read}, "a reader does"


@pytest.mark.rule(58)
def test_a_torn_index_is_rebuilt_by_an_orderly_start(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    log.close(NOON)
    index = log.directory / f"{0:020d}.txnindex"
    Path(index).write_bytes(Path(index).read_bytes()[:20])
    again = open_log(log.directory, clean=True)
    assert again.aborted.between(0, 9) == transactions_told_by(log).aborted != []


@pytest.mark.rule(38)
@pytest.mark.parametrize("at", [0, 5, 999, 1000, 2999])
def test_entries_that_can_not_be_what_was_written_fail_who_reads_them(tmp_path: Path, at: int) -> None:
    """An answer that lacks one of them would show aborted records."""
    assert len(list(index_of(tmp_path, 3000).entries())) == 3000
    with pytest.raises(OSError, match="is damaged") as caught:
        list(index_of(tmp_path, 3000, unordered_at=at).entries())
    assert caught.value.errno == EBADMSG


@pytest.mark.rule(38)
def test_a_damaged_index_is_the_error_of_its_partition_and_takes_no_disk_offline(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    log.close(NOON)
    index_of(Path(log.directory), 1, unordered_at=0)
    again = open_log(log.directory, clean=True)
    with pytest.raises(OttlaError, match="is damaged") as caught:
        again.aborted.between(0, 2)
    assert (caught.value.code, again.is_offline) == (ErrorCode.KAFKA_STORAGE_ERROR, False)
    assert "ottla log index" in caught.value.hint


def test_what_is_replaced_is_what_has_ended_from_there_on(tmp_path: Path) -> None:
    index = index_of(tmp_path, 3000)
    before = list(index.entries())
    index.add(AbortedTransaction(7, 6000, 6001, 6002))
    index.add(AbortedTransaction(7, 6002, 6003, 6004))
    index.replace_from(6002, ())
    assert list(index.entries()) == [*before, AbortedTransaction(7, 6000, 6001, 6002)]
    other = AbortedTransaction(8, 2001, 2010, 2011)
    index.replace_from(2001, [other])
    assert list(index.entries()) == [*before[:1000], other]
    assert list(AbortedIndex(tmp_path / f"{0:020d}.log").entries()) == [*before[:1000], other]


@pytest.mark.story("aborted-transaction-lost-to-a-reader")
@pytest.mark.rule(38)
def test_what_is_aborted_while_a_reader_loads_the_index_stays_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = AbortedIndex(tmp_path / f"{0:020d}.log")
    aborted = AbortedTransaction(7, 0, 9, 10)
    writer = Thread(target=index.add, args=(aborted,))
    opened = AbortedIndex._open

    def begin_to_write(self: AbortedIndex) -> DataFile | None:
        file = opened(self)
        if writer.ident is None:
            writer.start()
            writer.join(0.2)  # a writer that does not wait for the reader is done by then
        return file

    monkeypatch.setattr(AbortedIndex, "_open", begin_to_write)
    assert list(index.entries()) == []
    writer.join(10.0)
    assert list(index.entries()) == [aborted]


@pytest.mark.rule(29, 58)
@pytest.mark.story("damaged-marker-had-no-name")
def test_a_damaged_marker_is_named_by_a_start_that_reads_it(tmp_path: Path) -> None:
    """Nobody can tell whether its transaction was committed, so the start fails, and says what to move away."""
    log = open_log(tmp_path / "log")
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    end_transaction(log, end_of(7, 1, committed=False))
    marker_end = log.segments[-1].size_bytes
    fill(log, 1)
    log.flush(NOON)
    path = Path(log.segments[-1].path)
    data = path.read_bytes()
    path.write_bytes(data[: marker_end - 1] + bytes([data[marker_end - 1] ^ 1]) + data[marker_end:])
    with pytest.raises(OSError, match=rf"the control batch at \d+ of {path} is damaged") as caught:
        open_log(log.directory, clean=True)
    assert caught.value.errno == EBADMSG


@pytest.mark.rule(38, 58)
@pytest.mark.story("flipped-read-hid-an-abort")
def test_a_bit_that_is_flipped_in_one_read_of_a_start_hides_no_aborted_transaction(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    log.append(produced(0, attributes=TRANSACTIONAL), 1, NOON, transactional=True)
    marker_at = log.segments[0].size_bytes
    end_transaction(log, end_of(7, 1, committed=False))
    fill(log, 3)
    log.flush(NOON)
    expected = log.aborted.between(0, 9)
    assert expected
    is_control = marker_at + ATTRIBUTES_OFFSET + 1
    read = DataFile.read
    for number in itertools.count():
        reads = itertools.count()

        def flipped(file: DataFile, begin: int, size: int) -> bytes:
            data = bytearray(read(file, begin, size))
            if file.path.suffix == ".log" and next(reads) == number and 0 <= is_control - begin < len(data):  # noqa: B023
                data[is_control - begin] ^= CONTROL
            return bytes(data)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(DataFile, "read", flipped)
            again = open_log(log.directory, recovery_point=log.log_end_offset)
        assert again.aborted.between(0, 9) == expected
        again.close(NOON)
        if next(reads) <= number:
            return
