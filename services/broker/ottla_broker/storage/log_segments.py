"""The segments of a log. The log's one writer writes, rolls, truncates and drops them, and any thread may read them
beside it.

The tuple of segments is replaced, never changed, and a segment's size grows only after its bytes are written. Only
truncations and swaps take bytes away. They first replace the segments, then count themselves, and only then touch
files. If a reader finds another count than it began with, what it read may be torn, and it reads again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from threading import Lock
from typing import Final, TypeVar

from ottla_broker.machines import retention
from ottla_broker.machines.offsets import HighWatermark, LogEndOffset
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log_config import MAX_INT32, LogConfig
from ottla_broker.storage.positioned import PositionedBatch
from ottla_broker.storage.reading import BatchReader, FoundOffset, find_offset
from ottla_broker.storage.recovery import Recovered
from ottla_broker.storage.segment import Ranges, Segment, ranges_of
from ottla_core.errors import ErrorCode, OttlaError

T = TypeVar("T")


class LogSegments:
    def __init__(self, directory: PurePath, disk: Disk, recovered: Recovered, on_roll: Callable[[int], None]) -> None:
        self.segments = tuple(recovered.segments)
        self.start_offset = recovered.log_start_offset
        self.end_offset = recovered.log_end_offset
        self.is_closed = False
        self._directory: Final = directory
        self._disk: Final = disk
        self._on_roll: Final = on_roll
        self._reader = BatchReader()
        self._changing: Final = Lock()
        """Guards `segments`, which a swap may change beside the writer."""
        self._disturbances = 0
        self._as_opened: Final = self._now

    @property
    def are_as_opened(self) -> bool:
        """It tells whether nothing was appended, rolled or truncated since the log was opened."""
        return self._now == self._as_opened

    @property
    def _now(self) -> tuple[int, int, int]:
        return self.segments[-1].base_offset, self.end_offset, self._disturbances

    def ranges(self) -> Ranges:
        """Return each segment with the offset after it. For other threads, the last offset is at most what the segment
        holds."""
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

    def write(
        self,
        base_offset: int,
        buffers: Sequence[bytes | memoryview],
        size_bytes: int,
        batches: Sequence[PositionedBatch],
        now_ms: int,
        config: LogConfig,
    ) -> bool:
        """Write batches behind the last one, and return whether the log has rolled for them."""
        last_offset, rolled = batches[-1].last_offset, False
        largest_ms = max(batch.max_timestamp_ms for batch in batches)
        if self.segments[-1].must_roll(size_bytes, last_offset, largest_ms, now_ms, config):
            # The new segment begins before a gap that compaction left, if it has room for the gap: a start takes a gap
            # between segments for a loss.
            begin = self.end_offset if last_offset - self.end_offset <= MAX_INT32 else base_offset
            self.roll(begin, now_ms, config)
            rolled = True
        self.segments[-1].append(buffers, size_bytes, batches)
        self.end_offset = LogEndOffset(last_offset + 1)
        return rolled

    def roll(self, base_offset: int, now_ms: int, config: LogConfig) -> None:
        """Seal the active segment and start the next one."""
        fresh = Segment(self._directory, base_offset, self._disk, config, now_ms)
        try:
            fresh.activate()
        except OSError as error:
            raise self._disk.error(f"starting a segment of {self._directory.name}", error) from error
        self.segments[-1].seal()
        with self._changing:
            self.segments = (*self.segments, fresh)
        self._on_roll(base_offset)

    def truncate(self, offset: int, config: LogConfig, on_truncated: Callable[[int], None]) -> None:
        """Remove the batch that holds `offset` and everything after it. `on_truncated` gets the log's new end.

        A log that begins in the middle of that batch begins and ends with the batch's first offset then.
        """
        segments = self.segments
        if offset == segments[0].base_offset:
            self.start_anew(offset, config, lambda: on_truncated(offset))
            return
        number = max(n for n, segment in enumerate(segments) if segment.base_offset < offset)
        try:
            short, end_offset = segments[number].shortened(offset, config)
        except OSError as error:
            raise self._disk.error(f"cutting {self._directory.name}", error) from error
        with self._changing_files():
            self._replace((*segments[:number], short), end_offset)
            # The newest segment goes first: a crash in between leaves a log that ends later, never one with a hole.
            for segment in reversed(segments[number + 1 :]):
                segment.discard()
            self._disk.sync_directory(self._directory)  # before the bytes go that those segments follow
            short.trim()
            self.start_offset = min(self.start_offset, end_offset)
            on_truncated(end_offset)

    def start_anew(
        self, offset: int, config: LogConfig, on_truncated: Callable[[], None], *, base_offset: int | None = None
    ) -> None:
        """Empty the log. It begins at `offset`, in a segment that begins there, or before it at `base_offset`."""
        doomed = self.segments
        base_offset = offset if base_offset is None else base_offset
        fresh = Segment(self._directory, base_offset, self._disk, config, doomed[-1].created_at_ms)
        with self._changing_files():
            self.start_offset = offset
            self._replace((fresh,), offset)
            for segment in reversed(doomed):
                segment.discard()
            fresh.activate()
            on_truncated()

    @contextmanager
    def _changing_files(self) -> Iterator[None]:
        """Take the directory offline if the files can't be changed, because half of a truncation is not a log. A start
        has to finish it."""
        try:
            yield
        except OSError as error:
            raise self._disk.fail(f"cutting {self._directory.name}", error) from error

    def _replace(self, segments: tuple[Segment, ...], end_offset: int) -> None:
        """Replace the segments, because the log ends earlier. `undisturbed` relies on this order, and on no file being
        touched before."""
        self.segments, self.end_offset = segments, LogEndOffset(end_offset)
        self._reader = BatchReader()
        self._disturbances += 1

    def expired(
        self, high_watermark: HighWatermark, now_ms: int, config: LogConfig, held_from: int
    ) -> tuple[list[retention.DeletionCause], int]:
        """Return why retention.ms and retention.bytes no longer keep the first segments, one cause for each, and where
        the last of them ends. A segment with anything at or above `held_from` is kept."""
        ranges = self.ranges()
        facts = [
            retention.SegmentFacts(end, segment.size_bytes, segment.retention_timestamp_ms) for segment, end in ranges
        ]
        try:
            causes = retention.decide(
                facts,
                log_start_offset=self.start_offset,
                high_watermark=high_watermark,
                now_ms=now_ms,
                retention_ms=config.retention_ms,
                retention_bytes=config.retention_bytes,
            )
        except OSError as error:
            raise self._disk.error(f"looking for expired segments of {self._directory.name}", error) from error
        while causes and facts[len(causes) - 1].next_offset > held_from:
            causes.pop()
        return causes, facts[len(causes) - 1].next_offset if causes else ranges[0][0].base_offset

    def drop(self, until: int, start_offset: int) -> Sequence[Segment]:
        """Remove the segments that end at or before `until`, except for the active one, and return them. Nothing before
        `start_offset` is served any more."""
        with self._changing:
            # with the lock held: a swap makes one segment of many
            count = sum(end <= until for _, end in self.ranges()[:-1])
            dropped, kept = self.segments[:count], self.segments[count:]
            # Readers take the segments first and look at the start after that, so the start must never be behind.
            self.start_offset = max(start_offset, kept[0].base_offset)
            self.segments = kept
        return dropped

    def index_of(self, sources: Sequence[Segment]) -> int | None:
        """Return the index of the first of `sources` among the segments before the active one, or None if they do not
        follow one another there."""
        sealed = self.segments[:-1]
        if sources[0] not in sealed:
            return None
        first = sealed.index(sources[0])
        return first if sealed[first : first + len(sources)] == tuple(sources) else None

    def end_of(self, sources: Sequence[Segment]) -> int | None:
        """Return the offset after the last of `sources`, or None if the log does not have them one after another."""
        first = self.index_of(sources)
        return None if first is None else self.segments[first + len(sources)].base_offset

    def exchange(self, sources: Sequence[Segment], cleaned: Segment) -> bool:
        """Replace `sources` by `cleaned`, in which nothing is lost. Return whether they were still there. It runs
        beside the writer."""
        with self._changing:
            first = self.index_of(sources)
            if first is None:
                return False
            self.segments = (*self.segments[:first], cleaned, *self.segments[first + len(sources) :])
            self._reader = self._reader.without(sources)
            self._disturbances += 1
            return True

    # ---- for readers --------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, limit_offset: int, *, min_one_batch: bool, hot: bool) -> bytes | None:
        """See `Log.read`. With `hot` it returns None instead of waiting for the disk."""

        def read(reader: BatchReader, segments: Sequence[Segment]) -> bytes | None:
            if not self.start_offset <= offset <= self.end_offset:
                raise self.out_of_range(offset)
            limit = min(limit_offset, self.end_offset)
            if offset >= limit:
                return b""
            return reader.read(segments, offset, max_bytes, limit, min_one_batch=min_one_batch, hot=hot)

        return self.undisturbed(offset, read)

    def offset_for_time(self, timestamp_ms: int, limit_offset: int) -> FoundOffset | None:
        """See `Log.offset_for_time`."""
        return self.undisturbed(
            self.start_offset, lambda _, segments: find_offset(segments, self.start_offset, timestamp_ms, limit_offset)
        )

    def undisturbed(self, offset: int, read: Callable[[BatchReader, Sequence[Segment]], T]) -> T:
        """Return the result of a `read` that no truncation and no swap has disturbed."""
        while True:
            self.check_open()
            # The order matters: segments that are read after the reader are at least as new as a truncation or a swap
            # that made the reader.
            disturbances, reader, segments = self._disturbances, self._reader, self.segments
            try:
                found = read(reader, segments)
            except OttlaError:
                if disturbances == self._disturbances:
                    raise
            except OSError as error:
                if disturbances == self._disturbances:
                    raise self._unreadable(offset, error) from error
            else:
                if disturbances == self._disturbances:
                    return found

    def _unreadable(self, offset: int, error: OSError) -> OttlaError:
        if not isinstance(error, FileNotFoundError):
            return self._disk.error(f"reading {self._directory.name}", error)
        # Retention or a deletion of the log has just deleted the segment, or it is lost.
        self.check_open()
        if offset < self.start_offset:
            return self.out_of_range(offset)
        return OttlaError(
            ErrorCode.KAFKA_STORAGE_ERROR,
            f"the segment of {self._directory} with offset {offset} no longer exists",
            hint="restore the file, or restart the broker, which then continues with the remaining segments",
        )

    def out_of_range(self, offset: int) -> OttlaError:
        return OttlaError(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"offset {offset} is outside the log, which goes from {self.start_offset} to {self.end_offset}",
            hint="start at the earliest or the latest offset",
        )
