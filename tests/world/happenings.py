"""What coordinators note of their groups is counted, so that seeds in which too little happens are noticed."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tests.faults.put_in_place import put_in_place
from tests.world.fibers import World
from tests.world.findings import Findings

from ottla_group_coordinator.machines.history import Happened, History, HistoryEvent, Kind

_COUNTED: Final = {
    Kind.MIGRATED: "groups migrated",
    Kind.REVOKES: "revocations",
    Kind.EVICTED: "evictions",
    Kind.REPLACED: "static members replaced",
    Kind.LOADED: "groups taken over",
}
_AMID_S: Final = 3.0
"""A group has not settled within this time after it has changed its protocol."""


class Happenings:
    """This counts each event once, when its decision is taken. `migrations` counts those of each group."""

    def __init__(self, world: World, findings: Findings) -> None:
        self.migrations: Final[Counter[str]] = Counter()
        self._world: Final = world
        self._findings: Final = findings
        self._migrated_at: Final[dict[str, float]] = {}
        add = History.add

        def watched(history: History, happened: Happened) -> None:
            add(history, happened)
            for event in happened.events:
                self._count(happened.group, event)

        put_in_place(History, "add", watched)

    def _count(self, group: str, event: HistoryEvent) -> None:
        if event.kind not in _COUNTED:
            return
        counts, now = self._findings.counts, self._world.now
        counts[_COUNTED[event.kind]] += 1
        self._world.note(f"{group}: {event.kind.value}: {event.cause}")
        if event.kind is Kind.MIGRATED:
            self.migrations[group] += 1
            self._migrated_at[group] = now
        elif event.kind is Kind.LOADED and now - self._migrated_at.get(group, -_AMID_S) < _AMID_S:
            counts["takeovers amid a migration"] += 1
