"""How far one log is compacted, and how cleaned segments replace their sources (rule 62).

A cleaner in another process writes new segments beside the old ones. Meanwhile the log is appended to, read, flushed,
truncated and shortened by retention. Two questions follow.

*What may be cleaned?* Nothing at or above the recovery point on disk (I35). A start reads the batches above it to learn
which leader epochs and transactions begin and end there, and takes them to be all that was written. So it would miss
what a clean has removed (ADR 0023).

*When may a cleaned segment replace its sources?* While the log still has all of them. A truncation in between has given
their offsets to other records, so the cleaned segment is withdrawn. The swap is decided on disk before a source goes,
so a crash at any moment leaves the old segments or the new one (module swap). Readers see one or the other, because
`LogSegments` replaces its tuple of segments in one step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import PurePath
from threading import Lock
from typing import Final

from ottla_broker.machines.offsets import NOTHING_FLUSHED, RecoveryPoint
from ottla_broker.storage import checkpoint, swap
from ottla_broker.storage.disk import Disk
from ottla_broker.storage.log_config import MAX_INT64, LogConfig
from ottla_broker.storage.log_segments import LogSegments
from ottla_broker.storage.segment import Segment
from ottla_core.errors import OttlaError


class Compaction:
    def __init__(
        self,
        segments: LogSegments,
        disk: Disk,
        directory: PurePath,
        lock: Lock,
        cleaned_before: int,
        on_replaced: Callable[[Sequence[int]], None],
    ) -> None:
        self.first_dirty_offset = 0
        """All before it is compacted. A start forgets it, since another clean of clean segments does no harm."""
        self.failure = ""
        """It says why the log can't be compacted. It is empty while no clean has failed."""
        self.recovery_point = NOTHING_FLUSHED
        """A lower bound of the recovery point on disk: a start begins to read there, or above."""
        self.cleaned_before = cleaned_before
        """No clean, of this process or of an earlier one, has taken anything at or after it."""
        self.truncations = 0
        """Counts truncations. A cleaning that began under a lower count has read records that are gone."""
        self.held_from = MAX_INT64
        """A running cleaning reads the segments from this offset on. Retention and DeleteRecords leave those alone, and
        take only segments that it has passed."""
        self._purges: Final = directory / checkpoint.PURGED
        self.purged_before = checkpoint.read_purged(self._purges)
        """Tombstones and markers before this offset may be gone. A replica that ends before it may still have what they
        were about, and would keep it (I16). It never goes back."""
        self.is_purging = False
        """It tells whether a swap is about to take tombstones or markers."""
        self._segments: Final = segments
        self._disk: Final = disk
        self._lock: Final = lock
        self._on_replaced: Final = on_replaced

    def on_truncated(self, end_offset: int) -> None:
        """Forget what was known from `end_offset` on, because other records will come there."""
        self.truncations += 1
        self.first_dirty_offset = min(self.first_dirty_offset, end_offset)
        self.recovery_point = RecoveryPoint(min(self.recovery_point, end_offset))
        self.cleaned_before = min(self.cleaned_before, end_offset)

    def on_secured(self, recovery_point: RecoveryPoint, truncations: int) -> None:
        """Note the recovery point that is in the checkpoint on disk, unless the log was truncated in the meantime."""
        with self._lock:
            if truncations == self.truncations:
                self.recovery_point = recovery_point
                self.cleaned_before = max(self.cleaned_before, recovery_point)

    def on_cleaned(self, end_offset: int, truncations: int) -> None:
        """Note that the log is cleaned up to `end_offset`, unless it has been truncated since."""
        if truncations == self.truncations:
            self.first_dirty_offset = end_offset

    def hold(self, base_offset: int) -> None:
        """Keep retention from the segments from this one on, because a cleaning reads them."""
        self.held_from = base_offset

    def release(self) -> None:
        """Give all segments back to retention, because no cleaning runs any more."""
        self.held_from = MAX_INT64

    def purge(self, before: int) -> None:
        """Note that tombstones and markers before this offset go, or are gone from the log that this one copies. With
        the lock held. Raises KAFKA_STORAGE_ERROR.

        It is on disk before they are gone, and known before a reader misses them.
        """
        if before > self.purged_before:
            checkpoint.write_purged(self._disk, self._purges, before)
            self.purged_before = before

    def swap(self, sources: Sequence[Segment], config: LogConfig, purged_before: int = 0) -> bool:
        """Replace `sources` with what a cleaner has made of them, which lacks tombstones or markers before
        `purged_before`. Return whether the log still had all of them.

        It runs in a thread, beside appends and reads, and waits for a truncation or a flush that runs. Readers see the
        old segments or the new one. Raises KAFKA_STORAGE_ERROR: then either the log is as it was, or the directory is
        offline and a start finishes what was decided.
        """
        first = sources[0]
        cleaned = Segment(first.path.parent, first.base_offset, self._disk, config, first.created_at_ms)
        with self._lock:
            self._segments.check_open()
            self.purge(purged_before)
            try:
                is_swapped = self._swap(sources, cleaned)
            except OSError as error:
                # Half of a swap is no log. Only a start can finish it, so the directory goes offline.
                raise self._disk.fail(f"swapping {cleaned.path}", error) from error
        self._disk.unlink_discarded()  # the next cleaned segment may need their room
        return is_swapped

    def _swap(self, sources: Sequence[Segment], cleaned: Segment) -> bool:
        end_offset = self._segments.end_of(sources)
        # A truncation took some of the sources. If the cleaned files stayed, a crash would bring back its records.
        if end_offset is None:
            swap.withdraw(cleaned.path, self._disk)
            return False
        assert end_offset <= self.recovery_point, f"I35: a start recovers from {self.recovery_point}, not {end_offset}"
        try:
            cleaned.begin_swap(sources[-1])
        # Appends go on while the swap has failed. A later start must not find the cleaned files, and put them in the
        # place of what the log has become.
        except (OSError, OttlaError) as error:
            swap.withdraw(cleaned.path, self._disk)
            if isinstance(error, OSError):
                raise self._disk.error(f"swapping {cleaned.path}", error) from error
            raise
        # The exchange looks again, in the step that replaces the tuple. Retention runs on the loop without this lock,
        # and only `held_from` keeps it from the sources.
        if not self._segments.exchange(sources, cleaned):
            swap.withdraw(cleaned.path, self._disk)
            return False
        # The newest source goes first: a crash in between leaves the oldest ones, which the decided swap replaces
        # anyway.
        for segment in reversed(sources):
            segment.discard()
        cleaned.end_swap()
        # The snapshots at the bases of joined segments go, or each clean would leave some until the next restart (I38).
        self._on_replaced([segment.base_offset for segment in sources[1:]])
        if cleaned not in self._segments.segments:
            cleaned.discard()  # retention took it before its files had their names
        return True
