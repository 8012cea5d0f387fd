"""The history of a group: which members joined and left and why, and what each rebalance took and moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from ottla_core.plural import counted

if TYPE_CHECKING:
    from ottla.admin.group_info import GroupEvent

_MOST_EVENTS: Final = 50


def event_item(event: GroupEvent) -> dict[str, Any]:
    """An event as data; `at` is its timestamp in ISO 8601."""
    return {"at": event.datetime.isoformat(timespec="milliseconds"), **asdict(event)}


def timeline(events: Sequence[GroupEvent]) -> Iterator[str]:
    """Yield a line for each of the last events, in local time, a line for each new day, and a summary.

    A group that rebalances again and again has had hundreds of events.
    """
    day = ""
    if left_out := len(events[:-_MOST_EVENTS]):
        yield f"{counted(left_out, 'earlier event')} left out; -o jsonl prints all"
    for event in events[-_MOST_EVENTS:]:
        at = event.datetime.astimezone()
        if (today := f"{at:%Y-%m-%d}") != day:
            day = today
            yield day
        yield f"  {at:%H:%M:%S}.{at.microsecond // 1000:03}  {_event_text(event)}"
    yield _summary(events)


def _event_text(event: GroupEvent) -> str:
    match event.kind:
        case "joined":
            return f"{_who(event)} joined{_cause(event, 'joined')}"
        case "left":
            return f"{_who(event)} left{_cause(event, 'left')}"
        case "evicted":
            return f"{_who(event)} was evicted: {event.cause}"
        case "replaced" | "revokes" | "waits" | "reconciled":
            return f"{_who(event)} {event.cause}"
        case "rebalance-began":
            return f"rebalance: {event.cause}"
        case "generation":
            return f"  generation {event.generation}: {event.cause}"
        case "assigned":
            return f"  rebalanced after {event.duration:.3f} s, {_moved(event)} moved: {event.cause}"
        case "target":
            return f"  target of epoch {event.generation}, {_moved(event)} moved: {event.cause}"
        case "settled":
            return f"  settled after {event.duration:.3f} s: {event.cause}"
    return event.cause


def _who(event: GroupEvent) -> str:
    name = event.instance_id or event.member_id
    return f"{name} at {event.host}" if event.host else name


def _cause(event: GroupEvent, nothing: str) -> str:
    return "" if event.cause == nothing else f": {event.cause}"


def _moved(event: GroupEvent) -> str:
    return counted(event.partitions_moved, "partition")


def _summary(events: Sequence[GroupEvent]) -> str:
    kinds = Counter(event.kind for event in events)
    parts = [
        counted(kinds["joined"], "join"),
        f"{kinds['left']} left",
        counted(kinds["evicted"], "eviction"),
        counted(kinds["rebalance-began"], "rebalance"),
    ]
    took, moved = sum(event.duration for event in events), sum(event.partitions_moved for event in events)
    return f"{', '.join(parts)}; {took:.3f} s of rebalancing, {counted(moved, 'partition')} moved"
