"""This module judges what brokers must do by themselves: clean compacted logs, and apply retention.

If they did neither, no record would be lost, so no judge of records would notice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from tests.faults.put_in_place import put_in_place
from tests.world.findings import Findings

from ottla_broker.compaction.candidate import Candidate, OvertakenError
from ottla_broker.compaction.job import CleanedGroup, CleaningJob, CleaningResult
from ottla_broker.compaction.settings import CleanerSettings
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import MAX_INT64

LEAST_DIRTY_RATIO: Final = 0.01
_TIDIED_S: Final = 5.0
"""Retention has run within this time, which is longer than its interval."""


class SegmentOnDisk(NamedTuple):
    """A segment has the keys of its records, and the time when the newest one was written, or -1 without records."""

    size_bytes: int
    keys: Sequence[bytes]
    newest_at: float


class Retention(NamedTuple):
    """This has the retention.ms, in seconds, and the retention.bytes of a topic. -1 turns a limit off."""

    seconds: float
    size_bytes: int

    @property
    def is_limited(self) -> bool:
        return self.seconds >= 0 or self.size_bytes >= 0

    def may_delete(self, written_at: float, now: float) -> bool:
        """Return whether retention may have deleted a record that was written at this time, and all before it."""
        return self.size_bytes >= 0 or 0 <= self.seconds <= now - written_at

    def is_due(self, segments: Sequence[SegmentOnDisk], now: float) -> bool:
        """Return whether the first segment of a log should have been deleted by now."""
        first, *others = segments
        is_old = first.newest_at >= 0 and 0 <= self.seconds < now - first.newest_at - _TIDIED_S
        return is_old or 0 <= self.size_bytes <= sum(each.size_bytes for each in others)


def is_dirty(segments: Sequence[SegmentOnDisk]) -> bool:
    """Return whether a log is due to be cleaned.

    A key is twice in its sealed segments then, and not only in a small part at their end.
    """
    sealed, keys = segments[:-1], set[bytes]()
    for number, segment in enumerate(sealed):
        before = len(keys)
        keys.update(segment.keys)
        if len(keys) < before + len(segment.keys):
            return _bytes_of(sealed[number:]) > LEAST_DIRTY_RATIO * _bytes_of(sealed)
    return False


def _bytes_of(segments: Iterable[SegmentOnDisk]) -> int:
    return sum(each.size_bytes for each in segments)


def watch_cleanings(findings: Findings) -> None:
    """Report each cleaning that comes no further than the one before it, or that loses its segments.

    A truncation excuses both.
    """
    swap, job, check_progress = Candidate.swap, Candidate.job, Candidate.check_progress
    cleaned: dict[Log, tuple[int, int]] = {}

    def watched(self: Candidate, group: CleanedGroup) -> int:
        try:
            return swap(self, group)
        except OvertakenError:
            if self.is_unchanged_by_truncation:
                findings.violate("a cleaning has lost its segments to something other than a truncation")
            raise

    def begun(self: Candidate, settings: CleanerSettings, now_ms: int, purge_limit: int = MAX_INT64) -> CleaningJob:
        if cleaned.get(self.log) == (self.part.end_offset, self.truncations):
            findings.violate(f"a log is cleaned up to {self.part.end_offset} for a second time")
        return job(self, settings, now_ms, purge_limit)

    def ended(self: Candidate, result: CleaningResult, settings: CleanerSettings) -> None:
        cleaned[self.log] = (result.end_offset, self.truncations)
        check_progress(self, result, settings)

    put_in_place(Candidate, "swap", watched)
    put_in_place(Candidate, "job", begun)
    put_in_place(Candidate, "check_progress", ended)
