"""The rules of compaction, broken on purpose in brokers: each must be found by the row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final

from tests.faults.put_in_place import put_in_place

import ottla_broker.compaction.candidate
import ottla_broker.storage.swap
from ottla_broker.machines.cleanable import Cleanable, CompactionLag, SegmentFacts, cleanable
from ottla_broker.machines.offsets import LastStableOffset, RecoveryPoint
from ottla_broker.machines.producers import Producers
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import MAX_INT64
from ottla_broker.storage.log_segments import LogSegments
from ottla_broker.storage.reading import BatchReader
from ottla_broker.storage.segment import Ranges, Segment, ranges_of


def _active_segment_cleaned() -> None:
    """The active segment is cleaned, and loses what is appended meanwhile. The recovery point, which bounds what is
    cleaned, is taken to be the log's end."""
    end_swap = Segment.end_swap

    def secured(self: Log) -> RecoveryPoint:
        self.compaction.on_secured(RecoveryPoint(self.log_end_offset), self.compaction.truncations)
        return self.compaction.recovery_point

    def all_and_one(segments: Sequence[Segment], end_offset: int) -> Ranges:
        ranges = ranges_of(segments, end_offset)
        return [*ranges, ranges[-1]]  # the last one is taken for the active one

    def index_of(self: LogSegments, sources: Sequence[Segment]) -> int | None:
        return self.segments.index(sources[0]) if {*sources} <= {*self.segments} else None

    def end_swap_as_active(self: Segment) -> None:
        end_swap(self)
        self.activate()

    put_in_place(ottla_broker.compaction.candidate, "ranges_of", all_and_one)
    put_in_place(Log, "secure_sealed", secured)
    put_in_place(Log, "next_recovery_point", property(lambda self: RecoveryPoint(self.log_end_offset)))
    put_in_place(LogSegments, "index_of", index_of)
    put_in_place(LogSegments, "end_of", lambda self, sources: sources[-1].base_offset)
    put_in_place(Segment, "end_swap", end_swap_as_active)


def _last_batch_of_a_producer_dropped() -> None:
    put_in_place(Producers, "newest_batches", lambda self: frozenset())


def _swap_without_recovery() -> None:
    """A start takes a swap that was decided for something half done."""
    put_in_place(ottla_broker.storage.swap, "finish_all", lambda directory, names: None)


def _cleaned_above_the_last_stable_offset() -> None:
    """What is not committed supersedes what is."""

    def all_stable(
        segments: Sequence[SegmentFacts],
        first_dirty_offset: int,
        last_stable_offset: int,
        recovery_point: RecoveryPoint,
        lag: CompactionLag,
        now: int,
    ) -> Cleanable:
        return cleanable(segments, first_dirty_offset, LastStableOffset(MAX_INT64), recovery_point, lag, now)

    put_in_place(ottla_broker.compaction.candidate, "cleanable", all_stable)


def _reader_keeps_the_old_files_place() -> None:
    """After a swap a reader goes on in the new file where it was in the old one."""
    put_in_place(BatchReader, "without", lambda self, segments: self)


MUTANTS: Final = MappingProxyType[str, Callable[[], None]](
    {
        "active-segment-cleaned": _active_segment_cleaned,
        "last-batch-of-a-producer-dropped": _last_batch_of_a_producer_dropped,
        "swap-without-recovery": _swap_without_recovery,
        "cleaned-above-the-last-stable-offset": _cleaned_above_the_last_stable_offset,
        "reader-keeps-the-old-files-place": _reader_keeps_the_old_files_place,
    }
)
