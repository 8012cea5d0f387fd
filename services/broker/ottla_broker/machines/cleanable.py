"""How much of a log may be compacted now, and whether it is worth it (rule 62, KIP-58, KIP-354). Pure.

Compaction takes records away for good, so it must stay below everything that may still change or is still needed:

* the active segment, which appends write to;
* the last stable offset, because a record above it may be truncated or aborted, and the older value is still the valid
  one;
* the recovery point, because a start has to find above it what was written (I35);
* records younger than min.compaction.lag.ms, whose readers may want every value.

A clean reads and writes whole segments however little it saves. So a log is cleaned only if the share of what was not
cleaned before is above min.cleanable.dirty.ratio, or if a record has waited longer than max.compaction.lag.ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla_broker.machines.offsets import LastStableOffset, RecoveryPoint


class SegmentFacts(NamedTuple):
    """What compaction needs to know of a segment. Times are functions, because they may have to be read from the
    disk."""

    base_offset: int
    next_offset: int
    size_bytes: int
    oldest_timestamp_ms: Callable[[], int]
    largest_timestamp_ms: Callable[[], int]


class CompactionLag(NamedTuple):
    """min.compaction.lag.ms and max.compaction.lag.ms."""

    least_ms: int
    most_ms: int


@dataclass(frozen=True, slots=True)
class Cleanable:
    """Everything from `first_dirty_offset` to before `end_offset` may be cleaned, in the first `segments` segments.

    `is_overdue` says that a record in it has waited longer than max.compaction.lag.ms.
    """

    first_dirty_offset: int
    end_offset: int
    segments: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """This is Kafka's measure: the share of dirty bytes in everything before the end."""
        return self.dirty_bytes / max(1, self.clean_bytes + self.dirty_bytes)

    def is_due(self, least_dirty_ratio: float) -> bool:
        return self.is_overdue or self.dirty_ratio > least_dirty_ratio


def cleanable(
    segments: Sequence[SegmentFacts],
    first_dirty_offset: int,
    last_stable_offset: LastStableOffset,
    recovery_point: RecoveryPoint,
    lag: CompactionLag,
    now_ms: int,
) -> Cleanable:
    """Return what may be cleaned. `segments` are all of a log except for the active one, oldest first."""
    start = segments[0].base_offset if segments else first_dirty_offset
    end_of_log = segments[-1].next_offset if segments else first_dirty_offset
    # Retention or DeleteRecords may have taken what was cleaned, and a truncation what was dirty. The log's start is
    # then the first offset of which nothing is known.
    dirty = first_dirty_offset if start <= first_dirty_offset <= end_of_log else start
    end, count, clean_bytes, dirty_bytes, overdue = dirty, 0, 0, 0, False
    for number, segment in enumerate(segments, start=1):
        if segment.next_offset <= dirty:
            clean_bytes += segment.size_bytes
            continue
        # The recovery point must cover the whole segment, because a swap replaces whole segments. The last stable
        # offset may lie within it: the clean then ends there.
        if max(segment.base_offset, dirty) >= last_stable_offset or segment.next_offset > recovery_point:
            break
        # The walk ends here and does not skip the segment: what is cleaned has to be one stretch, described by its end
        # alone.
        if lag.least_ms > 0 and segment.largest_timestamp_ms() > now_ms - lag.least_ms:
            break
        # A negative timestamp means that the segment's records have none, so none of them can be overdue.
        overdue = overdue or (lag.most_ms < now_ms and 0 <= segment.oldest_timestamp_ms() < now_ms - lag.most_ms)
        dirty_bytes += segment.size_bytes
        end, count = min(segment.next_offset, last_stable_offset), number
    return Cleanable(dirty, end, count, clean_bytes, dirty_bytes, overdue)
