"""What coordinators note of their groups is counted, so that seeds in which too little happens are noticed."""

from __future__ import annotations

from typing import Final

from tests.faults.put_in_place import put_in_place
from tests.world.fibers import World
from tests.world.findings import Findings

from ottla_group_coordinator.machines.history import Happened, History, Kind

_COUNTED: Final = {
    Kind.MIGRATED: "groups migrated",
    Kind.REVOKES: "revocations",
    Kind.EVICTED: "evictions",
    Kind.REPLACED: "static members replaced",
    Kind.LOADED: "groups taken over",
}
_AMID_S: Final = 3.0
"""A group has not settled within this time after it has changed its protocol."""


def watch_groups(world: World, findings: Findings) -> None:
    """Count each event once, when its decision is taken."""
    add, migrated_at = History.add, dict[str, float]()

    def counted(self: History, happened: Happened) -> None:
        add(self, happened)
        for event in happened.events:
            if event.kind in _COUNTED:
                findings.counts[_COUNTED[event.kind]] += 1
                world.note(f"{happened.group}: {event.kind.value}: {event.cause}")
            if event.kind is Kind.MIGRATED:
                migrated_at[happened.group] = world.now
            elif event.kind is Kind.LOADED and world.now - migrated_at.get(happened.group, -_AMID_S) < _AMID_S:
                findings.counts["takeovers amid a migration"] += 1

    put_in_place(History, "add", counted)
