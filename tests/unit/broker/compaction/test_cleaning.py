"""A clean of files: what it writes, where it ends, and what it leaves alone."""

from __future__ import annotations

import tracemalloc
from errno import ENOSPC
from pathlib import Path
from unittest.mock import patch

import pytest
from batches import NOON, sealed
from cleanings import DAY_MS, batches_in, clean, header_of, job_for, pairs, placed, rows_of, swap, write_segments

from ottla_broker.compaction import cleaned_file, cleaning
from ottla_broker.compaction.job import CleanedGroup, CleanedSegment, SourceSegment
from ottla_broker.compaction.throttle import Throttle
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.log_config import LogConfig
from ottla_broker.storage.segment import Segment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, TRANSACTIONAL
from ottla_core.records.compression import Codec
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.fence import ShardFence, fence_of, seal_fence


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def two_segments(directory: Path, *later: bytes) -> list[SourceSegment]:
    """And `later` batches, from offset 6 on, in the second."""
    return write_segments(
        directory,
        [pairs(0, (b"a", b"1"), (b"b", b"2")), pairs(2, (b"a", b"3"))],
        [pairs(3, (b"c", b"4"), (b"a", b"5")), pairs(5, (b"d", b"6")), *later],
    )


@pytest.mark.feature(99)
@pytest.mark.rule(62)
def test_the_newest_of_each_key_is_left_at_its_offset(tmp_path: Path) -> None:
    job = job_for(tmp_path, two_segments(tmp_path))
    result = clean(job)
    assert [(s.base_offset, s.next_offset, s.replaced) for s in result.segments] == [(0, 6, (0, 3))]
    assert (result.end_offset, result.records_read, result.records_kept, result.map_bytes_used) == (6, 6, 4, 4 * 24)
    assert result.bytes_read == 2 * sum(source.size_bytes for source in job.segments)
    assert result.bytes_written == result.segments[0].size_bytes
    kept = batches_in(tmp_path, swap(job, result))
    assert rows_of(*kept) == [(1, b"b", b"2"), (3, b"c", b"4"), (4, b"a", b"5"), (5, b"d", b"6")]
    assert [header_of(batch).base_offset for batch in kept] == [0, 3, 5], "a batch without survivors has no header"


@pytest.mark.parametrize("others", [[], [(b"b", b"2")]])
def test_the_largest_timestamp_is_that_of_a_record_that_is_left(
    tmp_path: Path, others: list[tuple[bytes, bytes]]
) -> None:
    """ListOffsets looks for the record that has it. Once as the batches are written, once as a start finds them."""
    late = pairs(0, (b"x", b"0"), *others, (b"a", b"1"), at_ms=NOON + DAY_MS, base_sequence=0, producer_id=5)
    next_offset = header_of(late).next_offset
    sources = write_segments(
        tmp_path, [late, pairs(next_offset, (b"a", b"3"), (b"x", b"4")), pairs(next_offset + 2, (b"c", b"5"))]
    )
    job = job_for(tmp_path, sources, newest_batches=frozenset({next_offset - 1}), index_interval_bytes=1)
    swap(job, clean(job))
    largest = NOON + DAY_MS + 1000 if others else NOON + 1000
    segment = Segment(tmp_path, 0, Disk(tmp_path), LogConfig(), NOON)
    segment.load()
    assert segment.largest.timestamp_ms == largest
    for timestamp_ms in (NOON, NOON + 1000, NOON + DAY_MS + 1000):
        segment.position_for_time(timestamp_ms)
    segment.rebuild_indexes()
    assert segment.largest.timestamp_ms == largest


@pytest.mark.rule(58)
def test_a_cleaned_segment_ends_where_the_next_begins(tmp_path: Path) -> None:
    """Recovery takes a gap between two segments for a loss."""
    sources = write_segments(
        tmp_path, [pairs(0, (b"a", b"1")), pairs(1, (b"b", b"2"))], [pairs(2, (b"a", b"3"), (b"b", b"4"))]
    )
    job = job_for(tmp_path, sources, segment_bytes=1)
    result = clean(job)
    assert result.segments == (CleanedSegment(0, 2, 61, (0,)),)
    left = swap(job, result)
    assert [header_of(batch).next_offset for batch in batches_in(tmp_path, left)] == [2, 4]
    merged = clean(job_for(tmp_path, left, first_dirty_offset=4))
    assert merged.segments[0].size_bytes == sources[1].size_bytes, "inside a segment, no empty batch is needed"


@pytest.mark.rule(30)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_the_newest_batch_of_a_producer_stays_without_its_records(tmp_path: Path, codec: Codec) -> None:
    producer = {"producer_id": 9, "producer_epoch": 1, "base_sequence": 5}
    first, second = (pairs(at, (b"a", b"1" * 99), codec=codec, **producer) for at in (0, 1))
    sources = write_segments(tmp_path, [first, second, pairs(2, (b"a", b"3"))])
    job = job_for(tmp_path, sources, newest_batches=frozenset({1}))
    left = swap(job, clean(job))
    headers = [header_of(batch) for batch in batches_in(tmp_path, left)]
    assert [(h.base_offset, h.record_count, h.producer_id, h.base_sequence) for h in headers] == [
        (1, 0, 9, 5),
        (2, 1, -1, -1),
    ]
    later = job_for(tmp_path, left, first_dirty_offset=3)
    assert [header_of(batch).base_offset for batch in batches_in(tmp_path, swap(later, clean(later)))] == [2]


def test_a_segment_that_loses_nothing_is_not_written(tmp_path: Path) -> None:
    sources = write_segments(tmp_path, [pairs(0, (b"a", b"1"))], [pairs(1, (b"b", b"2"), (b"b", b"3"))])
    job = job_for(tmp_path, sources, segment_bytes=1)
    assert [segment.replaced for segment in clean(job).segments] == [(1,)]
    cleaned = (f"{1:020d}{suffix}.cleaned" for suffix in (".log", ".index", ".timeindex"))
    assert names_in(tmp_path) == sorted((f"{0:020d}.log", f"{1:020d}.log", *cleaned))


@pytest.mark.parametrize(
    ("limits", "replaced"),
    [
        ({}, [(0, 10, 20, 30)]),
        ({"segment_bytes": 230}, [(0, 10), (20, 30)]),
        ({"segment_index_bytes": 40, "index_interval_bytes": 0}, [(0,), (10,), (20,)]),
    ],
)
def test_segments_are_merged_as_far_as_one_holds_them(
    tmp_path: Path, limits: dict[str, int], replaced: list[tuple[int, ...]]
) -> None:
    """Two batches of 72 bytes each, of which one stays; the last segment has one."""
    segments = [[pairs(at, (b"x", b"1")), pairs(at + 1, (b"%d" % at, b"2"), last_offset_delta=8)] for at in (0, 10, 20)]
    sources = write_segments(tmp_path, *segments, [pairs(30, (b"x", b"3"))])
    result = clean(job_for(tmp_path, sources, **limits))
    assert [segment.replaced for segment in result.segments] == replaced


@pytest.mark.rule(62)
def test_offsets_that_an_index_can_not_hold_go_into_another_segment(tmp_path: Path) -> None:
    far = 1 << 31
    sources = write_segments(
        tmp_path,
        [pairs(0, (b"a", b"1"), (b"a", b"2"), last_offset_delta=9)],
        [pairs(10, (b"b", b"1"), (b"b", b"2"), last_offset_delta=far - 11)],
        [pairs(far, (b"c", b"1"), (b"c", b"2"))],
    )
    assert [segment.replaced for segment in clean(job_for(tmp_path, sources)).segments] == [(0, 10), (far,)]


@pytest.mark.parametrize("first_dirty", [0, 4])
def test_of_fences_the_newest_below_the_end_is_left(tmp_path: Path, first_dirty: int) -> None:
    fences = [placed(seal_fence(ShardFence(epoch, 1), NOON), epoch) for epoch in (1, 3, 5, 7)]
    data = [pairs(at, (b"k%d" % at, b"v")) for at in (0, 2, 4, 6, 8)]
    batches = [batch for pair in zip(data, [*fences, b""], strict=True) for batch in pair if batch]
    job = job_for(tmp_path, write_segments(tmp_path, batches), first_dirty_offset=first_dirty, end_offset=7)
    left = swap(job, clean(job))
    found = [fence_of(batch) for batch in batches_in(tmp_path, left)]
    assert [fence.epoch for fence in found if fence] == [5, 7]
    again = job_for(tmp_path, left, first_dirty_offset=6, end_offset=7)
    assert clean(again).segments == (), "a dirty part without a fence takes none away"


@pytest.mark.rule(62)
@pytest.mark.parametrize(
    ("end_offset", "cleaned_to", "offsets"),
    [
        (3, 3, [1, 2, 3, 4, 5]),
        (4, 3, [1, 2, 3, 4, 5]),  # it lies inside a batch, which waits as a whole
        (5, 5, [1, 3, 4, 5]),
    ],
)
def test_nothing_at_or_above_the_end_is_cleaned(
    tmp_path: Path, end_offset: int, cleaned_to: int, offsets: list[int]
) -> None:
    """Where the first open transaction begins, with records, a marker and a fence of others behind that."""
    key, value = encode_marker(EndTransactionMarker(committed=True, coordinator_epoch=1))
    marker = sealed([(0, NOON, key, value, [])], attributes=CONTROL | TRANSACTIONAL)
    later = [
        pairs(6, (b"a", b"7"), (b"a", None), attributes=TRANSACTIONAL, producer_id=1, producer_epoch=0),
        pairs(8, (b"b", None), (b"c", b"8")),
        placed(marker, 10, producer_id=2, producer_epoch=0),
        placed(seal_fence(ShardFence(1, 1), NOON), 11),
        placed(seal_fence(ShardFence(2, 1), NOON), 12),
    ]
    sources = two_segments(tmp_path, *later)
    before = batches_in(tmp_path, sources)
    job = job_for(tmp_path, sources, end_offset=end_offset)
    result = clean(job)
    after = batches_in(tmp_path, swap(job, result))
    assert result.end_offset == cleaned_to
    assert [row[0] for row in rows_of(*after) if row[0] < 6] == offsets
    assert [b for b in after if header_of(b).next_offset > end_offset] == [
        b for b in before if header_of(b).next_offset > end_offset
    ]


@pytest.mark.feature(99)
@pytest.mark.parametrize("records", [1, 3, 50])
def test_a_full_map_ends_the_clean_and_the_next_goes_on(tmp_path: Path, records: int) -> None:
    """Also inside of a batch that has more keys than the map has room."""
    keys = [b"%d" % (n % 30) for n in range(150)]
    batches = [
        pairs(at, *((key, b"%d" % at) for key in keys[at : at + records]), codec=Codec.ZSTD)
        for at in range(0, 150, records)
    ]
    left, dirty, cleans = write_segments(tmp_path, batches), 0, 0
    while dirty < 150:
        job = job_for(tmp_path, left, first_dirty_offset=dirty, map_bytes=20 * 24)
        result = clean(job)
        assert dirty < result.end_offset <= 150
        assert result.map_bytes_used <= job.map_bytes
        left, dirty, cleans = swap(job, result), result.end_offset, cleans + 1
    assert cleans > 5
    assert [row[0] for row in rows_of(*batches_in(tmp_path, left))] == list(range(120, 150))


@pytest.mark.rule(59)
def test_its_indexes_are_those_of_its_batches(tmp_path: Path) -> None:
    """Whatever a clean before it has left behind."""
    for suffix in (".log", ".index", ".timeindex"):
        (tmp_path / f"{0:020d}{suffix}.cleaned").write_bytes(b"left of another clean" * 99_999)
    batches = [pairs(n, (b"%d" % (n % 2000), b"x" * 50), at_ms=NOON + n) for n in range(4000)]
    job = job_for(tmp_path, write_segments(tmp_path, batches), index_interval_bytes=200)
    (source,) = swap(job, clean(job))
    segment = Segment(tmp_path, 0, Disk(tmp_path), LogConfig(index_interval_bytes=200), NOON)
    loaded = segment.load()
    assert loaded == 4000
    found = segment.indexes
    assert segment.rebuild_indexes() == loaded
    for offset in range(0, 4000, 97):
        assert found.position_for(offset) == segment.indexes.position_for(offset)
        assert found.time_entry_for(NOON + offset) == segment.indexes.time_entry_for(NOON + offset)
    assert (found.largest, source.size_bytes) == (segment.indexes.largest, segment.size_bytes)
    assert (tmp_path / f"{0:020d}.index").stat().st_size > 8 * 200


def test_what_it_names_is_fsynced_and_within_its_throttle(tmp_path: Path) -> None:
    job = job_for(tmp_path, two_segments(tmp_path), segment_bytes=1)
    with (
        patch.object(DataFile, "sync", autospec=True) as sync,
        patch.object(Throttle, "take", autospec=True) as take,
    ):
        result = clean(job)
    assert [segment.replaced for segment in result.segments] == [(0,)]
    assert sorted(call.args[0].path.name for call in sync.call_args_list) == [
        f"{0:020d}{suffix}.cleaned" for suffix in (".index", ".log", ".timeindex")
    ]
    assert sum(call.args[1] for call in take.call_args_list) == result.bytes_read + result.segments[0].size_bytes


def test_a_small_segment_has_empty_indexes(tmp_path: Path) -> None:
    """So that those of its sources are replaced."""
    job = job_for(tmp_path, two_segments(tmp_path))
    clean(job)
    assert (tmp_path / f"{0:020d}.index.cleaned").read_bytes() == b""
    assert (tmp_path / f"{0:020d}.timeindex.cleaned").read_bytes() == b""


# ---- what can't be cleaned -----------------------------------------------------------------------------------------


def flipped(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@pytest.mark.rule(64)
@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (flipped(pairs(3, (b"c", b"4"))), "position 0 of 00000000000000000003.log, offset 3"),
        (pairs(3, (b"c", b"4")) + b"\x00" * 100, r"position 7\d of 00000000000000000003.log, offset 4"),
        (pairs(3, (b"c", b"4"))[:-3], "position 0 of 00000000000000000003.log, offset 3"),
        (pairs(2, (b"c", b"4")), "offset 2, can't be compacted: its offsets are not within"),
        (pairs(3, (b"c", b"4"), last_offset_delta=99), "offset 3, can't be compacted: its offsets are not within"),
        (pairs(3, (b"c", b"4"), (None, b"5")), "offset 3, can't be compacted: the record at offset 4 has no key"),
    ],
)
def test_what_can_not_be_read_is_named_and_nothing_is_left_behind(tmp_path: Path, damaged: bytes, message: str) -> None:
    first = pairs(0, (b"a", b"1"), (b"a", b"2"), (b"a", b"3"))
    (tmp_path / f"{0:020d}.log").write_bytes(first)
    (tmp_path / f"{3:020d}.log").write_bytes(damaged)
    sources = [SourceSegment(0, 3, len(first)), SourceSegment(3, 5, len(damaged))]
    for first_dirty_offset in (0, 5):  # the first pass finds it, or the second
        job = job_for(tmp_path, sources, first_dirty_offset=first_dirty_offset, segment_bytes=1, drops_keyless=False)
        with pytest.raises(OttlaError, match=message) as refused:
            cleaning.clean(job)
        assert "compaction.drop.keyless" in refused.value.hint or "from its leader" in refused.value.hint
        assert names_in(tmp_path) == [f"{0:020d}.log", f"{3:020d}.log"]


@pytest.mark.rule(64)
@pytest.mark.story("clean-copied-what-another-read-had-found")
@pytest.mark.parametrize("first_dirty_offset", [0, 3])
def test_a_bit_that_one_read_flips_is_not_copied(tmp_path: Path, first_dirty_offset: int) -> None:
    """The first read of a segment is right, and the read of its batch is not."""
    sources = write_segments(tmp_path, [pairs(0, (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))])
    read, job = DataFile.read, job_for(tmp_path, sources, first_dirty_offset=first_dirty_offset)

    def flips(self: DataFile, position: int, size_bytes: int) -> bytes:
        found = read(self, position, size_bytes)
        return flipped(found) if size_bytes == sources[0].size_bytes else found

    with patch.object(DataFile, "read", flips), pytest.raises(OttlaError, match="CRC") as refused:
        cleaning.clean(job)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert names_in(tmp_path) == [f"{0:020d}.log"]
    assert clean(job).records_kept == 3


def test_what_lies_above_the_end_is_not_looked_at(tmp_path: Path) -> None:
    sources = two_segments(tmp_path)
    (tmp_path / f"{3:020d}.log").unlink()
    assert clean(job_for(tmp_path, sources, end_offset=3)).end_offset == 3


def test_a_segment_that_is_gone_leaves_nothing_behind(tmp_path: Path) -> None:
    sources = two_segments(tmp_path)
    (tmp_path / f"{3:020d}.log").unlink()
    with pytest.raises(FileNotFoundError):
        cleaning.clean(job_for(tmp_path, sources, first_dirty_offset=6, segment_bytes=1))
    assert names_in(tmp_path) == [f"{0:020d}.log"]


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    sources, before = two_segments(tmp_path), names_in(tmp_path)
    with (
        patch.object(DataFile, "write", lambda _self, buffers, _position: len(buffers[0]) - 1),
        pytest.raises(OSError) as full,
    ):
        clean(job_for(tmp_path, sources))
    assert (full.value.errno, names_in(tmp_path)) == (ENOSPC, before)


def test_a_segment_never_outgrows_the_positions_of_its_index(tmp_path: Path) -> None:
    """A horizon makes the records of a batch longer."""
    sources = write_segments(tmp_path, [pairs(0, *((b"%d" % n, None) for n in range(50)))])
    with (
        patch.object(cleaned_file, "MAX_INT32", sources[0].size_bytes),
        pytest.raises(OttlaError, match="larger than"),
    ):
        clean(job_for(tmp_path, sources))
    assert names_in(tmp_path) == [f"{0:020d}.log"]


def test_its_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    batches = [pairs(n, (b"%d" % (n % 500), b"x" * 20_000)) for n in range(800)]
    job = job_for(tmp_path, write_segments(tmp_path, batches), segment_bytes=1 << 30)
    del batches
    tracemalloc.start()
    try:
        result = clean(job)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.bytes_written > 9 << 20
    assert peak < 6 << 20


@pytest.mark.feature(100)
def test_tombstones_end_when_their_horizon_is_over(tmp_path: Path) -> None:
    left = write_segments(tmp_path, [pairs(0, (b"a", b"1"), (b"b", b"2")), pairs(2, (b"a", None), at_ms=1)])
    rows = []
    for now_ms in (NOON, NOON + DAY_MS - 1, NOON + DAY_MS):
        job = job_for(tmp_path, left, now_ms=now_ms)
        left = swap(job, clean(job))
        rows.append([row[0] for row in rows_of(*batches_in(tmp_path, left))])
    assert rows == [[1, 2], [1, 2], [1]]


@pytest.mark.feature(100)
def test_a_clean_says_which_tombstones_are_gone_and_keeps_those_that_a_replica_still_needs(tmp_path: Path) -> None:
    left = write_segments(tmp_path, [pairs(0, (b"b", b"2")), pairs(1, (b"a", None)), pairs(2, (b"c", None))])
    gone = []
    for now_ms, limit in ((NOON, 9), (NOON + DAY_MS, 1), (NOON + DAY_MS, 2), (NOON + DAY_MS, 9), (NOON + DAY_MS, 9)):
        groups: list[CleanedGroup] = []
        job = job_for(tmp_path, left, now_ms=now_ms, purge_limit=limit)
        result = cleaning.clean(job, groups.append)
        left = swap(job, result)
        told = [CleanedGroup.from_json(group.to_json()) for group in groups]
        assert told == groups
        gone.append([group.purged_before for group in groups if group.segment is not None])
    assert gone == [[0], [], [2], [3], []]
