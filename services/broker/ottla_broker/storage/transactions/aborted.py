"""The aborted transactions of one log, for readers of committed records (rule 38)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_broker.storage.log_segments import LogSegments
from ottla_broker.storage.producer_history import ProducerHistory
from ottla_broker.storage.reading import BatchReader
from ottla_broker.storage.segment import Segment


class AbortedTransactions:
    def __init__(self, segments: LogSegments, history: ProducerHistory) -> None:
        self._segments: Final = segments
        self._history: Final = history

    def may_end_after(self, offset: int) -> bool:
        """Return whether an aborted transaction may end at or after `offset`. If not, `between` finds none from there
        on. It reads nothing."""
        return offset < self._history.aborts_before

    def between(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap the records in [start, end). For a thread.

        Raises OFFSET_OUT_OF_RANGE if the log begins behind `start` by now, or KAFKA_STORAGE_ERROR.
        """

        def find(_: BatchReader, segments: Sequence[Segment]) -> list[AbortedTransaction]:
            found: list[AbortedTransaction] = []
            first = max(0, bisect_right(segments, start, key=lambda segment: segment.base_offset) - 1)
            for segment in segments[first:]:
                if segment.base_offset >= self._history.aborts_before or segment.aborted.collect(start, end, found):
                    break
            if start < self._segments.start_offset:  # the segments that were read may have been gone
                raise self._segments.out_of_range(start)
            return found

        return self._segments.undisturbed(start, find)
