"""Where groups have come to by a failover or a failback, held against what they have had. Pure.

rewound   a group is before where it has been on that side by itself
skipped   … behind a record that it has not had
again     … before a record that it has had, where the copy has each record once
silent    … not moved at all, or not as far as was said, and nothing names that
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from tests.faults.kinds_found import KindsFound
from tests.faults.mirrored.copies import Copied

ARRIVAL_KINDS: Final = ("rewound", "skipped", "again", "silent")


class Arrival(NamedTuple):
    """A group is at `position` in a partition, whose records are `log`; None where nothing is committed. It has been at
    `furthest` there by itself, and was to come to `announced`. `is_named`: something was said to keep it from that."""

    where: str
    position: int | None
    furthest: int
    announced: int | None
    is_named: bool
    log: Sequence[Copied]


def check_arrival(findings: KindsFound, arrival: Arrival, had: Collection[bytes], *, once: bool) -> bool:
    """Whether it goes on at the very record. `had` are the keys of what it has had, `once` says that none comes twice
    in the log."""
    where, position = arrival.where, arrival.position
    if position is None or arrival.announced not in (None, position):
        if not arrival.is_named:
            findings.add("silent", f"{where}: it is at {position}, and was to come to {arrival.announced}")
        return False
    if position < arrival.furthest:
        findings.add("rewound", f"{where}: it is at {position}, and has been at {arrival.furthest}")
    if skipped := _keys(record for record in arrival.log if record.offset < position) - set(had):
        findings.add("skipped", f"{where}: {len(skipped)} records before {position}, such as {min(skipped)!r}")
    again = _keys(record for record in arrival.log if record.offset >= position) & set(had)
    if again and once and not arrival.is_named:
        findings.add("again", f"{where}: {len(again)} records from {position} on, such as {min(again)!r}")
    return not again and not skipped


def _keys(records: Iterable[Copied]) -> set[bytes]:
    return {record.key for record in records if record.key is not None}
