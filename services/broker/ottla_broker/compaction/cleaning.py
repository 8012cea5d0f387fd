"""A clean has two passes: one learns the newest offset of each key, the other writes what is left (rule 62).

The second pass goes from the oldest segment to the newest, group by group, and each group may replace its sources
before the next one is written. A group stays valid however the clean ends: before its end no record is left for which
the map has a newer one, and no clean takes that newer one away while it is the newest of its key.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ottla_broker.compaction.cleaned_file import CleanedFile
from ottla_broker.compaction.job import CleanedGroup, CleanedSegment, CleaningJob, CleaningResult
from ottla_broker.compaction.offset_map import SLOT_BYTES, OffsetMap
from ottla_broker.compaction.sources import Sources, aborted_in
from ottla_broker.compaction.survivors import NO_FENCE, Survival, check_keyless
from ottla_broker.compaction.throttle import Throttle
from ottla_broker.compaction.transactions import CleanedTransactions
from ottla_core.errors import OttlaError
from ottla_core.records.batch import BatchHeader
from ottla_core.records.fence import fence_of
from ottla_core.records.reader import sound_records


def clean(job: CleaningJob, take: Callable[[CleanedGroup], object] | None = None) -> CleaningResult:
    """Clean a log, and call `take` with each group. The callee owns the group's files from then on; without a `take`
    they are removed.

    Raises OSError, and OttlaError with the file and the position for what can't be compacted. Groups that were taken
    before stay valid, and no file of another group is left.
    """
    if not job.segments:
        return CleaningResult((), job.first_dirty_offset, 0, 0, 0, 0, 0, 0)
    return _Clean(job, take).run()


class _Clean:
    def __init__(self, job: CleaningJob, take: Callable[[CleanedGroup], object] | None) -> None:
        self._job: Final = job
        self._take: Final = take
        self._throttle: Final = Throttle(job.most_bytes_per_s)
        self._sources: Final = Sources(job, self._throttle)
        self._map: Final = OffsetMap(job.map_bytes)
        self._newest_fence = NO_FENCE
        self._transactions: Final = CleanedTransactions(aborted_in(job), job.newest_batches)
        self._file: CleanedFile | None = None
        """The file that is being written."""
        self._segments: Final[list[CleanedSegment]] = []
        self._purged_before = 0
        """The tombstones and markers that the group has lost lie before this offset."""
        self._bytes_written = self._records_read = self._records_kept = self._keyless = 0

    def run(self) -> CleaningResult:
        try:
            end_offset = self._learn()
            self._write(end_offset)
        except BaseException as error:
            if self._file is not None:
                self._file.remove()
            if isinstance(error, OttlaError):
                raise self._sources.located(error) from None
            raise
        return CleaningResult(
            segments=tuple(self._segments),
            end_offset=end_offset,
            bytes_read=self._sources.bytes_read,
            bytes_written=self._bytes_written,
            records_read=self._records_read,
            records_kept=self._records_kept,
            map_bytes_used=self._map.count * SLOT_BYTES,
            keyless=self._keyless,
        )

    # ---- the first pass ---------------------------------------------------------------------------------------------

    def _learn(self) -> int:
        """Put the dirty part into the map. Return where this clean ends."""
        job = self._job
        for segment in job.segments:
            if segment.base_offset >= job.end_offset:
                break
            if segment.next_offset <= job.first_dirty_offset:
                continue
            for header, batch in self._sources.batches(segment):
                if header.next_offset <= job.first_dirty_offset:
                    continue
                if header.next_offset > job.end_offset:
                    return min(job.end_offset, max(job.first_dirty_offset, header.base_offset))
                if (full_at := self._learn_batch(header, batch)) is not None:
                    return full_at
        return min(job.end_offset, job.segments[-1].next_offset)

    def _learn_batch(self, header: BatchHeader, batch: bytes) -> int | None:
        """Put a batch into the map. Return the first offset for which the map has no room, if there is one."""
        if header.is_control:
            if fence_of(batch) is not None:
                self._newest_fence = header.base_offset
            return None
        if self._transactions.are_void(header):
            return None
        first_offset, put = max(self._job.first_dirty_offset, self._job.log_start_offset), self._map.put
        for offset, _, key, _, _ in sound_records(header, batch):
            if offset < first_offset:
                continue
            if key is None:
                check_keyless(offset, drops=self._job.drops_keyless)
                self._keyless += 1
            elif not put(key, offset):
                return offset
        return None

    # ---- the second -------------------------------------------------------------------------------------------------

    def _write(self, end_offset: int) -> None:
        """Write the survivors, from the log's start to the end of the last segment that has something below
        `end_offset`."""
        job = self._job
        survival = Survival(
            self._map.get,
            self._newest_fence,
            job.log_start_offset,
            end_offset,
            now_ms=job.now_ms,
            delete_retention_ms=job.delete_retention_ms,
            transactions=self._transactions,
            drops_keyless=job.drops_keyless,
            purge_limit=job.purge_limit,
        )
        for segment in job.segments:
            if segment.base_offset >= end_offset:
                break
            if self._file is not None and not self._file.takes(segment):
                self._close(self._file, end_offset)
            if self._file is None:
                self._file = CleanedFile(job, segment.base_offset, self._throttle)
            self._file.stand_for(segment)
            for header, batch in self._sources.batches(segment):
                left = survival.of(header, batch)
                stays = bool(left.record_count) or header.base_offset >= end_offset
                self._file.add(header, batch, left, stays=stays or header.last_offset in job.newest_batches)
                self._records_read += header.record_count
                self._records_kept += left.record_count
                if left.record_count < header.record_count and survival.purges(header):
                    self._purged_before = header.next_offset
        if self._file is not None:
            self._close(self._file, end_offset)

    def _close(self, file: CleanedFile, end_offset: int) -> None:
        """Close the file of a group, and hand the group over."""
        segment = file.close()
        self._bytes_written += file.size_bytes
        if segment is not None:
            self._segments.append(segment)
        if self._take is None:
            file.remove()
        self._file = None
        if self._take is not None:
            purged_before, self._purged_before = self._purged_before, 0
            self._take(CleanedGroup(file.next_offset, min(file.next_offset, end_offset), segment, purged_before))
