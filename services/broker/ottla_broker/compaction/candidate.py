"""A log as a clean finds it: how much of it may be cleaned, the job, and what comes of it put into its place."""

from __future__ import annotations

from dataclasses import dataclass

from ottla_broker.compaction.job import CleanedSegment, CleaningJob, CleaningResult, SourceSegment
from ottla_broker.compaction.offset_map import bytes_for
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.machines.cleanable import Cleanable, CompactionLag, SegmentFacts, cleanable
from ottla_broker.machines.offsets import LastStableOffset, RecoveryPoint
from ottla_broker.storage.log import Log
from ottla_broker.storage.segment import Ranges, ranges_of
from ottla_core.errors import ErrorCode, OttlaError


@dataclass(frozen=True, slots=True)
class Candidate:
    """`sources` are the segments that `part` is of, the log having been truncated `truncations` times."""

    log: Log
    part: Cleanable
    sources: Ranges
    truncations: int

    @classmethod
    def of(
        cls, log: Log, last_stable_offset: LastStableOffset, now_ms: int, recovery_point: RecoveryPoint | None = None
    ) -> Candidate:
        """Find what may be cleaned of a log with that recovery point; None: the one that is known to be on disk.

        May read the oldest batch of segments. Raises OSError or KAFKA_STORAGE_ERROR.
        """
        if recovery_point is None:
            recovery_point = log.compaction.recovery_point
        lag = CompactionLag(log.config.min_compaction_lag_ms, log.config.max_compaction_lag_ms)
        sealed = ranges_of(log.segments, log.log_end_offset)[:-1]
        facts = [
            SegmentFacts(s.base_offset, end, s.size_bytes, s.oldest_timestamp_ms, s.retention_timestamp_ms)
            for s, end in sealed
        ]
        first_dirty_offset = max(log.compaction.first_dirty_offset, log.log_start_offset)
        part = cleanable(facts, first_dirty_offset, last_stable_offset, recovery_point, lag, now_ms)
        return cls(log, part, sealed[: part.segments], log.compaction.truncations)

    @property
    def is_secured(self) -> bool:
        """Whether the recovery point on disk covers all of its segments."""
        return not self.sources or self.sources[-1][1] <= self.log.compaction.recovery_point

    @property
    def is_unchanged(self) -> bool:
        """Whether the log is still what it was."""
        log = self.log
        return log.compaction.truncations == self.truncations and all(s in log.segments for s, _ in self.sources)

    def job(self, settings: CleanerSettings, now_ms: int) -> CleaningJob:
        """Raises OSError where what belongs to the segments can't be written."""
        log, part = self.log, self.part
        for segment in log.segments:  # all of them: markers of what is cleaned may lie behind it
            segment.aborted.write()
        return CleaningJob(
            directory=log.directory,
            segments=[SourceSegment(segment.base_offset, end, segment.size_bytes) for segment, end in self.sources],
            log_start_offset=log.log_start_offset,
            first_dirty_offset=part.first_dirty_offset,
            end_offset=part.end_offset,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            segment_bytes=log.config.segment_bytes,
            segment_index_bytes=log.config.segment_index_bytes,
            index_interval_bytes=log.config.index_interval_bytes,
            map_bytes=min(settings.map_bytes, bytes_for(part.end_offset - part.first_dirty_offset)),
            most_bytes_per_s=settings.most_bytes_per_s,
            newest_batches=log.producers.newest_batches(),
        )

    def check_progress(self, result: CleaningResult, settings: CleanerSettings) -> None:
        """Raise KAFKA_STORAGE_ERROR where the next clean would come no further either."""
        if result.end_offset <= self.part.first_dirty_offset:
            raise OttlaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the keys of not even one batch fit into an offset map of {settings.map_bytes} bytes",
                hint="raise log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads, which share it",
            )

    def swap(self, cleaned: CleanedSegment) -> int | None:
        """How many bytes less there are with it; None where its sources are not there any more. For a thread.

        Raises what `Compaction.swap` raises."""
        by_offset = {segment.base_offset: segment for segment, _ in self.sources}
        replaced = [by_offset[base_offset] for base_offset in cleaned.replaced]
        before = sum(segment.size_bytes for segment in replaced)
        return before - cleaned.size_bytes if self.log.compaction.swap(replaced, self.log.config) else None
