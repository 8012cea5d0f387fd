"""How much of a log may be compacted now, and whether it is worth it (rule 62, KIP-58, KIP-354). Pure.

The active segment is never compacted, and neither is anything at or above the last stable offset, anything younger than
min.compaction.lag.ms, or a segment that ends above the recovery point: a start has to find there what was written.
A log is cleaned where the share of what was not cleaned before is above min.cleanable.dirty.ratio, or where a record
waits longer than max.compaction.lag.ms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ottla_broker.machines.offsets import LastStableOffset, RecoveryPoint


class SegmentFacts(NamedTuple):
    """What compaction needs to know of a segment; times are looked up only if they matter: they may have to be read."""

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
    """All from `first_dirty_offset` to before `end_offset` may be cleaned, of the first `segments` segments.

    `is_overdue`: a record in it waits longer than max.compaction.lag.ms.
    """

    first_dirty_offset: int
    end_offset: int
    segments: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """By Kafka's measure: of all that lies before the end."""
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
    """`segments` are all of a log but the active one, oldest first.

    A first dirty offset that lies outside of the log, for retention or DeleteRecords took what was there, is where the
    log begins.
    """
    start = segments[0].base_offset if segments else first_dirty_offset
    end_of_log = segments[-1].next_offset if segments else first_dirty_offset
    dirty = first_dirty_offset if start <= first_dirty_offset <= end_of_log else start
    end, count, clean_bytes, dirty_bytes, overdue = dirty, 0, 0, 0, False
    for number, segment in enumerate(segments, start=1):
        if segment.next_offset <= dirty:
            clean_bytes += segment.size_bytes
            continue
        if max(segment.base_offset, dirty) >= last_stable_offset or segment.next_offset > recovery_point:
            break
        if lag.least_ms > 0 and segment.largest_timestamp_ms() > now_ms - lag.least_ms:
            break
        overdue = overdue or (lag.most_ms < now_ms and 0 <= segment.oldest_timestamp_ms() < now_ms - lag.most_ms)
        dirty_bytes += segment.size_bytes
        end, count = min(segment.next_offset, last_stable_offset), number
    return Cleanable(dirty, end, count, clean_bytes, dirty_bytes, overdue)
