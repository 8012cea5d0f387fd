"""Cleaned segments take the places of others beside appends, reads, retention and truncations (rule 62)."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from unittest.mock import patch

import pytest
from batches import NOON
from logs import SMALL, all_records, close_files, fill, headers_of, open_log, records_of
from produced import stored_headers
from swapped import write_cleaned

from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage import checkpoint, producer_snapshot, swap
from ottla_broker.storage.identity import DirectoryIdentity
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_dir import LogDir
from ottla_broker.storage.segment import Segment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.records.batch import BatchHeader

pytestmark = pytest.mark.rule(62)


@pytest.fixture
def log(tmp_path: Path) -> Log:
    """Eighty batches of three records in many segments."""
    log = open_log(tmp_path / "log", SMALL)
    fill(log, 80)
    return log


def every_other(header: BatchHeader) -> bool:
    return header.base_offset % 2 == 0


def snapshots(log: Log) -> list[int]:
    return producer_snapshot.offsets_in(os.listdir(log.directory))


def names_of(log: Log) -> set[str]:
    return {name for name in os.listdir(log.directory) if not name.endswith(".deleted")}


def test_what_stays_has_its_offsets_and_the_rest_is_gone(log: Log) -> None:
    before, sources = stored_headers(log), log.segments[1:4]
    end = log.segments[4].base_offset
    kept = write_cleaned(log, sources, every_other)
    assert log.compaction.swap(sources, SMALL)
    expected = [h for h in before if not sources[0].base_offset <= h.base_offset < end or h in kept]
    assert len(expected) < len(before)
    assert stored_headers(log) == expected
    fill(log, 3)
    assert stored_headers(log)[:-3] == expected
    assert [s.base_offset for s in log.segments[:3]] == [0, sources[0].base_offset, end]
    assert not any(swap.SWAP in name or swap.CLEANED in name for name in names_of(log))
    assert {name for name in names_of(log) if name.endswith(".log")} == {s.path.name for s in log.segments}
    log.flush(NOON)
    log.close(NOON)
    assert stored_headers(open_log(log.directory, clean=True))[:-3] == expected
    assert stored_headers(open_log(log.directory))[:-3] == expected


@pytest.mark.story("snapshots-of-joined-segments-kept")
def test_the_snapshots_of_segments_that_are_joined_go_with_them(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log", SMALL)
    while len(log.segments) < 8:
        fill(log, 1)
        log.flush(NOON)
    assert set(snapshots(log)) == {segment.base_offset for segment in log.segments[1:]}
    sources = log.segments[1:6]
    write_cleaned(log, sources, every_other)
    assert log.compaction.swap(sources, SMALL)
    left = {segment.base_offset for segment in log.segments[1:]}
    assert set(snapshots(log)) == left == {sources[0].base_offset, *(s.base_offset for s in log.segments[2:])}
    before = stored_headers(log)
    log.close(NOON)
    assert stored_headers(open_log(log.directory)) == before


def test_a_time_and_an_offset_between_are_found_in_what_stayed(log: Log) -> None:
    sources = log.segments[:3]
    kept = write_cleaned(log, sources, every_other)
    assert log.compaction.swap(sources, SMALL)
    for former, header in pairwise(kept):
        for offset in range(former.next_offset, header.next_offset):
            assert headers_of(log.read(offset, 1, log.log_end_offset)) == [header]
        at = former.max_timestamp + 1
        found = log.offset_for_time(at, log.log_end_offset)
        assert found == (header.base_offset, header.max_timestamp)


def test_a_reader_in_the_middle_of_old_segments_goes_on_in_the_new_one(log: Log) -> None:
    """Where it remembered a place in a file, another file has the name."""
    first = records_of(log.read(0, 300, log.log_end_offset))
    offset, sources = first[-1][0] + 1, log.segments[:4]
    write_cleaned(log, sources, lambda header: header.base_offset % 9 == 0)
    assert log.compaction.swap(sources, SMALL)
    found = records_of(log.read(offset, 300, log.log_end_offset))
    assert found[0][0] >= offset
    assert all(value == b"%d" % number for number, value in found)


@pytest.mark.parametrize("step", ["decide", "exchange", "discard", "take_names"])
def test_readers_read_at_each_step_of_a_swap(log: Log, step: str) -> None:
    """A reader in another thread finds the old records or the new ones, and those that both have in any case."""
    sources = log.segments[:4]
    end = log.segments[4].base_offset
    kept = write_cleaned(log, sources, every_other)
    sure = [h for h in stored_headers(log) if h in kept or h.base_offset >= end]
    seen: list[list[BatchHeader]] = []

    def then_read(do: Callable[..., object]) -> Callable[..., object]:
        def wrapped(*arguments: object) -> object:
            seen.append(stored_headers(log))
            done = do(*arguments)
            seen.append(stored_headers(log))
            return done

        return wrapped

    owner = {"decide": swap, "take_names": swap, "exchange": type(log._segments), "discard": Segment}[step]
    with patch.object(owner, step, then_read(getattr(owner, step))):
        assert log.compaction.swap(sources, SMALL)
    assert len(seen) >= 2
    for headers in seen:
        assert [h for h in headers if h in sure] == sure


def test_a_read_that_a_swap_overtakes_begins_again(log: Log) -> None:
    """It has found a place in a segment, and the file under that name is another by the time it reads."""
    sources = log.segments[:4]
    write_cleaned(log, sources, lambda header: header.base_offset % 9 == 0)
    plain, found, swapped = Segment.position_of, Event(), Event()

    def position_of(segment: Segment, offset: int) -> int | None:
        position = plain(segment, offset)
        if segment is sources[1]:
            found.set()
            assert swapped.wait(10)
        return position

    records: list[tuple[int, bytes | None]] = []
    offset = sources[1].base_offset + 1
    with patch.object(Segment, "position_of", position_of):
        reader = Thread(target=lambda: records.extend(records_of(log.read(offset, 300, log.log_end_offset))))
        reader.start()
        assert found.wait(10)
        assert log.compaction.swap(sources, SMALL)
        swapped.set()
        reader.join(10)
    assert records
    assert all(value == b"%d" % number for number, value in records)


def test_what_was_truncated_or_dropped_meanwhile_is_not_brought_back(log: Log) -> None:
    sources = log.segments[1:3]
    write_cleaned(log, sources, every_other)
    log.truncate_to(sources[1].base_offset + 3)
    fill(log, 10, leader_epoch=2)
    before = all_records(log)
    with patch.object(swap, "decide", side_effect=AssertionError("a crash would bring it back")):
        assert not log.compaction.swap(sources, SMALL)
    assert all_records(log) == before
    assert not any(swap.SWAP in name or swap.CLEANED in name for name in names_of(log))
    sources = log.segments[:2]
    write_cleaned(log, sources, every_other)
    log.delete_records_before(sources[1].base_offset + 1, HighWatermark(log.log_end_offset))
    before = all_records(log)
    assert not log.compaction.swap(sources, SMALL)
    assert all_records(log) == before
    assert {name for name in names_of(log) if name.endswith(".log")} == {s.path.name for s in log.segments}


@pytest.mark.parametrize("step", ["decide", "take_names"])
def test_retention_beside_a_swap(log: Log, step: str) -> None:
    """It takes the old segments after the swap was decided, or the new one before it has its name."""
    sources = log.segments[:2]
    end = log.segments[3].base_offset
    write_cleaned(log, sources, every_other)
    plain = getattr(swap, step)

    def after_retention(*arguments: object) -> object:
        log.delete_records_before(end, HighWatermark(log.log_end_offset))
        return plain(*arguments)

    with patch.object(swap, step, after_retention):
        log.compaction.swap(sources, SMALL)
    assert log.segments[0].base_offset == end
    assert {name for name in names_of(log) if name.endswith((".log", ".index"))} == {
        path.name for s in log.segments for path in (s.path, s.path.with_suffix(".index")) if Path(path).exists()
    }
    assert stored_headers(log) == stored_headers(open_log(log.directory, log_start_offset=end))


@pytest.mark.parametrize("by", ["time", "records"])
def test_retention_takes_what_it_has_chosen_and_not_as_many_of_what_a_swap_has_left(log: Log, by: str) -> None:
    """Between its choice and the drop a swap makes one segment of five: a number of segments is another place."""
    sources, end = log.segments[:5], log.segments[2].base_offset
    kept = write_cleaned(log, sources, every_other)
    rest = [h for h in stored_headers(log) if h.base_offset >= log.segments[5].base_offset]
    plain = log._segments.drop

    def after_swap(*arguments: int) -> object:
        assert log.compaction.swap(sources, SMALL)
        return plain(*arguments)

    with patch.object(log._segments, "drop", after_swap):
        if by == "time":
            assert log.delete_old_segments(HighWatermark(end), NOON + 10**12) == []
        else:
            log.delete_records_before(end, HighWatermark(log.log_end_offset))
    assert [h for h in stored_headers(log) if h.base_offset >= end] == [
        h for h in (*kept, *rest) if h.base_offset >= end
    ]
    assert log.log_start_offset <= end


def test_retention_takes_a_new_segment_as_soon_as_it_has_its_name(log: Log) -> None:
    sources, end = log.segments[:2], log.segments[3].base_offset
    write_cleaned(log, sources, every_other)
    plain = swap.take_names

    def then_retention(path: Path) -> None:
        plain(path)
        log.delete_records_before(end, HighWatermark(log.log_end_offset))

    with patch.object(swap, "take_names", then_retention):
        assert log.compaction.swap(sources, SMALL)
    assert not log.is_offline
    assert {name for name in names_of(log) if name.endswith(".log")} == {s.path.name for s in log.segments}


@pytest.mark.parametrize("step", ["utime", "sync", "open", "cleaned"])
def test_a_swap_that_can_not_begin_leaves_the_log_as_it_was(log: Log, step: str) -> None:
    """For want of a descriptor, say. A swap that stayed decided would bring back by a start what is truncated later."""
    sources, before = log.segments[:3], stored_headers(log)
    write_cleaned(log, sources, every_other)
    if step == "cleaned":
        Path(swap.path_of(log.segments[0].path, swap.CLEANED)).unlink()
    want = OSError(24, "Too many open files")
    plain = os.open

    def open_or_fail(path: Path, flags: int, *arguments: int) -> int:
        if step == ("sync" if flags & os.O_DIRECTORY else "open" if str(path).endswith(".log.swap") else ""):
            raise want
        return plain(path, flags, *arguments)

    with (
        patch("os.open", open_or_fail),
        patch("os.utime", side_effect=want if step == "utime" else None),
        pytest.raises(OttlaError) as caught,
    ):
        log.compaction.swap(sources, SMALL)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not log.is_offline
    assert stored_headers(log) == before
    assert not any(swap.SWAP in name or swap.CLEANED in name for name in names_of(log))
    log.truncate_to(sources[1].base_offset + 3)
    fill(log, 10, leader_epoch=2)
    expected = all_records(log)
    assert all_records(open_log(log.directory)) == expected


def test_a_start_leaves_no_index_of_what_a_short_segment_replaces(log: Log) -> None:
    sources = log.segments[:3]
    write_cleaned(log, sources, lambda header: False)
    assert Path(sources[0].path.with_suffix(".index")).exists()
    swap.decide(sources[0].path, sources[2].path, log._disk)
    swap.finish_all(log.directory, os.listdir(log.directory))
    assert sorted(name for name in os.listdir(log.directory) if name.startswith(sources[0].path.stem)) == [
        sources[0].path.name
    ]


def test_a_log_that_is_closed_takes_no_swap(log: Log) -> None:
    """Its directory may be another's by then, or its next opening's."""
    sources = log.segments[:3]
    write_cleaned(log, sources, every_other)
    before = {name for name in names_of(log) if name.endswith(".log")}
    log.abandon()
    with pytest.raises(OttlaError) as caught:
        log.compaction.swap(sources, SMALL)
    assert caught.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert {name for name in names_of(log) if name.endswith(".log")} == before


def test_a_new_segment_holds_no_file_open_and_has_its_indexes(log: Log) -> None:
    sources = log.segments[:4]
    kept = write_cleaned(log, sources, every_other)
    assert log.compaction.swap(sources, SMALL)
    assert log.segments[0].indexes.position_for(kept[-1].last_offset).position > 0
    close_files(log)
    files = {os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")}
    assert not any(path.startswith(str(log.directory)) for path in files)


def test_truncations_and_flushes_wait_for_a_swap(log: Log) -> None:
    sources, seen = log.segments[:3], []
    write_cleaned(log, sources, every_other)
    plain = swap.take_names

    def look(path: Path) -> None:
        seen.append(log._flusher.lock.locked())
        plain(path)

    with patch.object(swap, "take_names", look):
        assert log.compaction.swap(sources, SMALL)
    assert seen == [True]


def test_the_decision_lasts_before_anything_goes(log: Log) -> None:
    sources, steps = log.segments[:3], []
    write_cleaned(log, sources, every_other)
    sync, discard = type(log._disk).sync_directory, Segment.discard
    with (
        patch.object(type(log._disk), "sync_directory", lambda *a: (steps.append("sync"), sync(*a))),
        patch.object(Segment, "discard", lambda s: (steps.append("discard"), discard(s))),
    ):
        assert log.compaction.swap(sources, SMALL)
    assert steps[:4] == ["sync", "discard", "discard", "discard"]


@pytest.mark.parametrize("recovery_point", [0, 200])
@pytest.mark.parametrize("step", ["discard", "take_names"])
def test_a_swap_that_fails_once_it_is_decided_is_finished_by_a_start(log: Log, step: str, recovery_point: int) -> None:
    sources = log.segments[:3]
    kept = write_cleaned(log, sources, every_other)
    rest = [h for h in stored_headers(log) if h.base_offset >= log.segments[3].base_offset]
    log.flush(NOON)
    with (
        patch.object(Segment if step == "discard" else swap, step, side_effect=OSError(28, "No space left on device")),
        pytest.raises(OttlaError) as caught,
    ):
        log.compaction.swap(sources, SMALL)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert log.is_offline
    log = open_log(log.directory, recovery_point=recovery_point)
    assert stored_headers(log) == kept + rest
    assert {name for name in names_of(log) if name.endswith(".log")} == {s.path.name for s in log.segments}


@pytest.mark.parametrize("torn", [0, 1, 100])
def test_a_swap_that_is_torn_is_no_swap(log: Log, torn: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    sources, before = log.segments[:3], stored_headers(log)
    write_cleaned(log, sources, every_other)
    swap.decide(sources[0].path, sources[2].path, log._disk)
    path = swap.path_of(sources[0].path, swap.SWAP)
    os.truncate(path, torn and Path(path).stat().st_size - torn)
    assert stored_headers(open_log(log.directory)) == before


def test_what_a_cleaner_left_is_removed_by_a_start(log: Log) -> None:
    before = stored_headers(log)
    write_cleaned(log, log.segments[:3], every_other)
    log = open_log(log.directory)
    assert stored_headers(log) == before
    assert not any(swap.CLEANED in name for name in names_of(log))


def test_a_segment_is_as_old_as_the_newest_of_those_it_replaces(log: Log) -> None:
    sources = log.segments[:3]
    for age_s, segment in zip((300, 200, 100), sources, strict=True):
        os.utime(segment.path, (NOON / 1000 - age_s, NOON / 1000 - age_s))
    write_cleaned(log, sources, every_other)
    assert log.compaction.swap(sources, SMALL)
    assert log.segments[0].changed_at_ms() == NOON - 100_000


def test_a_cleaning_that_a_truncation_has_overtaken_vouches_for_nothing(log: Log) -> None:
    """Though all that it made was taken: of what lost nothing it has made nothing."""
    began, end = log.compaction.truncations, log.log_end_offset
    log.truncate_to(100)
    fill(log, 50, leader_epoch=2)
    log.compaction.on_cleaned(end, began)
    assert log.compaction.first_dirty_offset == 0
    log.compaction.on_cleaned(end, log.compaction.truncations)
    assert log.compaction.first_dirty_offset == end


@pytest.mark.rule(60)
def test_a_truncation_takes_back_what_was_compacted(tmp_path: Path) -> None:
    """On disk before anything is appended: else a start would take for compacted what another leader wrote."""
    log_dir = LogDir.open(tmp_path / "data", DirectoryIdentity("c", 1, "A" * 22), SMALL, now_ms=NOON)
    partition = PartitionId(TopicId(bytes(range(16))), 0)
    log = log_dir.create(partition, "flights", SMALL, now_ms=NOON)
    fill(log, 30)
    log.compaction.first_dirty_offset = 60
    log_dir.checkpoint({})
    path = tmp_path / "data" / checkpoint.CLEANED
    assert checkpoint.read_offsets(path) == {partition: 60}
    log.truncate_to(30)
    assert log.compaction.first_dirty_offset == 30
    assert checkpoint.read_offsets(path) == {partition: 30}
    fill(log, 30)
    log_dir.close({}, now_ms=NOON)
    log_dir = LogDir.open(tmp_path / "data", DirectoryIdentity("c", 1, "A" * 22), SMALL, now_ms=NOON)
    assert log_dir.logs[partition].compaction.first_dirty_offset == 30
    log_dir.abandon()
