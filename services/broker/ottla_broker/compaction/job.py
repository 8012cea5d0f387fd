"""The job of a cleaner's worker and its results, as lines of JSON between the broker and the worker.

The broker sends the job. The worker sends each group of segments that it has cleaned, and waits for an empty line
before it goes on with the next one. Its last line is the result of all.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

from ottla_broker.storage.log_config import MAX_INT64


@dataclass(frozen=True, slots=True)
class SourceSegment:
    """A segment that takes no more appends: the file `<base_offset>.log`, and the offset at which the next begins."""

    base_offset: int
    next_offset: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class CleaningJob:
    """`segments` are those of `directory` from the log's start on, oldest first, each beginning where the one before
    it ends.

    Nothing below `log_start_offset` is served any more. Below `first_dirty_offset` a log was cleaned before; nothing at
    or above `end_offset` is changed. `newest_batches` are the last offsets of the newest batch of each active
    idempotent producer (rule 30). `segment_bytes` bounds the segments of one group, and so the room that the
    clean needs on the disk; a single segment may be larger. `map_bytes` is the whole memory for the map.
    Tombstones and markers at or after `purge_limit` stay, however old they are.
    `most_bytes_per_s` bounds reads and writes together; 0 is no limit. Records without a key are dropped if
    `drops_keyless`; if not, a log that has one can't be cleaned.
    """

    directory: PurePath
    segments: Sequence[SourceSegment]
    log_start_offset: int
    first_dirty_offset: int
    end_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    index_interval_bytes: int
    map_bytes: int
    most_bytes_per_s: int
    newest_batches: frozenset[int]
    drops_keyless: bool
    purge_limit: int = MAX_INT64

    @classmethod
    def from_json(cls, text: str | bytes) -> CleaningJob:
        """Parse a job. Raises ValueError, KeyError or TypeError for a text that `to_json` did not write."""
        fields = json.loads(text)
        fields["directory"] = PurePath(fields["directory"])
        fields["segments"] = tuple(SourceSegment(**segment) for segment in fields["segments"])
        fields["newest_batches"] = frozenset(fields["newest_batches"])
        return cls(**fields)

    def to_json(self) -> str:
        """Return the job as one line, without its end."""
        fields = asdict(self)
        return json.dumps(fields | {"directory": str(self.directory), "newest_batches": sorted(self.newest_batches)})


@dataclass(frozen=True, slots=True)
class CleanedSegment:
    """The segment `<base_offset>.log.cleaned` and its indexes, which replaces the sources with the base offsets
    `replaced`. It begins where the first of them does, and `next_offset` is where the last of them ends."""

    base_offset: int
    next_offset: int
    size_bytes: int
    replaced: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CleanedGroup:
    """A group of cleaned segments, from the end of the group before it to `next_offset`.

    Everything before `clean_to` is compacted once `segment` has replaced them. `segment` is None if they lose nothing,
    and stay. All tombstones and markers that `segment` lacks lie before `purged_before`, which is 0 if it lacks none.
    """

    next_offset: int
    clean_to: int
    segment: CleanedSegment | None
    purged_before: int = 0

    @classmethod
    def from_json(cls, text: str | bytes) -> CleanedGroup | None:
        """Return the group that a line has, or None. Raises ValueError, KeyError or TypeError for a malformed line."""
        fields = json.loads(text)
        if "group" not in fields:
            return None
        group = fields["group"]
        segment = group["segment"] and CleanedSegment(
            **group["segment"] | {"replaced": (*group["segment"]["replaced"],)}
        )
        return cls(group["next_offset"], group["clean_to"], segment, group["purged_before"])

    def to_json(self) -> str:
        """Return the group as one line, without its end."""
        return json.dumps({"group": asdict(self)})


@dataclass(frozen=True, slots=True)
class CleaningResult:
    """Sources that no segment of `segments` replaces lose nothing. `end_offset` is the new first dirty offset: it is
    less than that of the job if the offset map was full. Bytes are those of both passes. `keyless` records had no key,
    and were dropped."""

    segments: tuple[CleanedSegment, ...]
    end_offset: int
    bytes_read: int
    bytes_written: int
    records_read: int
    records_kept: int
    map_bytes_used: int
    keyless: int

    @classmethod
    def from_json(cls, text: str | bytes) -> CleaningResult:
        """Parse a result. Raises ValueError, KeyError or TypeError for a text that `to_json` did not write."""
        fields = json.loads(text)
        fields["segments"] = tuple(
            CleanedSegment(**segment | {"replaced": tuple(segment["replaced"])}) for segment in fields["segments"]
        )
        return cls(**fields)

    def to_json(self) -> str:
        """Return the result as one line, without its end."""
        return json.dumps(asdict(self))
