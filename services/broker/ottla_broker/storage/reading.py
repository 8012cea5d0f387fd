"""Reads of a log: whole batches from an offset on, in one system call if a reader continues where it stopped.

Bytes leave as they lie on disk. Of each batch only three fields of its header are read, to find where the last whole
batch ends. The first batch comes whole even if it is larger than requested (KIP-74, rule 57), and may start below the
offset: the reader skips.
"""

from __future__ import annotations

import mmap
import threading
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from ottla_broker.storage.files import DataFile
from ottla_broker.storage.scan import is_legal
from ottla_broker.storage.segment import Segment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, MAX_BATCH_BYTES, MAX_TIMESTAMP
from ottla_core.records.batch import HEADER_SIZE, BatchHeader, Buffer, corrupt, read_header, whole_batches
from ottla_core.records.reader import read_records

READ_MAX_BYTES: Final = 4 << 20
"""The most that one read returns, except for a first batch that is larger."""

_REMEMBERED: Final = 16
_BASE_OFFSET_BYTES: Final = 8


class _Scratch(threading.local):
    """A thread's buffer for reads whose number of whole batches is not known yet.

    Copying them out of warm memory costs 15 µs a megabyte. Reading into new memory and shortening it costs up to 900
    µs, because the allocator gives the ends back to the kernel each time, and every page is faulted in again.
    """

    def __init__(self) -> None:
        self.buffer = mmap.mmap(-1, READ_MAX_BYTES)  # it takes memory only as far as it is used


_scratch = _Scratch()


class FoundOffset(NamedTuple):
    """An offset that was looked up by time, with its record's timestamp, or -1 if no timestamp was requested."""

    offset: int
    timestamp_ms: int


class _Position(NamedTuple):
    """The batch with this base offset lies, or will lie, at `position` of `segment`."""

    offset: int
    segment: Segment
    position: int


class BatchReader:
    """Reads for any thread. It remembers where recent reads ended, because most reads begin there."""

    def __init__(self, known: Iterable[_Position | None] = ()) -> None:
        # Slots by offset, each replaced as one value: threads need no lock, and a collision only costs a lookup.
        self._positions: list[_Position | None] = list(known) or [None] * _REMEMBERED

    def without(self, segments: Collection[Segment]) -> BatchReader:
        """Return a reader that has forgotten these segments, because others have replaced them in the log. Reads that
        still run remember nothing in it."""
        return BatchReader(at if at and at.segment not in segments else None for at in self._positions)

    def read(
        self,
        segments: Sequence[Segment],
        offset: int,
        max_bytes: int,
        limit_offset: int,
        *,
        min_one_batch: bool,
        hot: bool,
    ) -> bytes | None:
        """Return whole batches from the one that holds `offset` on, all below `limit_offset`, which lies behind it.

        With `hot` it returns None instead of waiting for the disk. Raises CORRUPT_MESSAGE if there is no batch at
        `offset`.
        """
        location = self._find(segments, offset, hot=hot)
        if location is None:
            return None if hot else b""
        _, segment, position = location
        file, left_bytes = segment.open_file() if hot else segment.file(), segment.size_bytes - position
        if file is None:
            return None
        with memoryview(_scratch.buffer)[: min(max(max_bytes, HEADER_SIZE), left_bytes)] as view:
            count = file.read_into(view, position, hot=hot)
            if count is None:
                return None
            if count < len(view):  # what lies behind it in the buffer belongs to another read
                raise OttlaError(
                    ErrorCode.KAFKA_STORAGE_ERROR,
                    f"{segment.path} ends {len(view) - count} bytes early: the file has been truncated",
                    hint="restart the broker, which then recovers the log",
                )
            if location is self._positions[offset % _REMEMBERED] and int.from_bytes(view[:_BASE_OFFSET_BYTES]) > offset:
                # A clean has removed what lay here, or the read that ended here has found a wrong header and passed
                # over the batch. `Segment.position_of` tells.
                self._positions[offset % _REMEMBERED] = None
                if hot:
                    return None
                return self.read(segments, offset, max_bytes, limit_offset, min_one_batch=min_one_batch, hot=False)
            whole_bytes, next_offset = whole_batches(view, limit_offset)
            if whole_bytes:
                self._positions[next_offset % _REMEMBERED] = _Position(next_offset, segment, position + whole_bytes)
                return bytes(view[:whole_bytes])
            first = _first_header(view, file, position, left_bytes)
        if first.next_offset > limit_offset or not min_one_batch:
            return b""
        _check_sendable(first, segment)
        # Such a batch is rare and may be large, so it is read neither into the scratch buffer nor on the loop.
        return None if hot else file.read(position, first.size_bytes)

    def _find(self, segments: Sequence[Segment], offset: int, *, hot: bool) -> _Position | None:
        """Return where to read `offset` from, or None if no batch has it, or with `hot`, if only the disk knows."""
        location = self._positions[offset % _REMEMBERED]
        # A position at a segment's end is useful only until the segment is sealed and the next one has the offset.
        if location is not None and location.offset == offset and location.position < location.segment.size_bytes:
            return location
        number = max(0, bisect_right(segments, offset, key=_base_offset) - 1)
        if segments[number].base_offset == offset and segments[number].size_bytes:  # otherwise a wide gap follows
            return _Position(offset, segments[number], 0)
        if hot:
            return None  # indexes and headers are read from files, which may have to wait
        for segment in segments[number:]:
            position = segment.position_of(offset)
            if position is not None:
                return _Position(offset, segment, position)
        return None


def find_offset(
    segments: Sequence[Segment], start_offset: int, timestamp_ms: int, limit_offset: int
) -> FoundOffset | None:
    """Answer a ListOffsets between the log's start and `limit_offset`, see `Log.offset_for_time`. It reads the disk."""
    if timestamp_ms == EARLIEST_TIMESTAMP:
        return FoundOffset(start_offset, -1)
    if timestamp_ms == LATEST_TIMESTAMP:
        return FoundOffset(limit_offset, -1)
    if timestamp_ms == MAX_TIMESTAMP:
        timestamp_ms, segments = _largest(segments, start_offset)
    if timestamp_ms < 0:
        return None  # no record has a timestamp
    found = find_time(segments, start_offset, timestamp_ms)
    return found if found is not None and found.offset < limit_offset else None


def _largest(segments: Sequence[Segment], start_offset: int) -> tuple[int, Sequence[Segment]]:
    """Return the largest timestamp from `start_offset` on, and the segments from the first one on that has it."""
    largest = [segment.largest.timestamp_ms for segment in segments]
    if segments[0].base_offset < start_offset and largest[0] == max(largest):
        largest[0] = _largest_in(segments[0], start_offset)  # it may be that of a deleted record
    return max(largest), segments[largest.index(max(largest)) :]


def _largest_in(segment: Segment, start_offset: int) -> int:
    position = segment.position_of(start_offset)
    largest = -1
    for at, header in segment.headers_from(segment.size_bytes if position is None else position):
        timestamp_ms = header.max_timestamp
        if header.base_offset < start_offset:
            batch = segment.file().read(at, header.size_bytes)
            timestamp_ms = _largest_record(batch, header, start_offset)
        largest = max(largest, timestamp_ms)
    return largest


def _largest_record(batch: bytes, header: BatchHeader, start_offset: int) -> int:
    try:
        return max((timestamp for offset, timestamp, *_ in read_records(batch) if offset >= start_offset), default=-1)
    except OttlaError:
        return header.max_timestamp  # as in `_first_record`


def find_time(segments: Sequence[Segment], start_offset: int, timestamp_ms: int) -> FoundOffset | None:
    """Return the first record from `start_offset` on whose timestamp is at or after `timestamp_ms`. It reads the
    disk."""
    for segment in segments:
        if segment.largest.timestamp_ms < timestamp_ms:
            continue
        position = segment.position_for_time(timestamp_ms)
        # A wrong header would have the record passed over, so the CRCs are checked. The search begins near the record.
        for at, header in segment.sound_batches_from(position):
            if header.max_timestamp >= timestamp_ms and header.last_offset >= start_offset:
                found = _first_record(segment.file().read(at, header.size_bytes), header, start_offset, timestamp_ms)
                if found is not None:
                    return found
    return None


def _first_record(batch: bytes, header: BatchHeader, start_offset: int, timestamp_ms: int) -> FoundOffset | None:
    try:
        for offset, timestamp, *_ in read_records(batch):
            if offset >= start_offset and timestamp is not None and timestamp >= timestamp_ms:
                return FoundOffset(offset, timestamp)
    except OttlaError:
        # The header's timestamp is wrong (rule 64). The batch counts as a whole, so that no record is passed over.
        return FoundOffset(max(start_offset, header.base_offset), header.max_timestamp)
    return None


def _first_header(view: Buffer, file: DataFile, position: int, left_bytes: int) -> BatchHeader:
    header = read_header(view)
    if not is_legal(header) or header.size_bytes > left_bytes:
        raise corrupt(f"there is no whole batch at {position} of {file.path}")
    return header


def _check_sendable(header: BatchHeader, segment: Segment) -> None:
    """Raise MESSAGE_TOO_LARGE for a batch that no response can hold. If it were sent, it would end the session of all
    partitions."""
    if header.size_bytes <= MAX_BATCH_BYTES:
        return
    raise OttlaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the batch at offset {header.base_offset} of {segment.path.parent.name} has {header.size_bytes} bytes, but a "
        f"response can hold a batch of at most {MAX_BATCH_BYTES}",
        hint=f"seek to offset {header.next_offset} to read past it; to let replicas follow again, delete the records "
        f"before offset {header.next_offset} with `ottla topic delete-records`",
    )


def _base_offset(segment: Segment) -> int:
    return segment.base_offset
