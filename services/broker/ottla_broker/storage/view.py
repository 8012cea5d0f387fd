"""What there is to read of a log: its segments, where it begins and where it ends.

Changed by the log's one writer, read by any thread beside it. The tuple of segments is replaced, never changed, and a
segment's size grows only after its bytes are written. Only a cut takes bytes away: it replaces the segments, then
counts itself, and then its files are touched. A reader that finds another count than it began with has read in vain,
for what it saw may be torn, and reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from ottla_broker.storage.disk import Disk
from ottla_broker.storage.reading import BatchReader, FoundOffset, find_offset
from ottla_broker.storage.segment import Ranges, Segment, ranges_of
from ottla_core.errors import ErrorCode, OttlaError

T = TypeVar("T")


class LogView:
    def __init__(
        self, directory: Path, disk: Disk, segments: Sequence[Segment], start_offset: int, end_offset: int
    ) -> None:
        self.segments = tuple(segments)
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.is_closed = False
        self._directory: Final = directory
        self._disk: Final = disk
        self._reader = BatchReader()
        self._cuts = 0

    def ranges(self) -> Ranges:
        """Each segment with the offset after it; for other threads, the last is at most what the segment holds."""
        end_offset = self.end_offset
        return ranges_of(self.segments, end_offset)

    def check_open(self) -> None:
        """Raise KAFKA_STORAGE_ERROR once the disk has failed, NOT_LEADER_OR_FOLLOWER once the log is closed."""
        self._disk.check_online()
        if self.is_closed:
            raise OttlaError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                f"the log {self._directory.name} is closed",
                hint="refresh the metadata and try again",
            )

    # ---- for the writer -----------------------------------------------------------------------------------------

    def drop(self, count: int, start_offset: int) -> Sequence[Segment]:
        """Without the first `count` segments, which are returned; nothing before `start_offset` is served any more."""
        dropped, kept = self.segments[:count], self.segments[count:]
        # Readers take the segments first and look at the start after that: it must never be behind.
        self.start_offset = max(start_offset, kept[0].base_offset)
        self.segments = kept
        return dropped

    def cut(self, segments: tuple[Segment, ...], end_offset: int) -> None:
        """The log ends earlier. In this order, and before any file is touched: `_undisturbed` relies on it."""
        self.segments, self.end_offset = segments, end_offset
        self._reader = BatchReader()
        self._cuts += 1

    # ---- for readers --------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, min_one_batch: bool, hot: bool) -> bytes | None:
        """See `Log.read`; `hot`: None instead of waiting for the disk."""

        def read(reader: BatchReader, segments: Sequence[Segment]) -> bytes | None:
            if not self.start_offset <= offset <= self.end_offset:
                raise self._out_of_range(offset)
            limit = min(limit_offset, self.end_offset)
            if offset >= limit:
                return b""
            return reader.read(segments, offset, max_bytes, limit, min_one_batch=min_one_batch, hot=hot)

        return self._undisturbed(offset, read)

    def offset_for_time(self, timestamp_ms: int, limit_offset: int) -> FoundOffset | None:
        """See `Log.offset_for_time`."""
        return self._undisturbed(
            self.start_offset,
            lambda _, segments: find_offset(segments, self.start_offset, timestamp_ms, limit_offset),
        )

    def _undisturbed(self, offset: int, read: Callable[[BatchReader, Sequence[Segment]], T]) -> T:
        """What `read` gives while no cut comes in between."""
        while True:
            self.check_open()
            # In this order: with a reader that a cut has made go at least the segments that it left.
            cuts, reader, segments = self._cuts, self._reader, self.segments
            try:
                found = read(reader, segments)
            except OttlaError:
                if cuts == self._cuts:
                    raise
            except OSError as error:
                if cuts == self._cuts:
                    raise self._unreadable(offset, error) from error
            else:
                if cuts == self._cuts:
                    return found

    def _unreadable(self, offset: int, error: OSError) -> OttlaError:
        if not isinstance(error, FileNotFoundError):
            return self._disk.error(f"reading {self._directory.name}", error)
        # The segment was deleted a moment ago, by retention or with the log, or it is lost.
        self.check_open()
        if offset < self.start_offset:
            return self._out_of_range(offset)
        return OttlaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"a segment of {self._directory} that holds offset {offset} is not there any more",
            hint="restore the file, or restart the broker, which then goes on with what is left",
        )

    def _out_of_range(self, offset: int) -> OttlaError:
        return OttlaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} lies outside the log, which goes from {self.start_offset} to {self.end_offset}",
            hint="start at the earliest or the latest offset",
        )
