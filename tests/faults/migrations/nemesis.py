"""Rounds in which a member changes its protocol, a process is killed or suspended, and all groups settle."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from tests.faults.groups.nemesis import GroupNemesis
from tests.faults.history import HistoryWriter
from tests.faults.migrations.cluster import SESSION_S, MigrationCluster
from tests.faults.migrations.fleet import BY_HAND, Fleet, MigratingMember, Role

SETTLE_S: Final = 2 * SESSION_S
EXPIRED_S: Final = SESSION_S + 3.0
"""A member that is suspended for this long loses its session."""
_MOMENT_S: Final = (0.0, 0.5, 1.5)
_SHORT_S: Final = (0.5, 2.0, 4.0)
_LOOK_S: Final = 0.05


class MigrationNemesis(GroupNemesis):
    """`roles` are those of the row, and each group reads `topic_partitions`."""

    def __init__(self, cluster: MigrationCluster, clients: Sequence[str], seed: str, log: Path, history: Path) -> None:
        super().__init__(cluster, clients, (), seed, log)
        self.fleet: Fleet
        self.roles: Sequence[Role] = ()
        self.topic_partitions = 0
        self.done: Final[Counter[str]] = Counter()
        """Kills and pauses, by what was hit."""
        self.migrated = 0
        """How many members have changed their protocol."""
        self._notes: Final = HistoryWriter(history, "nemesis")

    @property
    def migrations(self) -> int:
        """How often a whole group has changed from one protocol to the other."""
        return self.migrated // max(1, sum(role.migrates for role in self.roles))

    @property
    def groups_of_roles(self) -> Sequence[str]:
        return sorted({role.group for role in self.roles})

    def round(self, kind: str, harm: Callable[[], None]) -> None:
        """Do harm while the next member changes its protocol, and wait until all groups are settled."""
        with self.hit(kind):
            self._toggle_by_hand()
            self._migrate_one()
            harm()
            self.done[kind] += 1
        self.until_settled(kind)

    def until_settled(self, after: str) -> None:
        """Wait until all groups are settled, for at most twice the session timeout after the cluster is whole again."""
        give_up_at = time.monotonic() + SETTLE_S
        for group in self.groups_of_roles:
            while (why := self.fleet.unsettled(group, self.topic_partitions)) and time.monotonic() < give_up_at:
                if self.caught():
                    return
                time.sleep(_LOOK_S)
            if why:
                words = f"{SETTLE_S:g} s after {after}: {why}"
                self.note(f"{group} is not settled {words}")
                self._notes.add("info", "unsettled", group=group, member="all", error=words)
                self._notes.flush()

    def close(self) -> None:
        self._notes.close()

    # ---- members ----------------------------------------------------------------------------------------------------

    def any_member(self) -> MigratingMember:
        return self.random.choice([member for member in self.fleet.members if member.role.client != BY_HAND])

    def replace(self, member: MigratingMember) -> None:
        """SIGKILL a member and start another one in its place."""
        self.note(f"SIGKILL {member.name}")
        member.kill()
        time.sleep(self.random.choice(_MOMENT_S))
        self.fleet.start(member.role)

    def pause(self, member: MigratingMember, seconds: float) -> None:
        self.note(f"SIGSTOP {member.name} for {seconds:g} s")
        member.pause(may_expire=seconds >= SESSION_S / 2)
        time.sleep(seconds)
        member.resume()

    def _migrate_one(self) -> None:
        """Have the next member change its protocol. Members take turns, so the whole group changes, and then back."""
        changing = [role for role in self.roles if role.migrates]
        if changing:
            role = changing[self.migrated % len(changing)]
            self.note(f"{self.fleet.member(role).name} changes its protocol from {self.fleet.protocol(role)}")
            self.fleet.migrate(role)
            self.migrated += 1

    def _toggle_by_hand(self) -> None:
        """Have the member by hand join or leave, so that it gives partitions up and commits in old epochs."""
        for role in self.roles:
            if role.client == BY_HAND:
                if any(member.role == role for member in self.fleet.members):
                    self.fleet.remove(role)
                else:
                    self.fleet.start(role)


def rounds(nemesis: MigrationNemesis, until_at: float) -> None:
    """Do every kind of harm in turn, until that time is over and there were enough hits."""
    kinds = tuple(HARM.items())
    turn = 0
    while nemesis.goes_on(until_at):
        kind, harm = kinds[turn % len(kinds)]
        nemesis.round(kind, partial(harm, nemesis))
        turn += 1


def _kill_coordinator(nemesis: MigrationNemesis) -> None:
    owner = nemesis.any_owner()
    nemesis.kill(owner)
    time.sleep(nemesis.random.choice(_MOMENT_S))
    nemesis.start(owner)


def _pause_coordinator(nemesis: MigrationNemesis) -> None:
    with nemesis.stopped(nemesis.any_owner()):
        time.sleep(nemesis.random.choice((*_SHORT_S, 9.0)))


def _kill_broker(nemesis: MigrationNemesis) -> None:
    leader = nemesis.any_leader()
    nemesis.kill(leader)
    time.sleep(nemesis.random.choice(_MOMENT_S))
    nemesis.start(leader)


def _pause_broker(nemesis: MigrationNemesis) -> None:
    with nemesis.stopped(nemesis.any_leader()):
        time.sleep(nemesis.random.choice(_SHORT_S))


def _kill_member(nemesis: MigrationNemesis) -> None:
    nemesis.replace(nemesis.any_member())


def _pause_member(nemesis: MigrationNemesis) -> None:
    nemesis.pause(nemesis.any_member(), nemesis.random.choice(_SHORT_S))


def _expire_member(nemesis: MigrationNemesis) -> None:
    nemesis.pause(nemesis.any_member(), EXPIRED_S)


HARM: Final[dict[str, Callable[[MigrationNemesis], None]]] = {
    "coordinator killed": _kill_coordinator,
    "member killed": _kill_member,
    "broker killed": _kill_broker,
    "member stopped": _pause_member,
    "coordinator stopped": _pause_coordinator,
    "member killed again": _kill_member,
    "coordinator killed again": _kill_coordinator,
    "broker stopped": _pause_broker,
    "member stopped beyond its session": _expire_member,
}
"""In the order of the rounds."""
