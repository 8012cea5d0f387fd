"""`ottla log verify`: every damage to the files of a log is found, at its position; what is sound is called so."""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Callable
from errno import EIO
from pathlib import Path

import pytest
from batches import raw_batch, raw_record, with_fresh_crc
from log_tools import ottla_log, segments, write_data
from logs import open_log

from ottla_broker.storage.files import DataFile
from ottla_broker.storage.identity import DirectoryLock
from ottla_broker.storage.log_config import LogConfig
from ottla_core.records.batch import BatchHeader, iter_headers
from ottla_stack.log_tools import verify
from ottla_stack.log_tools.damage import Damage
from ottla_stack.log_tools.log_files import find_logs
from ottla_stack.log_tools.reindex import rebuild
from ottla_stack.log_tools.verify import LogVerifier, SegmentReport

FIELDS = {
    "base offset": 7,
    "length": 11,
    "leader epoch": 15,
    "magic": 16,
    "crc": 17,
    "attributes": 22,
    "last offset delta": 26,
    "base timestamp": 34,
    "max timestamp": 42,
    "producer id": 50,
    "producer epoch": 52,
    "base sequence": 56,
    "count": 60,
    "a record": 65,
}


def reports(path: Path, *, deep: bool = False, is_compacted: bool = False) -> list[SegmentReport]:
    return [
        report
        for log in find_logs(path)
        for report in LogVerifier(log, deep=deep, is_compacted=is_compacted).segments()
    ]


def damages(path: Path, *, deep: bool = False, is_compacted: bool = False) -> list[Damage]:
    found = [damage for r in reports(path, deep=deep, is_compacted=is_compacted) for damage in r.damages]
    return found + [damage for log in find_logs(path) for damage in LogVerifier(log).other_files()]


def rewrite(path: Path, at: int, data: bytes) -> None:
    old = path.read_bytes()
    path.write_bytes(old[:at] + data + old[at + len(data) :])


def flip(path: Path, at: int, bit: int = 1) -> None:
    rewrite(path, at, bytes([path.read_bytes()[at] ^ bit]))


def starts(path: Path) -> list[tuple[int, BatchHeader]]:
    return list(iter_headers(path.read_bytes()))


@pytest.mark.parametrize("deep", [False, True])
def test_what_a_broker_has_written_is_sound(tmp_path: Path, *, deep: bool) -> None:
    directory = write_data(tmp_path / "data")
    assert damages(directory, deep=deep) == []
    found = reports(directory, deep=deep)
    assert len(found) == len(segments(directory)) > 3
    assert found[-1].next_offset == 30 * 3 + 2 + 5 * 3 == sum(report.records for report in found)
    assert {report.gaps for report in found} == {0}
    assert damages(tmp_path / "data") == []
    assert damages(segments(directory)[1]) == []


@pytest.mark.parametrize("field", FIELDS)
def test_a_flipped_byte_is_found_at_its_batch(tmp_path: Path, field: str) -> None:
    directory = write_data(tmp_path / "data")
    second = segments(directory)[1]
    (before, _), (position, _), (after, _), *_ = starts(second)[2:]
    flip(second, position + FIELDS[field])
    damage, *_ = damages(directory)
    # Its bytes don't show that the offset or the epoch of a batch is too high; the batch after it does.
    late = field in ("base offset", "leader epoch") and damage.position == after
    assert damage.path == second
    assert damage.position == (after if late else position) > before


def test_every_single_bit_of_a_batch_counts(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    second = segments(directory)[1]
    sound = second.read_bytes()
    (position, header), (after, _), *_ = starts(second)[2:]
    for at in range(position, position + header.size_bytes):
        for bit in range(8):
            flip(second, at, 1 << bit)
            found = [damage for damage in damages(directory) if damage.path == second]
            assert found[0].position in (position, after), (at - position, bit)
            second.write_bytes(sound)


@pytest.mark.parametrize("missing", [1, 30, 61, 80])
def test_a_torn_end_is_where_the_last_whole_batch_ends(tmp_path: Path, missing: int) -> None:
    directory = write_data(tmp_path / "data")
    last = segments(directory)[-1]
    position, header = starts(last)[-1]
    last.write_bytes(last.read_bytes()[:-missing])
    damage, *_ = damages(directory)
    assert damage[:3] == (last, position, header.base_offset)
    left = header.size_bytes - missing
    assert f"cut off after {left}" in damage.problem or f"{left} bytes left where" in damage.problem


def test_zeroes_behind_the_last_batch_are_named(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    last = segments(directory)[-1]
    size = last.stat().st_size
    last.write_bytes(last.read_bytes() + bytes(500))
    damage, *_ = damages(directory)
    assert damage[:2] == (last, size)
    assert "500 bytes that begin with zeroes" in damage.problem


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_names_batches_in_their_order(tmp_path: Path, suffix: str) -> None:
    directory = write_data(tmp_path / "data")
    index = segments(directory)[1].with_suffix(suffix)
    layout = struct.Struct(">ii" if suffix == ".index" else ">qi")
    sound = index.read_bytes()
    entries = list(layout.iter_unpack(sound))
    assert len(entries) > 2
    changes: dict[str, tuple[bytes, int]] = {
        "first field": (sound[: layout.size] + layout.pack(entries[1][0] + 1, entries[1][1]), layout.size),
        "second field": (sound[: layout.size] + layout.pack(entries[1][0], entries[1][1] + 1), layout.size),
        "between batches": (sound[: layout.size] + layout.pack(entries[1][0], entries[1][1] - 1), layout.size),
        "twice": (sound[: layout.size] * 2, layout.size),
        "backwards": (sound[layout.size : 2 * layout.size] + sound[: layout.size], layout.size),
        "behind the end": (sound + layout.pack(2**31 - 1, 2**31 - 1), len(sound)),
        "torn": (sound + b"\1", len(sound)),
    }
    for name, (data, position) in changes.items():
        index.write_bytes(data)
        found = damages(directory)
        expected = len(sound) if name == "behind the end" else position
        assert [(damage.path, damage.position) for damage in found] == [(index, expected)], name
        assert "ottla log index" in found[0].remedy
    index.write_bytes(sound + bytes(10 * layout.size))
    assert damages(directory) == [], "Kafka leaves zeroes behind the entries of an index in use"


def test_the_largest_time_before_an_entry_is_the_entrys(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    second = segments(directory)[1]
    first = second.read_bytes()[: starts(second)[0][1].size_bytes]
    rewrite(second, 0, with_fresh_crc(first[:35] + (1 << 60).to_bytes(8) + first[43:]))
    assert [damage.path for damage in damages(directory)] == [second.with_suffix(".timeindex")]


def test_segments_follow_each_other(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    _, second, third, *_ = segments(directory)
    end = starts(second)[0][1].base_offset
    for path in (second, second.with_suffix(".index"), second.with_suffix(".timeindex")):
        path.rename(tmp_path / path.name)
    damage, *rest = damages(directory)
    assert damage[:3] == (third, 0, end)
    assert rest == []
    assert damages(directory, is_compacted=True) == []


def test_an_index_without_its_segment_is_named(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    second = segments(directory)[1]
    second.unlink()
    assert second.with_suffix(".index") in [damage.path for damage in damages(directory)]


def test_swapped_segments_are_found(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    _, second, third, *_ = segments(directory)
    second.rename(tmp_path / "x")
    third.rename(second)
    (tmp_path / "x").rename(third)
    assert (third, 0) in [damage[:2] for damage in damages(directory)]


def test_an_old_copy_of_a_segment_overlaps_the_next(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    first, second, *_ = segments(directory)
    first.write_bytes(first.read_bytes() + second.read_bytes())
    assert (second, 0) in [damage[:2] for damage in damages(directory)]


@pytest.mark.rule(62)
def test_gaps_of_compaction_are_sound(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    survivor = raw_batch(raw_record(1), 1, last_offset_delta=4)
    for base in (0, 10, 30):
        log.append_replicated(base.to_bytes(8) + survivor[8:12] + (1).to_bytes(4) + survivor[16:], 0)
    log.close(0)
    (report,) = reports(Path(log.directory))
    assert (report.damages, report.gaps, report.next_offset) == ([], 2, 35)


def test_a_batch_that_counts_wrong_or_can_not_be_read(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    last = segments(directory)[-1]
    position, header = starts(last)[-1]
    batch = last.read_bytes()[position : position + header.size_bytes]
    rewrite(last, position, with_fresh_crc(batch[:57] + (9).to_bytes(4) + batch[61:]))
    assert damages(directory)[0][:2] == (last, position)
    rewrite(last, position, with_fresh_crc(batch[:-1] + b"\0"))
    assert damages(directory) == []
    (damage,) = damages(directory, deep=True)
    assert damage[:3] == (last, position, header.base_offset)


@pytest.mark.parametrize(("epoch", "has_checkpoint"), [(0, True), (0, False), (2, True)])
def test_epochs_are_those_of_the_checkpoint_and_never_fall(tmp_path: Path, epoch: int, *, has_checkpoint: bool) -> None:
    directory = write_data(tmp_path / "data")
    if not has_checkpoint:
        (directory / "leader-epoch-checkpoint").unlink()
    second = segments(directory)[1]
    position, header = starts(second)[2]
    assert header.leader_epoch == 1
    rewrite(second, position + 12, epoch.to_bytes(4))
    damage, *_ = damages(directory)
    assert damage[:2] == (second, position)
    assert "epoch" in damage.problem


OTHERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "alien": ("notes.txt", lambda path: path.write_text("x")),
    "a short name": ("17.log", lambda path: path.write_text("x")),
    "another topic's": (
        "partition.metadata",
        lambda path: path.write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA\n"),
    ),
    "another partition's": (
        "partition.metadata",
        lambda path: path.write_text(path.read_text().replace("partition: 0", "partition: 7")),
    ),
    "epochs": ("leader-epoch-checkpoint", lambda path: path.write_text("0\n2\n1 0\n")),
    "snapshot": ("snapshot", lambda path: path.write_bytes(path.read_bytes()[:-1])),
}


@pytest.mark.parametrize("what", OTHERS)
def test_files_beside_the_segments(tmp_path: Path, what: str) -> None:
    directory = write_data(tmp_path / "data")
    name, change = OTHERS[what]
    path = max(directory.glob("*.snapshot")) if name == "snapshot" else directory / name
    change(path)
    (damage,) = damages(directory)
    assert damage.path == path
    assert damage.remedy


def test_what_a_broker_removes_by_itself_is_no_damage(tmp_path: Path) -> None:
    directory = write_data(tmp_path / "data")
    for name in (f"{0:020d}.log.deleted", "x.tmp", f"{0:020d}.log.cleaned", f"{0:020d}.log.swap"):
        (directory / name).write_bytes(b"x")
    (directory / f"{7:020d}.snapshot").write_bytes(b"\0\1what Kafka has written")
    assert damages(directory) == []


def test_the_command_names_the_first_damage_and_leaves_everything_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = write_data(tmp_path / "data", partitions=2)
    lock = DirectoryLock(tmp_path / "data")  # as beside a broker that runs
    assert ottla_log(monkeypatch, "verify", tmp_path / "data", "-o", "name") == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2 * len(segments(directory))
    assert err.endswith("MB/s: no damage\n")
    second = segments(directory)[1]
    position, header = starts(second)[2]
    flip(second, position + FIELDS["a record"])
    before = {path: path.read_bytes() for path in directory.iterdir()}
    assert ottla_log(monkeypatch, "verify", directory) == 1
    first, last = capsys.readouterr().err.splitlines()
    assert first.startswith(
        f"ottla: {second}: at position {position}, offset {header.base_offset}: the CRC of a batch is"
    )
    assert last.endswith("damaged at 1 position")
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
    lock.release()


def test_a_batch_that_is_being_appended_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_data(tmp_path / "data")
    last = segments(directory)[-1]
    whole = last.read_bytes()
    last.write_bytes(whole[:-5])
    monkeypatch.setattr("time.sleep", lambda _: last.write_bytes(whole))
    assert damages(directory) == []


def test_what_retention_deletes_meanwhile_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_data(tmp_path / "data")
    (log,) = find_logs(directory)
    verifier = LogVerifier(log)
    walk = verifier.segments()
    found = [next(walk)]
    names = os.listdir(directory)
    for path in log.segments[:3]:
        for suffix in (".log", ".index", ".timeindex"):
            path.with_suffix(suffix).unlink()
    for path in directory.glob("*.snapshot"):
        path.unlink()
    found += walk
    assert [report.path for report in found] == [log.segments[0], *log.segments[3:]]
    assert not any(report.damages for report in found)
    monkeypatch.setattr(os, "listdir", lambda _: [name for name in names if name != log.segments[1].name])
    assert list(verifier.other_files()) == []


def link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("command", ["verify", "dump", "index", "export"])
@pytest.mark.parametrize("kind", ["00000000000000000033.log", "00000000000000000033.index", "partition.metadata"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, link_to_nothing])
def test_what_is_no_regular_file_is_named_and_nothing_hangs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    kind: str,
    command: str,
) -> None:
    path = write_data(tmp_path / "data") / kind
    path.unlink()
    make(path)
    of_export = ("-t", path.parent.name[:32], "-p", "0", "--dir") if command == "export" else ()
    out = (tmp_path / "out",) if command == "export" else ()
    assert ottla_log(monkeypatch, command, *of_export, path.parent, *out) == 2
    assert capsys.readouterr().err.startswith(f"ottla: {path} is not a regular file; move it out")


@pytest.mark.parametrize("command", ["verify", "dump", "index"])
def test_a_file_that_the_disk_does_not_give_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    directory = write_data(tmp_path / "data")

    read = DataFile.read

    def broken(file: DataFile, position: int, size_bytes: int) -> bytes:
        if file.path.suffix == ".log":
            raise OSError(EIO, "Input/output error")
        return read(file, position, size_bytes)

    monkeypatch.setattr(DataFile, "read", broken)
    assert ottla_log(monkeypatch, command, directory) == 1
    assert f"ottla: {segments(directory)[0]}: Input/output error" in capsys.readouterr().err


@pytest.mark.parametrize("is_between_names", [True, False])
def test_what_compaction_exchanges_meanwhile_is_looked_at_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_between_names: bool
) -> None:
    """Without the second look the old segment does not go with its new indexes, or is not there for a moment."""
    directory, cleaned = write_data(tmp_path / "data", batches=2_000, config=LogConfig()), tmp_path / "cleaned"
    shutil.copytree(directory, cleaned)
    first = segments(cleaned)[0]
    (_, header), *_ = starts(first)
    first.write_bytes(first.read_bytes()[header.size_bytes :])
    (log,) = find_logs(cleaned)
    list(rebuild(log))
    opened: list[Path] = []

    def opens(path: Path) -> DataFile:
        file = DataFile(path)
        opened.append(path)
        if len(opened) == 1:
            for suffix in (".index", ".timeindex", ".log"):
                path.with_suffix(suffix).unlink(missing_ok=True)
                if first.with_suffix(suffix).exists():
                    first.with_suffix(suffix).rename(path.with_suffix(suffix))
            if is_between_names:
                raise FileNotFoundError(path)
        return file

    monkeypatch.setattr(verify, "DataFile", opens)
    found = reports(directory)
    assert not any(report.damages for report in found)
    assert (found[0].gaps, found[0].is_cleaned) == (1, True)
    assert opened[:2] == [found[0].path] * 2
