"""The two indexes of a segment: offset to file position, and time to offset. They are only hints (rule 59).

Both are sparse, an entry after every index.interval.bytes of log, and both lie on disk in Kafka's format, big-endian:

    .index      relative offset int32, position int32     of a batch: its last offset and where it starts
    .timeindex  timestamp int64, relative offset int32    the largest timestamp so far and the batch that brought it

New entries gather in memory and are written in chunks of 4 KB: a crash may leave an active segment's index short, but
that is rebuilt anyway, and neither memory nor descriptors grow with the log. Lookups open the file only while they run.
A thread may look up while the loop appends, because a lookup takes all that it works on in one read of `_tail`.

A segment of a few kilobytes, in which no batch is indexed, needs no files: loading it walks all of it. Of many logs,
most are that small, and making a file costs more than reading one.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from pathlib import PurePath
from typing import Final, NamedTuple

from ottla_broker.storage import files
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.files import DataFile

_CHUNK_BYTES: Final = 4096
OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")


class IndexDamagedError(Exception):
    """An index is wrong, and the segment's batches show what it should be."""


class _Tail(NamedTuple):
    """How many entries lie in the file, and the packed ones after them."""

    stored: int
    pending: bytearray


class _EntryFile:
    """Entries of one struct in a file, sorted by their first field. Only `finish` shrinks the file."""

    def __init__(self, path: PurePath, entry: struct.Struct) -> None:
        self.path: Final = path
        self.last: tuple[int, int] | None = None
        self._entry: Final = entry
        self._tail = _Tail(0, bytearray())

    def load(self) -> None:
        """Take over the file as it is. Raises IndexDamagedError if its size is not a multiple of the entry's size."""
        size = self._entry.size
        try:
            file = files.open_file(self.path)
        except FileNotFoundError:
            raise IndexDamagedError(f"{self.path.name} is missing") from None
        stored, rest = divmod(file.size_bytes(), size)
        if rest:
            raise IndexDamagedError(f"{self.path.name} ends in the middle of an entry")
        self._tail = _Tail(stored, bytearray())
        if stored:
            self.last = self._unpack(file.read((stored - 1) * size, size), 0)

    @property
    def count(self) -> int:
        stored, pending = self._tail
        return stored + len(pending) // self._entry.size

    def append(self, first: int, second: int) -> None:
        self.last = (first, second)
        pending = self._tail.pending
        pending += self._entry.pack(first, second)
        if len(pending) >= _CHUNK_BYTES:
            try:
                self.write()
            except OSError:
                return  # it stays in memory and is written with the next chunk; the log itself reports a full disk

    def write(self) -> DataFile:
        """Write the entries in memory to the file, and return the file."""
        file = files.open_file(self.path, write=True)
        stored, pending = self._tail
        if pending:
            file.write_all([bytes(pending)], stored * self._entry.size, len(pending))
            self._tail = _Tail(stored + len(pending) // self._entry.size, bytearray())
        return file

    def finish(self) -> None:
        """Write the entries, and cut off what an earlier index left behind in the file. No file is created for no
        entries."""
        if self.count or files.exists(self.path):
            self.write().truncate(self._tail.stored * self._entry.size)

    def drop_from(self, field: int, limit: int) -> None:
        """Forget the stored entries whose field number `field` is at or above `limit`; `finish` truncates the file."""
        file = files.open_file(self.path)
        size = self._entry.size
        stored = bisect_left(
            range(self._tail.stored), limit, key=lambda n: self._unpack(file.read(n * size, size), 0)[field]
        )
        self._tail = _Tail(stored, bytearray())
        self.last = self._unpack(file.read((stored - 1) * size, size), 0) if stored else None

    def floor(self, key: int) -> tuple[int, int] | None:
        """Return the last entry whose first field is at most `key`."""
        stored, pending = self._tail
        size = self._entry.size
        if pending and self._unpack(pending, 0)[0] <= key:
            number = bisect_right(range(len(pending) // size), key, key=lambda n: self._unpack(pending, n * size)[0])
            return self._unpack(pending, (number - 1) * size)
        if not stored:
            return None
        try:
            file = files.open_file(self.path)
            number = bisect_right(range(stored), key, key=lambda n: self._unpack(file.read(n * size, size), 0)[0])
            return self._unpack(file.read((number - 1) * size, size), 0) if number else None
        except (FileNotFoundError, struct.error):
            return None  # it was removed or cut; without a hint the segment is searched from its start

    def _unpack(self, data: bytes | bytearray, at: int) -> tuple[int, int]:
        first, second = self._entry.unpack_from(data, at)
        return first, second


class OffsetPosition(NamedTuple):
    """A batch's last offset and where it starts in the file."""

    last_offset: int
    position: int


class TimestampOffset(NamedTuple):
    """The largest timestamp so far and the last offset of the batch that brought it."""

    timestamp_ms: int
    last_offset: int


NO_TIMESTAMP: Final = TimestampOffset(-1, -1)


class SegmentIndexes:
    """Both indexes of one segment. Appends and rebuilds alike feed them batch by batch."""

    def __init__(self, log_path: PurePath, base_offset: int, interval_bytes: int, *, ending: str = "") -> None:
        """Create the indexes beside `log_path`. The names of their two files end with `ending` (module swap)."""
        self.largest = NO_TIMESTAMP
        self._base_offset: Final = base_offset
        self._interval_bytes: Final = interval_bytes
        self._bytes_since_entry = 0
        self._offsets: Final = _EntryFile(log_path.with_suffix(f".index{ending}"), OFFSET_ENTRY)
        self._times: Final = _EntryFile(log_path.with_suffix(f".timeindex{ending}"), TIME_ENTRY)

    def load(self, log_size_bytes: int, before_offset: int | None = None) -> None:
        """Take over the files of a log that was closed in order, or only their entries for the batches before an
        offset. Do nothing if there are no files.

        Raises IndexDamagedError if they are wrong.
        """
        if not (files.exists(self._offsets.path) or files.exists(self._times.path)):
            return
        self._offsets.load()
        self._times.load()
        if before_offset is not None:
            self._offsets.drop_from(0, before_offset - self._base_offset)
            self._times.drop_from(1, before_offset - self._base_offset)
        if self._offsets.last is not None:
            relative, position = self._offsets.last
            if relative < 0 or not 0 <= position < log_size_bytes:
                raise IndexDamagedError(
                    f"the last entry of {self._offsets.path.name} is invalid: offset +{relative}, position {position}"
                )
        if self._times.last is not None:
            timestamp_ms, relative = self._times.last
            if relative < 0 or timestamp_ms < 0:
                raise IndexDamagedError(
                    f"the last entry of {self._times.path.name} is invalid: {timestamp_ms} ms, offset +{relative}"
                )
            self.largest = TimestampOffset(timestamp_ms, relative + self._base_offset)

    def note(self, position: int, size_bytes: int, last_offset: int, max_timestamp_ms: int) -> None:
        """Note a batch that now lies at `position`."""
        if max_timestamp_ms > self.largest.timestamp_ms:
            self.largest = TimestampOffset(max_timestamp_ms, last_offset)
        if self._bytes_since_entry > self._interval_bytes:
            self._offsets.append(last_offset - self._base_offset, position)
            self._append_time()
            self._bytes_since_entry = 0
        self._bytes_since_entry += size_bytes

    def resume(self) -> None:
        """Begin the running interval at the last indexed batch, which is noted once more after `load`."""
        self._bytes_since_entry = 0

    def is_full(self, max_bytes: int) -> bool:
        """Return whether one more entry would be too many. The time index keeps room for the entry that `seal` adds."""
        return (
            self._offsets.count >= max_bytes // OFFSET_ENTRY.size
            or self._times.count >= max_bytes // TIME_ENTRY.size - 1
        )

    def last_entry(self) -> OffsetPosition:
        """Return the last batch that is indexed, or the segment's start."""
        return self._absolute(self._offsets.last)

    def position_for(self, offset: int) -> OffsetPosition:
        """Return the last indexed batch that ends at or before `offset`, or the segment's start."""
        return self._absolute(self._offsets.floor(offset - self._base_offset))

    def time_entry_for(self, timestamp_ms: int) -> TimestampOffset:
        """Return the last batch that brought a new largest timestamp at or below `timestamp_ms`, or NO_TIMESTAMP."""
        entry = self._times.floor(timestamp_ms)
        return TimestampOffset(entry[0], entry[1] + self._base_offset) if entry else NO_TIMESTAMP

    def seal(self) -> None:
        """Add the final largest timestamp and write the files, because the segment takes no more batches or the log is
        closed."""
        self._append_time()
        if self.has_entries:
            self.finish()

    @property
    def has_entries(self) -> bool:
        """It tells whether a batch is indexed. Without one a segment is walked from its start on."""
        return self._offsets.count > 0

    def finish(self) -> None:
        """Write the files, and cut off what this object does not know."""
        self._offsets.finish()
        self._times.finish()

    def sync(self, disk: Disk) -> None:
        """Write and fsync both files if they have entries. Raises OSError, or KAFKA_STORAGE_ERROR."""
        if self.has_entries:
            disk.sync(self._offsets.write())
            disk.sync(self._times.write())

    def _append_time(self) -> None:
        timestamp_ms, last_offset = self.largest
        if timestamp_ms >= 0 and (self._times.last is None or timestamp_ms > self._times.last[0]):
            self._times.append(timestamp_ms, last_offset - self._base_offset)

    def _absolute(self, entry: tuple[int, int] | None) -> OffsetPosition:
        if entry is None:
            return OffsetPosition(self._base_offset - 1, 0)
        return OffsetPosition(entry[0] + self._base_offset, entry[1])
