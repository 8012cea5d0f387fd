"""The plan of admin.groups.reset: the new committed offsets of a group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal

from ottla.admin.group_info import OffsetReset
from ottla.client.cluster import ClusterClient
from ottla.client.list_offsets import list_offsets_or_end
from ottla.client.units import timestamp_ms
from ottla.errors import config_error
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

ResetTarget = Literal["earliest", "latest"] | int | datetime | timedelta
"""A position in each partition: its ends, an offset, a time, or a timedelta from now (-1 h: an hour ago)."""

Offsets = Mapping[TopicPartition, int]


def check_target(to: ResetTarget | None, shift: int | None) -> None:
    """Raise ConfigError unless exactly one of the two is given."""
    if (to is None) == (shift is None):
        raise config_error("exactly one of to= and shift= is needed", hint="pass to= or shift=")
    if shift is not None and (isinstance(shift, bool) or not isinstance(shift, int)):
        raise config_error(
            f"shift={shift!r} is not a number of records", hint="pass an int such as 100, or -100 to go back"
        )
    legal = isinstance(to, datetime | timedelta) or to in (None, "earliest", "latest")
    if not legal and (isinstance(to, bool) or not isinstance(to, int) or to < 0):
        raise config_error(
            f"to={to!r} is not a position in a partition",
            hint="use 'earliest', 'latest', an offset, a datetime or a timedelta",
        )


def planned(
    cluster: ClusterClient,
    chosen: Sequence[TopicPartition],
    committed: Offsets,
    to: ResetTarget | None,
    shift: int | None,
    *,
    timeout: float,
) -> tuple[OffsetReset, ...]:
    """Return the new offset of each chosen partition, never outside its log. Raises what `list_offsets` raises."""

    def at(when_ms: int) -> Offsets:
        return list_offsets_or_end(cluster, dict.fromkeys(chosen, when_ms), timeout=timeout)

    starts, ends = at(EARLIEST_TIMESTAMP), at(LATEST_TIMESTAMP)
    targets: Offsets
    match to:
        case None:
            targets = _shifted(chosen, committed, shift or 0)
        case "earliest":
            targets = starts
        case "latest":
            targets = ends
        case int():
            targets = dict.fromkeys(chosen, to)
        case _:
            targets = at(timestamp_ms(to, now_ms=cluster.clock.wall_ms()))
    return tuple(
        OffsetReset(p.topic, p.partition, committed.get(p), min(max(targets[p], starts[p]), ends[p]), targets[p])
        for p in chosen
    )


def _shifted(chosen: Sequence[TopicPartition], committed: Offsets, shift: int) -> Offsets:
    if missing := [str(p) for p in chosen if p not in committed]:
        raise config_error(
            f"the group has no committed offset to shift in {', '.join(missing)}",
            hint="name other partitions, or pass to=",
        )
    return {p: committed[p] + shift for p in chosen}
