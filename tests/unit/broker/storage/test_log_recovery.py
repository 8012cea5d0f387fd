"""After a crash the log is what was whole up to the first bad byte, and goes on from there (rule 58)."""

from __future__ import annotations

import logging
import shutil
import struct
from pathlib import Path, PurePath

import pytest
from batches import NOON, with_fresh_crc
from logs import SMALL, all_records, fill, headers_of, offsets_as_values, open_log

from ottla_broker.storage import scan
from ottla_broker.storage.log_config import LogConfig

CONFIG = LogConfig(index_interval_bytes=200)


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)


@pytest.fixture
def crashed(tmp_path: Path) -> Path:
    """A log of five batches of three records in one segment, never closed."""
    fill(open_log(tmp_path / "log", CONFIG), 5)
    return tmp_path / "log"


def the_file(directory: PurePath, base_offset: int = 0) -> Path:
    return Path(directory) / f"{base_offset:020d}.log"


def ends_of(data: bytes) -> list[int]:
    """Where each batch ends."""
    ends = [0]
    for header in headers_of(data):
        ends.append(ends[-1] + header.size_bytes)
    return ends


@pytest.mark.rule(58)
def test_a_tail_cut_at_any_byte_leaves_the_batches_before_it(crashed: Path) -> None:
    data = the_file(crashed).read_bytes()
    start = ends_of(data)[4]
    for size in range(start, len(data)):
        the_file(crashed).write_bytes(data[:size])
        log = open_log(crashed, CONFIG)
        assert log.log_end_offset == 12
        assert the_file(crashed).stat().st_size == start
    assert all_records(log) == offsets_as_values(0, 12)
    fill(log, 1)
    assert the_file(crashed).read_bytes() == data, "the offsets are given again, to what was never acknowledged whole"


@pytest.mark.rule(58)
@pytest.mark.parametrize("garbage", [b"\0" * 5000, b"\xff" * 100, b"x", struct.pack(">qi", 15, 49) + b"\2" * 200])
def test_garbage_behind_the_last_batch_is_cut_off(crashed: Path, garbage: bytes) -> None:
    data = the_file(crashed).read_bytes()
    the_file(crashed).write_bytes(data + garbage)
    log = open_log(crashed, CONFIG)
    assert log.log_end_offset == 15
    assert the_file(crashed).read_bytes() == data
    fill(log, 1)
    assert all_records(log) == offsets_as_values(0, 18)


@pytest.mark.rule(58)
def test_any_flipped_bit_ends_the_log_before_its_batch(crashed: Path) -> None:
    data = the_file(crashed).read_bytes()
    ends = ends_of(data)
    for at in range(ends[2], ends[3]):
        flipped = bytearray(data)
        flipped[at] ^= 0x10
        the_file(crashed).write_bytes(flipped)
        if ends[2] + 12 <= at < ends[2] + 16:
            continue  # the leader epoch is outside of the CRC, like the offset's low bits that still fit
        log = open_log(crashed, CONFIG)
        in_base_offset = at < ends[2] + 8
        assert log.log_end_offset == 6 or in_base_offset, f"byte {at - ends[2]}"
        assert all_records(log)[:6] == offsets_as_values(0, 6)


@pytest.mark.rule(58)
def test_offsets_that_do_not_grow_end_the_log(crashed: Path) -> None:
    data = the_file(crashed).read_bytes()
    ends = ends_of(data)
    again = data + data[ends[3] : ends[4]]  # sound, but from before
    the_file(crashed).write_bytes(again)
    assert open_log(crashed, CONFIG).log_end_offset == 15
    assert the_file(crashed).read_bytes() == data


@pytest.mark.rule(58)
def test_segments_behind_a_cut_go(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 40)
    bases = sorted(int(path.stem) for path in Path(log.directory).glob("*.log"))
    assert len(bases) > 3
    hit = bytearray(the_file(log.directory, bases[1]).read_bytes())
    hit[-1] ^= 1
    the_file(log.directory, bases[1]).write_bytes(hit)
    again = open_log(log.directory, SMALL)
    assert bases[1] < again.log_end_offset < bases[2]
    assert sorted(int(path.stem) for path in Path(log.directory).glob("*.log")) == bases[:2]
    assert all_records(again) == offsets_as_values(0, again.log_end_offset)
    fill(again, 40)
    assert all_records(again) == offsets_as_values(0, again.log_end_offset)


@pytest.mark.story("hole-between-segments")
@pytest.mark.rule(58)
@pytest.mark.parametrize("batches_left", [0, 1, None])
def test_a_segment_that_lost_whole_batches_ends_the_log(tmp_path: Path, batches_left: int | None) -> None:
    """A disk has the bytes of a later file before those of an earlier one: no CRC is wrong."""
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 40)
    bases = [segment.base_offset for segment in log.segments]
    hit = the_file(log.directory, bases[1])
    if batches_left is None:
        hit.unlink()
    else:
        hit.write_bytes(hit.read_bytes()[: ends_of(hit.read_bytes())[batches_left]])
    again = open_log(log.directory, SMALL)
    assert again.log_end_offset == bases[1] + 3 * (batches_left or 0)
    fill(again, 40)
    assert all_records(again) == offsets_as_values(0, again.log_end_offset)


@pytest.mark.rule(58)
def test_only_segments_from_the_recovery_point_on_are_read(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 40)
    log.flush(NOON)
    bases = sorted(int(path.stem) for path in Path(log.directory).glob("*.log"))
    for base in bases[:3]:
        hit = bytearray(the_file(log.directory, base).read_bytes())
        hit[-1] ^= 1  # in a record: a header walk does not see it
        the_file(log.directory, base).write_bytes(hit)
    kept = open_log(log.directory, SMALL, recovery_point=bases[3])
    assert (kept.log_end_offset, kept.recovery_point) == (120, bases[3])
    cut = open_log(log.directory, SMALL, recovery_point=bases[3] - 1)
    assert bases[2] < cut.log_end_offset < bases[3]
    assert cut.recovery_point == min(cut.log_end_offset, bases[3] - 1)


@pytest.mark.rule(58)
def test_a_log_that_was_closed_in_order_is_not_checked(crashed: Path) -> None:
    log = open_log(crashed, CONFIG)
    log.close(NOON)
    hit = bytearray(the_file(crashed).read_bytes())
    hit[70] ^= 1
    the_file(crashed).write_bytes(hit)
    clean = open_log(crashed, CONFIG, clean=True)
    assert (clean.log_end_offset, clean.recovery_point) == (15, 15)
    assert open_log(crashed, CONFIG).log_end_offset == 0


@pytest.mark.rule(58)
@pytest.mark.parametrize("clean", [True, False])
def test_a_marker_does_not_help_where_the_file_ends_within_a_batch(crashed: Path, clean: bool) -> None:
    open_log(crashed, CONFIG).close(NOON)
    data = the_file(crashed).read_bytes()
    the_file(crashed).write_bytes(data[:-1])
    log = open_log(crashed, CONFIG, clean=clean)
    assert log.log_end_offset == 12
    fill(log, 1)
    assert the_file(crashed).read_bytes() == data


@pytest.mark.rule(58)
def test_recovery_may_be_killed_and_done_again(crashed: Path, tmp_path: Path) -> None:
    data = the_file(crashed).read_bytes()
    the_file(crashed).write_bytes(data[:-1] + b"?")
    open_log(crashed, CONFIG)
    once = {path.name: path.read_bytes() for path in crashed.iterdir()}
    open_log(crashed, CONFIG)
    assert {path.name: path.read_bytes() for path in crashed.iterdir()} == once


def test_what_a_crash_left_half_done_is_cleared_away(crashed: Path) -> None:
    for name in ("00000000000000000099.log.deleted", "leader-epoch-checkpoint.tmp", "00000000000000000042.index"):
        (crashed / name).write_bytes(b"left")
    (crashed / "notes.txt").write_text("not ours")
    assert open_log(crashed, CONFIG).log_end_offset == 15
    names = {path.name for path in crashed.iterdir()}
    assert names == {"notes.txt"} | {f"{0:020d}{suffix}" for suffix in (".log", ".index", ".timeindex")}


@pytest.mark.rule(61)
@pytest.mark.parametrize(
    "torn", ["", "0\n", "0\n2\n1 0\n", "0\n1\n1 x\n", "0\n2\n1 0\n5 1", "7\n0\n", "\0\0\0\0", None]
)
def test_a_torn_epoch_checkpoint_is_read_off_the_batches(crashed: Path, torn: str | None) -> None:
    log = open_log(crashed, CONFIG)
    fill(log, 1, leader_epoch=5)
    log.close(NOON)
    path = crashed / "leader-epoch-checkpoint"
    whole = path.read_text()
    if torn is None:
        path.unlink()
    else:
        path.write_text(torn)
    again = open_log(crashed, CONFIG, clean=True, recovery_point=18)
    assert [tuple(entry) for entry in again.epochs.entries] == [(1, 0), (5, 15)]
    again.close(NOON)
    assert path.read_text() == whole


@pytest.mark.rule(60)
def test_epochs_of_a_lost_tail_are_forgotten_by_each_start(crashed: Path) -> None:
    log = open_log(crashed, CONFIG)
    fill(log, 1, leader_epoch=5)
    log.flush(NOON)
    assert (crashed / "leader-epoch-checkpoint").read_text() == "0\n2\n1 0\n5 15\n"
    data = the_file(crashed).read_bytes()
    the_file(crashed).write_bytes(data[:-1])
    again = open_log(crashed, CONFIG)
    assert (again.log_end_offset, again.epochs.latest) == (15, 1)
    other = open_log(crashed.with_name("other"), CONFIG)
    fill(other, 7, leader_epoch=1)  # as another leader wrote them, in an older epoch
    again.append_replicated(other.read(15, 1 << 20, 21), NOON)
    assert [tuple(entry) for entry in open_log(crashed, CONFIG).epochs.entries] == [(1, 0)], (
        "its start goes by what lies there"
    )


def test_offsets_are_not_given_twice_where_all_behind_the_log_start_is_lost(crashed: Path) -> None:
    log = open_log(crashed, CONFIG, log_start_offset=20)
    assert (log.log_start_offset, log.log_end_offset) == (20, 20)
    fill(log, 1)
    assert all_records(log) == offsets_as_values(20, 23)
    assert not the_file(crashed).exists()


def test_the_log_starts_where_its_first_segment_does(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 40)
    second = log.segments[1].base_offset
    the_file(log.directory).unlink()
    again = open_log(log.directory, SMALL)
    assert (again.log_start_offset, again.log_end_offset) == (second, 120)
    assert again.epochs.entries[0].start_offset == second


def test_segments_that_overlap_end_the_log(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 40)
    second = log.segments[1].base_offset
    shutil.copy(the_file(log.directory, second), the_file(log.directory, second - 1))
    again = open_log(log.directory, SMALL)
    assert again.log_end_offset == second
    assert all_records(again) == offsets_as_values(0, second)


@pytest.mark.rule(58)
def test_batches_larger_than_memory_may_hold_are_checked_in_pieces(
    crashed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = the_file(crashed).read_bytes()
    for chunk_bytes in (61, 64, 100, 150, 1000):
        monkeypatch.setattr(scan, "_CHECK_CHUNK_BYTES", chunk_bytes)
        assert open_log(crashed, CONFIG).log_end_offset == 15
        the_file(crashed).write_bytes(whole[:-1] + b"?")
        assert open_log(crashed, CONFIG).log_end_offset == 12
        the_file(crashed).write_bytes(whole)


def test_gaps_between_offsets_are_legal(crashed: Path) -> None:
    """Compaction leaves them; the batches around are found all the same."""
    data = the_file(crashed).read_bytes()
    ends = ends_of(data)
    the_file(crashed).write_bytes(data[: ends[2]] + data[ends[3] :])
    log = open_log(crashed, CONFIG)
    assert all_records(log) == [*offsets_as_values(0, 6), *offsets_as_values(9, 15)]
    assert headers_of(log.read(7, 1, 15))[0].base_offset == 9


def test_a_batch_without_records_is_stored_all_the_same(crashed: Path) -> None:
    """Compaction keeps the header of an emptied batch (rule 30)."""
    data = the_file(crashed).read_bytes()
    ends = ends_of(data)
    header = headers_of(data)[1]
    emptied = bytearray(data[ends[1] : ends[1] + 61])
    struct.pack_into(">i", emptied, 8, 49)
    struct.pack_into(">i", emptied, 57, 0)
    the_file(crashed).write_bytes(data[: ends[1]] + with_fresh_crc(bytes(emptied)) + data[ends[2] :])
    log = open_log(crashed, CONFIG)
    assert log.log_end_offset == 15
    assert headers_of(log.read(header.base_offset, 1, 15))[0].record_count == 0
