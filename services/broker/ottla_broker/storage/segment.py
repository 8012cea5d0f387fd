"""A stretch of the log: one file of batches, and the indexes beside it, named by the first offset they may hold."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import PurePath
from random import random
from typing import Final, TypeAlias

from ottla_broker.storage import files, swap
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.index import NO_TIMESTAMP, IndexDamagedError, SegmentIndexes, TimestampOffset
from ottla_broker.storage.log_config import MAX_INT32, LogConfig
from ottla_broker.storage.positioned import PositionedBatch
from ottla_broker.storage.scan import HEADERS_CHUNK_BYTES, headers, settled_batches, sound_batches
from ottla_broker.storage.swap import BESIDE_LOG, SWAP
from ottla_broker.storage.transactions.aborted_index import AbortedIndex
from ottla_core.errors import OttlaError
from ottla_core.records.batch import HEADER_SIZE, BatchHeader, corrupt, read_header

Ranges: TypeAlias = "Sequence[tuple[Segment, int]]"
"""Segments, oldest first, each with the offset after it."""

_logger = logging.getLogger(__name__)


class Segment:
    """One segment. While it is active, one thread appends to it; any thread may read it at any time.

    Its file is opened through `Disk.files`, as long as it is in use.
    """

    __slots__ = (
        "_disk",
        "_index_interval_bytes",
        "_indexes",
        "_is_active",
        "_jitter",
        "_last_batch_at",
        "_swap",
        "aborted",
        "base_offset",
        "created_at_ms",
        "first_timestamp_ms",
        "path",
        "size_bytes",
    )

    def __init__(self, directory: PurePath, base_offset: int, disk: Disk, config: LogConfig, now_ms: int) -> None:
        self.path: Final = swap.segment_path(directory, base_offset)
        self.base_offset: Final = base_offset
        self.created_at_ms: Final = now_ms
        self.size_bytes = 0
        self.first_timestamp_ms = -1
        """It is the timestamp of the first batch, from which segment.ms counts."""
        self._disk: Final = disk
        self._index_interval_bytes: Final = config.index_interval_bytes
        self._is_active = False
        self._jitter: Final = random()  # noqa: S311 - spreads segments' ends in time, not a secret
        self._swap: DataFile | None = None
        """It is read instead of the segment's file while the segments that it replaces still occupy the name."""
        self._indexes: SegmentIndexes | None = self._new_indexes()
        self._last_batch_at = 0
        """It is where the last batch began when the file was loaded."""
        self.aborted = AbortedIndex(self.path)

    # ---- becoming what it is ------------------------------------------------------------------------------------

    def activate(self) -> None:
        """Open the segment for appends, behind what the file has so far."""
        self._disk.files.create(self.path)
        self._is_active = True
        for _, first in self.headers_from(0):
            self.first_timestamp_ms = first.max_timestamp
            break

    def load_when_used(self) -> None:
        """Take over a segment that was flushed, or closed in order, and has others after it. Its indexes are loaded
        when they are first used, which for most segments is not soon."""
        self.size_bytes = files.size_bytes(self.path)
        self._indexes = None

    @property
    def indexes(self) -> SegmentIndexes:
        if self._indexes is None:
            self._load(self.size_bytes, None)
        assert self._indexes is not None, "they are loaded"
        return self._indexes

    def load(self) -> int:
        """Load a segment that was flushed, or closed in order, with its indexes. Return the offset after its last
        batch.

        It walks the few batches from the last indexed one on, and checks the CRC of the last one, from whose header the
        offset is. Returns -1 if the batches don't end with the file, or that CRC is wrong. Raises OSError (EBADMSG) if
        no two reads of the last batch agree.
        """
        next_offset = self._load(files.size_bytes(self.path), None)
        return next_offset if self._is_last_batch_sound(next_offset) else -1

    def _is_last_batch_sound(self, next_offset: int) -> bool:
        if next_offset < 0 or not self.size_bytes:
            return next_offset >= 0
        file, at = self.file(), self._last_batch_at
        last = next(sound_batches(file, self.size_bytes, at, chunk_bytes=HEADERS_CHUNK_BYTES), None)
        return last is not None and last[1].next_offset == next_offset

    def shortened(self, offset: int, config: LogConfig) -> tuple[Segment, int]:
        """Return this segment without the batch that holds `offset` and all after it, and the offset where the log then
        ends: after the last batch that is left, as a start would find it.

        It is a second object over the same files, which its `trim` truncates. Until then, readers of this segment are
        not disturbed. Raises OSError, or CORRUPT_MESSAGE if a batch that is read on the way is damaged. Then this
        segment stays as it was.
        """
        if self._is_active:
            self.indexes.seal()  # then their files have what they hold in memory
            self.aborted.write()
        position = self.position_of(offset)
        if position is not None and self._header_at(position).base_offset < offset:
            # The cut seems to lie within a batch, which is rare. A wrong header would have a batch too many cut off.
            position = self._sound_position_of(offset, self._indexed_position(offset))
        before = offset if position is None else min(offset, self._header_at(position).base_offset)
        short = Segment(self.path.parent, self.base_offset, self._disk, config, self.created_at_ms)
        end_offset = short._load(self.size_bytes if position is None else position, before)
        return short, before if end_offset < 0 else end_offset

    def trim(self) -> None:
        """Cut the files to what this object knows of them, and open them for appends. Raises OSError."""
        self.activate()
        file = self.file()
        file.truncate(self.size_bytes)
        self._disk.sync(file)
        self.indexes.finish()

    def _load(self, size_bytes: int, before_offset: int | None) -> int:
        self.size_bytes = size_bytes
        indexes = self._new_indexes()
        try:
            indexes.load(self.size_bytes, before_offset)
        except IndexDamagedError as error:
            _logger.warning("%s; rebuilding the index from its segment", error)
            return self.rebuild_indexes()
        if not self._confirms(indexes.last_entry()):
            _logger.warning(
                "the last index entry of %s does not match the batch at its position; rebuilding the index", self.path
            )
            return self.rebuild_indexes()
        start = indexes.last_entry().position
        if start:
            indexes.resume()
        next_offset = self._note_from(start, indexes)
        if not start and before_offset is None and indexes.has_entries:
            indexes.finish()  # both or neither: otherwise one would be trusted from where the other ends
        self._indexes = indexes  # replaced as a whole, because another thread may be reading them
        return next_offset

    def begin_swap(self, like: Segment) -> None:
        """Become the segment that a cleaner has written to replace `like` and those before it.

        Raises OSError or KAFKA_STORAGE_ERROR. The swap then has to be withdrawn.
        """
        swap.decide(self.path, like.path, self._disk)
        self._swap = files.open_file(swap.path_of(self.path, SWAP))
        self.aborted = AbortedIndex(self.path, SWAP)
        self._load(self._swap.size_bytes(), None)

    def end_swap(self) -> None:
        """Finish the swap, because the replaced segments are gone. Raises OSError. The next start then finishes it."""
        swap.take_names(self.path)
        self._swap = None
        self.aborted = AbortedIndex(self.path)
        self._indexes = None  # they are loaded when they are used: retention may take the files at any moment

    def rebuild_indexes(self) -> int:
        """Rebuild both indexes from the headers of the batches (rule 59). Return the offset after the last one, or -1
        as `load` does."""
        indexes = self._new_indexes()
        next_offset = self._note_from(0, indexes)
        indexes.seal()
        self._indexes = indexes
        return next_offset

    def _note_from(self, start: int, indexes: SegmentIndexes) -> int:
        next_offset, end = self.base_offset, start
        for position, header in self.headers_from(start):
            _note(indexes, position, header)
            next_offset, end = header.next_offset, position + header.size_bytes
            self._last_batch_at = position
        return next_offset if end == self.size_bytes else -1

    def refill(self, batches: Iterator[tuple[int, BatchHeader]]) -> int:
        """Keep only `batches`, the sound ones of the file, and return the offset after the last one.

        What follows them is cut off, and both indexes are rebuilt.
        """
        file = files.open_file(self.path, write=True)
        self.size_bytes = 0
        indexes = self._indexes = self._new_indexes()
        next_offset = self.base_offset
        for position, header in batches:
            _note(indexes, position, header)
            next_offset, self.size_bytes = header.next_offset, position + header.size_bytes
        if self.size_bytes < file.size_bytes():
            file.truncate(self.size_bytes)
            self._disk.sync(file)
        indexes.finish()
        return next_offset

    # ---- writing ------------------------------------------------------------------------------------------------

    def append(
        self, buffers: Sequence[bytes | memoryview], size_bytes: int, batches: Sequence[PositionedBatch]
    ) -> None:
        """Write batches whose offsets are placed already. Raises KAFKA_STORAGE_ERROR and is then as before."""
        assert self._is_active, "appends go to the active segment"
        assert batches[-1].last_offset - self.base_offset <= MAX_INT32, "the log rolls before its indexes overflow"
        position, file = self.size_bytes, self._file_to_write()
        self._disk.append(file, buffers, position, size_bytes)
        try:
            for batch in batches:
                if position == 0:
                    self.first_timestamp_ms = batch.max_timestamp_ms
                self.indexes.note(position, *batch)
                position += batch.size_bytes
        except BaseException:  # indexes are hints; but bytes behind the log's end would be taken for batches
            self._disk.shorten(file, self.size_bytes)
            raise
        self.size_bytes = position

    def must_roll(
        self, size_bytes: int, last_offset: int, max_timestamp_ms: int, now_ms: int, config: LogConfig
    ) -> bool:
        """Return whether the batches to be appended belong into a new segment. An empty segment takes any size."""
        if last_offset - self.base_offset > MAX_INT32:
            return True
        if self.size_bytes == 0:
            return False
        if self.first_timestamp_ms >= 0:
            waited_ms = max_timestamp_ms - self.first_timestamp_ms
        else:
            waited_ms = now_ms - self.created_at_ms
        return (
            self.size_bytes + size_bytes > config.segment_bytes
            or waited_ms > config.segment_ms - self._jitter * min(config.segment_jitter_ms, config.segment_ms)
            or self.indexes.is_full(config.segment_index_bytes)
        )

    def seal(self) -> None:
        """End the appends to this segment. If a full disk keeps the indexes from their files, they stay in memory."""
        try:
            self.indexes.seal()
            self.aborted.write()
        except OSError as error:
            _logger.warning("the indexes of %s could not be written yet: %s", self.path, error.strerror)
        self._is_active = False

    def sync(self, *, sealed: bool) -> None:
        """fsync the batches and the index of aborted transactions. For a sealed segment, fsync the other indexes, too.

        For a thread. Raises OSError or OttlaError. The other indexes are only hints. But a start trusts the index of
        aborted transactions below the recovery point, which may reach the segment's end before the segment is sealed.
        """
        self._disk.sync(self.file())
        self.aborted.sync(self._disk)
        if sealed:
            self.indexes.sync(self._disk)

    def abandon(self) -> None:
        """Reject further appends, and close the file."""
        self._is_active = False
        self._disk.files.forget(self.path)

    def discard(self) -> None:
        """Rename the files away, the log first. If a crash leaves indexes alone, the next start removes them."""
        for path in (self.path, *(self.path.with_suffix(suffix) for suffix in BESIDE_LOG)):
            with suppress(FileNotFoundError):
                self._disk.discard(path)

    # ---- reading ------------------------------------------------------------------------------------------------

    def file(self) -> DataFile:
        """Return the segment's file. Raises FileNotFoundError if the segment has just been deleted."""
        return self._swap or self._disk.files.get(self.path, write=self._is_active)

    def _file_to_write(self) -> DataFile:
        try:
            return self.file()
        except OSError as error:
            raise self._disk.error(f"opening {self.path} (nothing was appended)", error) from error

    def open_file(self) -> DataFile | None:
        """Return the file if it is open already: opening it may wait for the disk."""
        return self._swap or self._disk.files.peek(self.path)

    def position_of(self, offset: int) -> int | None:
        """Return where the first batch starts that ends at or after `offset`, or None if all end before it.

        If no batch holds the offset, a clean has removed it, or a read has returned a wrong header of a batch that was
        passed over. Only the CRCs tell, so they are checked in this case. Raises CORRUPT_MESSAGE if one is wrong.
        """
        start = self._indexed_position(offset)
        for at, header in self.headers_from(start):
            if header.last_offset >= offset:
                return at if header.base_offset <= offset else self._sound_position_of(offset, start)
        return self._sound_position_of(offset, start)

    def _sound_position_of(self, offset: int, start: int) -> int | None:
        """Return what `position_of` returns, by sound batches alone. The walk begins at `start`."""
        return next((at for at, header in self.sound_batches_from(start) if header.last_offset >= offset), None)

    def _indexed_position(self, offset: int) -> int:
        """Return the position of a batch at or before the one that holds `offset`."""
        start = self.indexes.position_for(offset)
        if self._confirms(start):
            return start.position
        self._on_wrong_index()
        return 0

    def position_for_time(self, timestamp_ms: int) -> int:
        """Return where to begin the search for the first record of that time or later. No batch before it can have
        one."""
        entry = self.indexes.time_entry_for(timestamp_ms)
        position = self.position_of(entry.last_offset) if entry != NO_TIMESTAMP else 0
        for _, header in self.headers_from(position or 0):
            if entry in (NO_TIMESTAMP, (header.max_timestamp, header.last_offset)):
                return position or 0
            break
        self._on_wrong_index()
        return 0

    @property
    def is_short(self) -> bool:
        """It tells whether a lookup walks the whole segment, because it has only a few kilobytes."""
        return not self.indexes.has_entries

    def headers_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        return headers(self.file(), position, self.size_bytes)

    def settled_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        return settled_batches(self.file(), position, self.size_bytes)

    def sound_batches_from(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the batches from `position` on, with their CRCs checked. Raises CORRUPT_MESSAGE unless they reach the
        segment's end."""
        end, size_bytes = position, self.size_bytes
        for at, header in sound_batches(self.file(), size_bytes, position, chunk_bytes=HEADERS_CHUNK_BYTES):
            yield at, header
            end = at + header.size_bytes
        if end < size_bytes:
            raise corrupt(f"the sound batches of {self.path} end at {end} of {size_bytes}")

    @property
    def largest(self) -> TimestampOffset:
        """This is the largest timestamp in the segment and the last offset of its batch, or (-1, -1) if no batch has a
        timestamp."""
        return self.indexes.largest

    def oldest_timestamp_ms(self) -> int:
        """Return the timestamp of the first batch, -1 without one. The first call reads the disk."""
        if self.first_timestamp_ms < 0:
            self.first_timestamp_ms = next((header.max_timestamp for _, header in self.headers_from(0)), -1)
        return self.first_timestamp_ms

    def retention_timestamp_ms(self) -> int:
        """Return the time from which retention.ms counts: the largest timestamp, or else the file's last write (rule
        63)."""
        if self.largest.timestamp_ms >= 0:
            return self.largest.timestamp_ms
        return self.changed_at_ms()

    def changed_at_ms(self) -> int:
        """Return when the file was last written."""
        return files.modified_ns(self.path) // 1_000_000

    def _on_wrong_index(self) -> None:
        """Rebuild a sealed segment's indexes. An active segment's are left alone, because the writer is changing
        them."""
        if not self._is_active:
            _logger.warning("an index of %s points to a batch that does not exist; rebuilding the indexes", self.path)
            self.rebuild_indexes()

    def _confirms(self, entry: tuple[int, int]) -> bool:
        """Return whether the batch that an index entry names lies there."""
        last_offset, position = entry
        if position == 0:
            return True
        try:
            return self._header_at(position).last_offset == last_offset
        except OttlaError:
            return False

    def _header_at(self, position: int) -> BatchHeader:
        return read_header(self.file().read(position, HEADER_SIZE))

    def _new_indexes(self) -> SegmentIndexes:
        ending = SWAP if self._swap else ""
        return SegmentIndexes(self.path, self.base_offset, self._index_interval_bytes, ending=ending)


def ranges_of(segments: Sequence[Segment], end_offset: int) -> Ranges:
    """Return each segment with the offset after it, where the next one begins."""
    return list(zip(segments, (*(segment.base_offset for segment in segments[1:]), end_offset), strict=True))


def _note(indexes: SegmentIndexes, position: int, header: BatchHeader) -> None:
    """Note a batch that lies in the file already."""
    indexes.note(position, header.size_bytes, header.last_offset, header.max_timestamp)
