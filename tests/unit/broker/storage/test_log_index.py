"""Indexes are hints: wrong, short or missing ones cost time, never a record (rule 59)."""

from __future__ import annotations

import logging
import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from batches import NOON
from logs import all_records, fill, offsets_as_values, open_log, records_of, values_batch

from ottla_broker.storage.index import SegmentIndexes, TimestampOffset
from ottla_broker.storage.log_config import LogConfig

CONFIG = LogConfig(segment_bytes=20_000, index_interval_bytes=200)
CONFIG_OF_ONE = LogConfig(index_interval_bytes=100)


def flipped(data: bytes) -> bytes:
    return bytes(byte ^ 0x55 for byte in data)


def shifted(path: Path) -> bytes:
    """Each time with the offset of the entry after it."""
    entries = list(struct.iter_unpack(">qi", path.read_bytes()))
    offsets = [offset for _, offset in entries[1:]] + [entries[-1][1]]
    return b"".join(struct.pack(">qi", time, offset) for (time, _), offset in zip(entries, offsets, strict=True))


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "short by a byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "short by half": lambda path: os.truncate(path, path.stat().st_size // 24 // 2 * 24),
    "garbage": lambda path: path.write_bytes(os.urandom(path.stat().st_size)),
    "garbage of odd size": lambda path: path.write_bytes(os.urandom(997)),
    "garbage but for its end": lambda path: path.write_bytes(
        flipped(path.read_bytes()[:-24]) + path.read_bytes()[-24:]
    ),
    "shifted": lambda path: path.write_bytes(
        bytes(8) + path.read_bytes()[:-8] if path.suffix == ".index" else shifted(path)
    ),
    "zeroes": lambda path: path.write_bytes(bytes(path.stat().st_size)),
}


@pytest.mark.feature(93)
@pytest.mark.rule(59)
@pytest.mark.parametrize("clean", [True, False], ids=["clean", "crashed"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_no_damage_to_an_index_loses_a_record(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str, suffix: str, clean: bool
) -> None:
    caplog.set_level(logging.CRITICAL)
    log = open_log(tmp_path / "log", CONFIG)
    fill(log, 500)
    log.close(NOON)
    for path in Path(log.directory).glob(f"*{suffix}"):
        DAMAGES[damage](path)
    again = open_log(log.directory, CONFIG, clean=clean, recovery_point=900)
    assert again.log_end_offset == 1500
    for offset in (*range(0, 1500, 97), 1499):
        assert (offset, b"%d" % offset) in records_of(again.read(offset, 1, 1500))
        first = offset - offset % 3  # a batch has one time
        assert again.offset_for_time(NOON + first * 1000, 1500) == (first, NOON + first * 1000)
    fill(again, 20)
    assert all_records(again, max_bytes=5000) == offsets_as_values(0, 1560)


@pytest.mark.rule(59)
def test_a_damaged_index_is_rebuilt_as_it_was(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", CONFIG)
    fill(log, 500)
    log.close(NOON)
    before = {path.name: path.read_bytes() for path in Path(log.directory).glob("*index")}
    for path in Path(log.directory).glob("*index"):
        path.write_bytes(path.read_bytes()[:-1])
    for segment in open_log(log.directory, CONFIG, clean=True).segments:
        assert segment.largest.timestamp_ms > 0
    assert {path.name: path.read_bytes() for path in Path(log.directory).glob("*index")} == before
    assert len(before) > 4


@pytest.mark.rule(59)
def test_an_index_that_points_between_batches_is_found_out_when_it_is_used(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", CONFIG)
    fill(log, 500)
    log.close(NOON)
    path = log.directory / f"{0:020d}.index"
    whole = Path(path).read_bytes()
    Path(path).write_bytes(
        b"".join(whole[at : at + 7] + bytes([whole[at + 7] ^ 1]) for at in range(0, len(whole) - 8, 8)) + whole[-8:]
    )
    again = open_log(log.directory, CONFIG, clean=True)
    assert records_of(again.read(100, 1, 1500))[0][0] == 99
    assert Path(path).read_bytes() == whole, "it was rebuilt"


@pytest.mark.rule(59)
def test_an_index_that_ends_between_batches_is_rebuilt_with_the_first_look_into_it(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", CONFIG)
    fill(log, 500)
    log.close(NOON)
    path = log.directory / f"{0:020d}.index"
    whole = Path(path).read_bytes()
    Path(path).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    again = open_log(log.directory, CONFIG, clean=True)
    assert Path(path).read_bytes() != whole, "most are never looked into"
    assert again.offset_for_time(NOON, 1500) == (0, NOON)
    assert Path(path).read_bytes() == whole


def test_the_time_index_only_rises(tmp_path: Path) -> None:
    indexes = SegmentIndexes(tmp_path / "00.log", 10, 1)
    for n, timestamp_ms in enumerate((50, 40, 60, 60, 10, 55, 70)):
        indexes.note(n * 100, 100, 10 + n, timestamp_ms)
    assert indexes.largest == TimestampOffset(70, 16)
    found = [indexes.time_entry_for(t).last_offset for t in (49, 50, 59, 60, 69, 70, 1000)]
    assert found == [-1, 10, 10, 12, 12, 16, 16]
    indexes.seal()
    entries = list(struct.iter_unpack(">qi", (tmp_path / "00.timeindex").read_bytes()))
    assert entries == [(50, 0), (60, 2), (70, 6)]


def test_lookups_reach_into_the_file_and_what_is_not_in_it_yet(tmp_path: Path) -> None:
    indexes = SegmentIndexes(tmp_path / "00.log", 0, 1)
    for n in range(700):  # 4096 bytes are 512 entries
        indexes.note(n * 100, 100, n, n)
    assert (tmp_path / "00.index").stat().st_size == 4096
    for n in (1, 2, 100, 511, 512, 513, 600, 698, 699, 2000):
        assert indexes.position_for(n) == (min(n, 699), min(n, 699) * 100)
    assert indexes.position_for(0) == (-1, 0)


def test_a_full_disk_keeps_index_entries_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    indexes = SegmentIndexes(tmp_path / "00.log", 0, 1)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    for n in range(2000):
        indexes.note(n * 100, 100, n, n)
    assert indexes.position_for(1000) == (1000, 100_000)
    monkeypatch.undo()
    indexes.seal()
    assert indexes.position_for(1000) == (1000, 100_000)
    assert (tmp_path / "00.index").stat().st_size == 1999 * 8


@pytest.mark.feature(91)
def test_an_index_has_an_entry_for_every_interval(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", LogConfig(index_interval_bytes=1000))
    batch = values_batch(b"x" * 332)
    assert len(batch) == 402
    for _ in range(40):
        log.append(batch, 1, NOON)
    log.close(NOON)
    assert (Path(log.directory / f"{0:020d}.index")).stat().st_size // 8 == 13, "every third batch"


def test_indexes_that_are_both_missing_are_written_again_together(tmp_path: Path) -> None:
    """Only a part of each index of a long segment used to be written, and the next start trusted both as complete."""
    log = open_log(tmp_path / "log", CONFIG_OF_ONE)
    for number in range(700):
        log.append(values_batch(b"v" * 50, at_ms=NOON + (1_000_000 if number == 400 else number)), 1, NOON)
    log.close(NOON)
    for suffix in (".index", ".timeindex"):
        (tmp_path / "log" / f"{0:020d}{suffix}").unlink()
    for _ in range(2):
        log = open_log(tmp_path / "log", CONFIG_OF_ONE, clean=True)
        assert log.segments[0].largest == TimestampOffset(NOON + 1_000_000, 400)
        log.close(NOON)
