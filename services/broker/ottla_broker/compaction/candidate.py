"""A log as a clean finds it. It says how much of the log may be cleaned and makes the job, and puts the results into
their place."""

from __future__ import annotations

from dataclasses import dataclass

from ottla_broker.compaction.job import CleanedGroup, CleaningJob, CleaningResult, SourceSegment
from ottla_broker.compaction.offset_map import bytes_for
from ottla_broker.compaction.room import Room
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.machines.cleanable import Cleanable, CompactionLag, SegmentFacts, cleanable
from ottla_broker.machines.offsets import LastStableOffset, RecoveryPoint
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import MAX_INT64, LogConfig
from ottla_broker.storage.segment import Ranges, ranges_of
from ottla_core.errors import ErrorCode, OttlaError


class OvertakenError(Exception):
    """A truncation has taken segments that a clean was working on, so what the clean has written no longer fits."""


@dataclass(slots=True)
class Candidate:
    """The part of a log that may be cleaned, as it was after `truncations` truncations.

    `sources` are the segments of `part` that a clean has not passed yet.
    """

    log: Log
    part: Cleanable
    sources: Ranges
    truncations: int

    @classmethod
    def of(
        cls, log: Log, last_stable_offset: LastStableOffset, now_ms: int, recovery_point: RecoveryPoint | None = None
    ) -> Candidate:
        """Find what may be cleaned of a log with this recovery point, or with the one that is known to be on disk.

        It has to be called in a thread if `reads_disk`. Raises OSError or KAFKA_STORAGE_ERROR.
        """
        if recovery_point is None:
            recovery_point = log.compaction.recovery_point
        lag = CompactionLag(log.config.min_compaction_lag_ms, log.config.max_compaction_lag_ms)
        sealed = _not_deleted(ranges_of(log.segments, log.log_end_offset)[:-1], log.log_start_offset)
        facts = [
            SegmentFacts(s.base_offset, end, s.size_bytes, s.oldest_timestamp_ms, s.retention_timestamp_ms)
            for s, end in sealed
        ]
        first_dirty_offset = max(log.compaction.first_dirty_offset, log.log_start_offset)
        part = cleanable(facts, first_dirty_offset, last_stable_offset, recovery_point, lag, now_ms)
        return cls(log, part, sealed[: part.segments], log.compaction.truncations)

    @staticmethod
    def reads_disk(config: LogConfig) -> bool:
        """Return whether the lag settings need the timestamps in segments, which have to be read for them."""
        return config.min_compaction_lag_ms > 0 or config.max_compaction_lag_ms < MAX_INT64

    @property
    def is_secured(self) -> bool:
        """Return whether the recovery point on disk covers all segments to be cleaned."""
        return not self.sources or self.sources[-1][1] <= self.log.compaction.recovery_point

    @property
    def is_unchanged(self) -> bool:
        """Return whether the log still has every segment that was to be cleaned."""
        return self.is_unchanged_by_truncation and {s for s, _ in self.sources} <= {*self.log.segments}

    @property
    def is_unchanged_by_truncation(self) -> bool:
        return self.log.compaction.truncations == self.truncations

    def job(self, settings: CleanerSettings, now_ms: int, purge_limit: int = MAX_INT64) -> CleaningJob:
        """Write the segments' indexes of aborted transactions, and return the job of a worker, which keeps tombstones
        and markers at or after `purge_limit`. For a thread.

        Raises OSError if an index can't be written, and KAFKA_STORAGE_ERROR if there is no room for the largest
        segment.
        """
        room = Room(self.log.directory)
        largest = max((segment.size_bytes for segment, _ in self.sources), default=0)
        room.check(largest)
        log, part = self.log, self.part
        # in all of them, because markers of cleaned records may lie behind the cleaned part
        for segment in log.segments:
            segment.aborted.write()
        return CleaningJob(
            directory=log.directory,
            segments=[SourceSegment(segment.base_offset, end, segment.size_bytes) for segment, end in self.sources],
            log_start_offset=log.log_start_offset,
            first_dirty_offset=part.first_dirty_offset,
            end_offset=part.end_offset,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            segment_bytes=min(log.config.segment_bytes, max(largest, room.usable_bytes // 2)),
            segment_index_bytes=log.config.segment_index_bytes,
            index_interval_bytes=log.config.index_interval_bytes,
            map_bytes=min(settings.map_bytes, bytes_for(part.end_offset - part.first_dirty_offset)),
            most_bytes_per_s=settings.most_bytes_per_s,
            newest_batches=log.producers.newest_batches(),
            drops_keyless=log.config.drops_keyless,
            purge_limit=purge_limit,
        )

    def check_progress(self, result: CleaningResult, settings: CleanerSettings) -> None:
        """Raise KAFKA_STORAGE_ERROR if the next clean would come no further either."""
        if result.end_offset <= self.part.first_dirty_offset:
            raise OttlaError(
                ErrorCode.KAFKA_STORAGE_ERROR,
                f"the keys of a single batch don't fit into an offset map of {settings.map_bytes} bytes",
                hint="raise log.cleaner.dedupe.buffer.size, or lower log.cleaner.threads: the threads share the buffer",
            )

    def hold(self) -> None:
        """Keep retention from the segments to be cleaned, until `release`."""
        if self.sources:
            self.log.compaction.hold(self.sources[0][0].base_offset)

    def release(self) -> None:
        self.log.compaction.release()

    def swap(self, group: CleanedGroup) -> int:
        """Put a cleaned group in its place, and return how many bytes that has saved. For a thread.

        Raises OvertakenError if its sources are no longer there, and what `Compaction.swap` raises.
        """
        sources = [segment for segment, end in self.sources if end <= group.next_offset]
        before = sum(segment.size_bytes for segment in sources)
        if group.segment is None:
            return 0
        if not self.log.compaction.swap(sources, self.log.config, group.purged_before):
            raise OvertakenError
        return before - group.segment.size_bytes

    def on_passed(self, group: CleanedGroup) -> None:
        """Note that the group is in its place. Everything before its end is compacted now, since everything before the
        group was.

        A clean begins with the oldest segment, so it passes the part that was clean before it reaches the new part.
        """
        if not self.is_unchanged_by_truncation:
            raise OvertakenError
        self.sources = [each for each in self.sources if each[1] > group.next_offset]
        self.log.compaction.hold(group.next_offset)
        if group.clean_to > self.part.first_dirty_offset:
            self.log.compaction.on_cleaned(group.clean_to, self.truncations)


def _not_deleted(segments: Ranges, log_start_offset: int) -> Ranges:
    """Return the segments that do not lie before the log's start with all of their records.

    A segment whose records are all deleted only waits for retention. If all sealed segments do, counting them as dirty
    would have them cleaned again and again.
    """
    return [each for each in segments if each[1] > log_start_offset]
