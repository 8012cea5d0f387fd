"""How far one log is compacted, and how cleaned segments replace their sources (rule 62).

Nothing at or above the recovery point is compacted. A start reads the batches above it to learn which leader epochs and
transactions begin and end there; what a clean takes away would be missing (ADR 0023).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Final

from ottla_broker.machines.offsets import NOTHING_FLUSHED, RecoveryPoint
from ottla_broker.storage import swap
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
        lock: Lock,
        cleaned_before: int,
        on_replaced: Callable[[Sequence[int]], None],
    ) -> None:
        self.first_dirty_offset = 0
        """All before it is compacted; of the rest nothing is known."""
        self.failure = ""
        """Why the log can't be compacted; empty where nothing is known of that."""
        self.recovery_point = NOTHING_FLUSHED
        """The recovery point on disk, as far as it is known here: a start begins at it, or above."""
        self.cleaned_before = cleaned_before
        """No clean, of this process or of an earlier one, has taken anything at or after it."""
        self.truncations = 0
        """A cleaning that one of them has overtaken is no longer one of this log."""
        self.held_from = MAX_INT64
        """A running cleaning reads the segments from this offset on. Retention and DeleteRecords leave those alone, and
        take only segments that it has passed."""
        self._segments: Final = segments
        self._disk: Final = disk
        self._lock: Final = lock
        self._on_replaced: Final = on_replaced

    def on_truncated(self, end_offset: int) -> None:
        """Other records come from there on."""
        self.truncations += 1
        self.first_dirty_offset = min(self.first_dirty_offset, end_offset)
        self.recovery_point = RecoveryPoint(min(self.recovery_point, end_offset))
        self.cleaned_before = min(self.cleaned_before, end_offset)

    def on_secured(self, recovery_point: RecoveryPoint, truncations: int) -> None:
        """Note the recovery point that is in the checkpoint on disk, unless the log was truncated meanwhile."""
        with self._lock:
            if truncations == self.truncations:
                self.recovery_point = recovery_point
                self.cleaned_before = max(self.cleaned_before, recovery_point)

    def on_cleaned(self, end_offset: int, truncations: int) -> None:
        """The log is cleaned up to `end_offset`, unless it has been truncated since."""
        if truncations == self.truncations:
            self.first_dirty_offset = end_offset

    def hold(self, base_offset: int) -> None:
        """A cleaning begins, or goes on, with the segment that begins there."""
        self.held_from = base_offset

    def release(self) -> None:
        """No cleaning runs any more."""
        self.held_from = MAX_INT64

    def swap(self, sources: Sequence[Segment], config: LogConfig) -> bool:
        """Put what a cleaner has made of `sources` in their place; whether they were all there still.

        For a thread, beside appends and reads; a truncation or a flush that runs is waited for. Readers see the ones or
        the other. Raises KAFKA_STORAGE_ERROR: the log is as it was, or else the directory is offline, and a start
        finishes what was decided.
        """
        first = sources[0]
        cleaned = Segment(first.path.parent, first.base_offset, self._disk, config, first.created_at_ms)
        with self._lock:
            self._segments.check_open()
            try:
                is_swapped = self._swap(sources, cleaned)
            except OSError as error:
                raise self._disk.fail(f"swapping {cleaned.path}", error) from error
        self._disk.unlink_discarded()  # the next cleaned segment may need their room
        return is_swapped

    def _swap(self, sources: Sequence[Segment], cleaned: Segment) -> bool:
        end_offset = self._segments.end_of(sources)
        if end_offset is None:  # a crash in between would bring back what was truncated
            swap.withdraw(cleaned.path, self._disk)
            return False
        assert end_offset <= self.recovery_point, f"I35: a start recovers from {self.recovery_point}, not {end_offset}"
        try:
            cleaned.begin_swap(sources[-1])
        except (OSError, OttlaError) as error:  # the log goes on: no start may find in its place what it is by now
            swap.withdraw(cleaned.path, self._disk)
            if isinstance(error, OSError):
                raise self._disk.error(f"swapping {cleaned.path}", error) from error
            raise
        if not self._segments.exchange(sources, cleaned):
            swap.withdraw(cleaned.path, self._disk)
            return False
        for segment in reversed(sources):
            segment.discard()
        cleaned.end_swap()
        self._on_replaced([segment.base_offset for segment in sources[1:]])
        if cleaned not in self._segments.segments:
            cleaned.discard()  # retention took it before its files had their names
        return True
