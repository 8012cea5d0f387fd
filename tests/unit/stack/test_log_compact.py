"""`ottla log compact`: what the cleaner would do, while the broker is stopped, and nothing where it can't be done."""

from __future__ import annotations

import json
import shutil
from errno import ENOSPC
from pathlib import Path, PurePath
from typing import Any

import pytest
from batches import NOON, sealed
from log_tools import KEYS, TOPIC_ID, ottla_log, segments, table_in, write_compacted, write_data

from ottla_broker.compaction.cleaned_file import CleanedFile
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.storage import checkpoint, swap
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.identity import DirectoryIdentity, DirectoryLock, load_identity, new_directory_id
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.scan import headers
from ottla_broker.storage.segment import Segment
from ottla_core.model import PartitionId
from ottla_core.records.batch import TRANSACTIONAL
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder
from ottla_stack.log_tools import compact
from ottla_stack.log_tools.directory_lock import locked
from ottla_stack.log_tools.log_files import find_logs
from ottla_stack.log_tools.verify import LogVerifier

ID = PartitionId(TOPIC_ID, 0)


def compacted(monkeypatch: pytest.MonkeyPatch, directory: PurePath, *arguments: str) -> int:
    return ottla_log(monkeypatch, "compact", Path(directory), "--yes", "-o", "json", *arguments)


def files_of(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def is_sound(directory: Path) -> bool:
    (log,) = find_logs(directory)
    verifier = LogVerifier(log, deep=True)
    return not any(report.damages for report in verifier.segments()) and not list(verifier.other_files())


def started(data: Path) -> LogDir:
    """As a broker starts on it."""
    identity = load_identity(data)
    assert isinstance(identity, DirectoryIdentity)
    return LogDir.open(data, identity, LogConfig(), now_ms=NOON)


@pytest.mark.rule(62)
def test_the_newest_of_each_key_is_left_and_the_broker_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_compacted(tmp_path)
    before, table, active = (
        sum(len(p.read_bytes()) for p in segments(directory)),
        table_in(directory),
        segments(directory)[-1],
    )
    content = active.read_bytes()
    assert compacted(monkeypatch, directory) == 0
    (done,) = json.loads(capsys.readouterr().out)["items"]
    assert table_in(directory) == table
    assert active.read_bytes() == content, "the active segment is not touched"
    end = int(active.stem)
    assert (done["end_offset"], done["records_before"], done["records_kept"]) == (end, end, KEYS)
    after = sum(len(p.read_bytes()) for p in segments(directory))
    assert (done["bytes_before"], done["bytes_after"]) == (before, after)
    assert after < before / 3
    assert is_sound(directory)
    log_dir = started(tmp_path)
    log = log_dir.logs[ID]
    assert (log.log_end_offset, log.compaction.first_dirty_offset) == (1200, end)
    log_dir.close({}, now_ms=NOON)
    found = files_of(directory)
    assert compacted(monkeypatch, directory) == 0
    assert files_of(directory) == found, "what is clean is not cleaned again"


def test_nothing_above_the_high_watermark_is_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_compacted(tmp_path, high_watermark=300)
    above = [path.read_bytes() for path in segments(directory) if int(path.stem) >= 300]
    assert compacted(monkeypatch, directory) == 0
    assert [path.read_bytes() for path in segments(directory) if int(path.stem) >= 300] == above
    assert checkpoint.read_offsets(tmp_path / checkpoint.CLEANED)[ID] <= 300
    assert is_sound(directory)


def test_a_copy_is_cleaned_up_to_its_active_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = shutil.copytree(write_compacted(tmp_path / "data", high_watermark=0), tmp_path / "table-0")
    table = table_in(copy)
    assert compacted(monkeypatch, copy) == 0
    assert len(segments(copy)) == 2
    assert table_in(copy) == table
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == []


@pytest.mark.story("gaps-of-a-copy-taken-for-losses")
def test_the_gaps_that_kafkas_cleaner_left_between_segments_cost_a_copy_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps no last batch of a segment, so that the next one does not begin where the one before it ends."""
    copy = shutil.copytree(write_compacted(tmp_path / "data", high_watermark=0), tmp_path / "table-0")
    assert compacted(monkeypatch, copy) == 0
    cleaned = segments(copy)[0]
    raw = cleaned.read_bytes()
    batches = list(headers(DataFile(cleaned), 0, len(raw)))
    assert len(batches) > 2
    cleaned.write_bytes(raw[: batches[-1][0]])
    for path in (*copy.glob("*index"), *copy.glob("*.snapshot")):
        path.unlink()
    table, names = table_in(copy), [path.name for path in segments(copy)]
    assert compacted(monkeypatch, copy) == 0
    assert table_in(copy) == table
    assert [path.name for path in segments(copy)] == names


def test_a_map_that_is_too_small_takes_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_compacted(tmp_path)
    table = table_in(directory)
    settings = CleanerSettings(map_bytes=400)
    monkeypatch.setattr(compact, "CleanerSettings", lambda: settings)
    assert compacted(monkeypatch, directory) == 0
    (done,) = json.loads(capsys.readouterr().out)["items"]
    assert done["end_offset"] == done["records_before"] == int(segments(directory)[-1].stem)
    assert table_in(directory) == table


def test_tombstones_wait_for_as_long_as_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_compacted(tmp_path)
    log_dir = started(tmp_path)
    log_dir.logs[ID].config = LogConfig(segment_bytes=100)
    for key in (b"k0", b"k1", b"k2"):
        log_dir.logs[ID].append(sealed([(0, NOON, key, None, [])]), 9, NOON)
    log_dir.close({ID: 1203}, now_ms=NOON)
    assert compacted(monkeypatch, directory, "--delete-retention", "0s") == 0
    assert {b"k0", b"k1"} < table_in(directory).keys(), "their horizon is their first cleaning"
    (tmp_path / checkpoint.CLEANED).unlink()
    assert compacted(monkeypatch, directory, "--delete-retention", "0s") == 0
    assert table_in(directory).keys() & {b"k0", b"k1", b"k2"} == {b"k2"}, "which is in the active segment"


def test_a_running_brokers_log_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_compacted(tmp_path)
    before, lock = files_of(directory), DirectoryLock(tmp_path)
    assert compacted(monkeypatch, directory) == 1
    assert f"{tmp_path} is in use by another broker, process " in capsys.readouterr().err
    assert files_of(directory) == before
    lock.release()
    assert ottla_log(monkeypatch, "compact", directory) == 2, "without a yes"
    assert files_of(directory) == before


def test_a_copy_is_changed_by_one_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = shutil.copytree(write_compacted(tmp_path / "data"), tmp_path / "table-0")
    before = files_of(copy)
    with locked(tmp_path):
        assert compacted(monkeypatch, copy) == 1
        assert f"another `ottla log` command is changing a log in {tmp_path}" in capsys.readouterr().err
        assert files_of(copy) == before
    assert compacted(monkeypatch, copy) == 0


def test_what_is_not_one_partition_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_compacted(tmp_path)
    before = files_of(directory)
    for path, problem in (
        (tmp_path, "is not the directory of one partition"),
        (segments(directory)[0], "is not the directory of one partition"),
        (shutil.copytree(directory, tmp_path / "table-0"), "is not a partition of this broker"),
    ):
        assert compacted(monkeypatch, path) == 2
        assert f"{path} {problem}" in capsys.readouterr().err
    assert compacted(monkeypatch, tmp_path / "elsewhere" / "gone-0") == 4
    assert files_of(directory) == before


@pytest.mark.parametrize("damage", ["flipped", "torn", "no epochs"])
def test_a_damaged_log_is_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    directory = write_compacted(tmp_path)
    path = segments(directory)[2 if damage == "flipped" else -1]
    if damage == "no epochs":
        path = directory / checkpoint.LEADER_EPOCHS
        path.unlink()
    else:
        data = path.read_bytes()
        path.write_bytes(data[:-1] + (bytes([data[-1] ^ 1]) if damage == "flipped" else b""))
    before = files_of(directory)
    assert compacted(monkeypatch, directory) == (2 if damage == "no epochs" else 1)
    told = f"{directory} has no readable {path.name}" if damage == "no epochs" else str(path)
    assert told in capsys.readouterr().err
    assert files_of(directory) == before


def test_a_record_without_a_key_is_named_and_dropped_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path)
    log_dir = started(tmp_path)
    log_dir.close({PartitionId(TOPIC_ID, 0): 90}, now_ms=NOON)
    before = files_of(directory)
    assert compacted(monkeypatch, directory) == 1
    assert "the record at offset 0 has no key" in (error := capsys.readouterr().err)
    assert "--drop-keyless" in error
    assert files_of(directory) == before
    assert compacted(monkeypatch, directory, "--drop-keyless") == 0
    (done,) = json.loads(capsys.readouterr().out)["items"]
    assert done["records_before"] - done["records_kept"] >= 90


def test_without_room_nothing_is_touched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_compacted(tmp_path)
    before, write = files_of(directory), DataFile.write

    def full(file: DataFile, *arguments: Any) -> int:
        if file.path.name.endswith(swap.CLEANED):
            raise OSError(ENOSPC, "No space left on device")
        return write(file, *arguments)

    monkeypatch.setattr(DataFile, "write", full)
    assert compacted(monkeypatch, directory) == 1
    error = capsys.readouterr().err
    assert f"{directory}: there is no room for the cleaned segments" in error
    assert "free space for one more segment" in error
    assert files_of(directory) == before

    def no_file(*_: object) -> None:
        (directory / "00000000000000000000.log.cleaned").write_bytes(b"")
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(CleanedFile, "__init__", no_file)
    assert compacted(monkeypatch, directory) == 1
    assert files_of(directory) == before


class Killed(BaseException):
    pass


@pytest.mark.parametrize("step", range(6))
def test_killed_at_any_step_of_the_swap_the_next_or_a_start_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    directory = write_compacted(tmp_path / "data")
    table, left = table_in(directory), [step]

    def dying(original: Any) -> Any:
        def call(*arguments: Any) -> Any:
            if not left[0]:
                raise Killed
            left[0] -= 1
            return original(*arguments)

        return call

    with monkeypatch.context() as killing:
        killing.setattr(swap, "decide", dying(swap.decide))
        killing.setattr(Segment, "discard", dying(Segment.discard))
        killing.setattr(swap, "take_names", dying(swap.take_names))
        with pytest.raises(Killed):
            compact.compact(directory, delete_retention_ms=0, min_lag_ms=0, drops_keyless=False)
    copy = shutil.copytree(tmp_path / "data", tmp_path / "copy")
    log_dir = started(copy)
    assert log_dir.logs[ID].log_end_offset == 1200
    log_dir.close({}, now_ms=NOON)
    assert table_in(copy / directory.name) == table
    assert compacted(monkeypatch, directory) == 0
    assert table_in(directory) == table
    assert is_sound(directory)


CONFIG = LogConfig(segment_bytes=2000, compacts=True, deletes=False)


def put(log: Log, key: bytes, count: int = 1, *, epoch: int = 1) -> None:
    for _ in range(count):
        log.append(sealed([(0, NOON, key, b"%d" % log.log_end_offset + b"x" * 40, [])]), epoch, NOON)


def started_with_a_table(data: Path) -> tuple[LogDir, Log]:
    log_dir = LogDir.open(data, DirectoryIdentity("cluster", 1, new_directory_id()), CONFIG, now_ms=NOON)
    return log_dir, log_dir.create(ID, "table", CONFIG, now_ms=NOON)


@pytest.mark.story("offline-compaction-of-an-open-transaction")
@pytest.mark.rule(37, 62)
def test_what_an_open_transaction_overwrites_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The transaction may be aborted once the broker is there again."""
    log_dir, log = started_with_a_table(tmp_path)
    put(log, b"balance")
    builder = new_builder(1 << 20)
    builder.append(NOON, b"balance", b"of a transaction that is aborted later")
    batch = builder.seal(producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    log.append(batch, 1, NOON, transactional=True)
    put(log, b"other", 100)
    log_dir.close({ID: log.log_end_offset}, now_ms=NOON)
    assert compacted(monkeypatch, log.directory) == 0
    again = started(tmp_path)
    first = next(iter(read_records(again.logs[ID].read(0, 1, again.logs[ID].log_end_offset))))
    assert (first[0], first[2]) == (0, b"balance")
    again.close({}, now_ms=NOON)


@pytest.mark.rule(4, 58, 62)
def test_the_log_of_a_broker_that_was_killed_is_recovered_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint lacks the later epochs, and the clean takes their first batches."""
    log_dir, log = started_with_a_table(tmp_path)
    put(log, b"k", 45, epoch=1)
    log.flush(NOON)
    put(log, b"k", 105, epoch=3)
    put(log, b"k", 160, epoch=5)
    known, active = log.epochs.entries, log.segments[-1].base_offset
    log_dir.checkpoint({ID: log.log_end_offset})
    log_dir.abandon()
    assert compacted(monkeypatch, log.directory) == 0
    assert checkpoint.read_offsets(tmp_path / checkpoint.RECOVERY_POINTS) == {ID: active}
    again = started(tmp_path)
    assert again.logs[ID].log_end_offset == 310
    assert again.logs[ID].epochs.entries == known
    again.close({}, now_ms=NOON)
