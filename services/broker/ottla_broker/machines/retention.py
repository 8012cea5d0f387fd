"""The oldest segments that may go now: whole segments, from the front, below the high watermark (rule 63).

Time looks at the largest timestamp in a segment, so a record from the future pins its segment and those after it.
message.timestamp.after.max.ms bounds how far (KIP-937). Size keeps at least retention.bytes. A segment whose records
all lie below the log start offset goes in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple

from ottla_broker.machines.offsets import HighWatermark


class SegmentFacts(NamedTuple):
    """What retention needs of a segment. Without timestamps, `largest_timestamp_ms` is when the file last changed.

    It is looked up only for the oldest segments, because it may have to be read from the disk.
    """

    next_offset: int
    size_bytes: int
    largest_timestamp_ms: Callable[[], int]


class DeletionCause(Enum):
    """Why a segment goes. The text is for the log line."""

    LOG_START = "all of its records are deleted"
    TIME = "retention.ms has passed since its newest record"
    SIZE = "the log is larger than retention.bytes without it"


def decide(
    segments: Sequence[SegmentFacts],
    *,
    log_start_offset: int,
    high_watermark: HighWatermark,
    now_ms: int,
    retention_ms: int,
    retention_bytes: int,
) -> list[DeletionCause]:
    """Return one cause for each leading segment that is to go. -1 turns a limit off.

    The last of `segments` is the active one. If it is to go, too, the log rolls first. An empty active segment stays.
    """
    causes: list[DeletionCause] = []
    size_bytes = sum(segment.size_bytes for segment in segments)
    for number, segment in enumerate(segments, start=1):
        active = number == len(segments)
        if segment.next_offset > high_watermark or (active and segment.size_bytes == 0):
            break
        size_bytes -= segment.size_bytes
        if segment.next_offset <= log_start_offset and not active:
            causes.append(DeletionCause.LOG_START)
        elif 0 <= retention_ms < now_ms - segment.largest_timestamp_ms():
            causes.append(DeletionCause.TIME)
        elif 0 <= retention_bytes <= size_bytes:
            causes.append(DeletionCause.SIZE)
        else:
            break
    return causes
