"""A partition's standing among the brokers, and what follows from it, is one cell of a table for each combination.

An election rule that is written as a chain of conditions hides its cases: a full disk, a broker that shuts down while
another is away, a leader that may have lost records. So two questions describe a partition: which replicas could lead
it (`Pool`), and what has become of its leader (`Leader`). `OUTCOMES` answers each combination with a leader and an ISR,
and a test walks through all of them. A combination that is not in the table can't occur, because a leader that stays is
in the pool of those that could lead.

The order of the pools is the order of what they risk. A member of the ISR, and then of the ELR, has every acknowledged
record (I18). Beyond these records may be lost, which only a topic's config allows (rule 19).

docs/design/replication.md shows the table, which is drawn from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla_controller.machines.availability import Availability
from ottla_core.cluster.image import Partition
from ottla_core.model import NO_LEADER


class Pool(Enum):
    """The replicas that could lead: the first of these groups that is not empty."""

    IN_SYNC = "a member of the ISR is live"
    AWAY = "members of the ISR are within grace"
    LEAVING = "the live members of the ISR are shutting down"
    ELIGIBLE = "a member of the ELR is live"
    UNCLEAN = "another replica is live, and the topic allows unclean elections"
    NOBODY = "no replica may lead"


class Leader(Enum):
    """What has become of the leader."""

    STAYS = "live or within grace"
    YIELDS = "its disk takes no appends, but another member's does"
    LEAVES = "shutting down"
    DISTRUSTED = "may have lost records"
    GONE = "dead, or there was none"


class Leads(Enum):
    SAME = "as before"
    FIRST = "the pool's first"
    NOBODY = "nobody"


class InSync(Enum):
    PRESENT = "the members that are live or within grace"
    TRUSTED = "all members that can't have lost records"
    LEAVING = "the members that are shutting down"
    LEADER = "the leader alone"
    RECOVERING = "the leader alone; its log is the log from now on"
    NOBODY = "empty; its former members are eligible"


class Outcome(NamedTuple):
    leader: Leads
    isr: InSync


_ELECTED: Final = Outcome(Leads.FIRST, InSync.PRESENT)
_WAITS: Final = Outcome(Leads.SAME, InSync.TRUSTED)
_ALONE: Final = Outcome(Leads.FIRST, InSync.LEADER)
_RECOVERS: Final = Outcome(Leads.FIRST, InSync.RECOVERING)
_NOBODY: Final = Outcome(Leads.NOBODY, InSync.NOBODY)

OUTCOMES: Final[Mapping[tuple[Pool, Leader], Outcome]] = MappingProxyType(
    {
        (Pool.IN_SYNC, Leader.STAYS): Outcome(Leads.SAME, InSync.PRESENT),
        (Pool.IN_SYNC, Leader.YIELDS): _ELECTED,
        (Pool.IN_SYNC, Leader.LEAVES): _ELECTED,
        (Pool.IN_SYNC, Leader.DISTRUSTED): _ELECTED,
        (Pool.IN_SYNC, Leader.GONE): _ELECTED,
        # A broker that has lost its session may be back within seconds. Until that is known nothing is elected, because
        # only replicas outside the ISR are live, and they may lack records.
        (Pool.AWAY, Leader.STAYS): Outcome(Leads.SAME, InSync.PRESENT),
        (Pool.AWAY, Leader.LEAVES): _WAITS,
        (Pool.AWAY, Leader.DISTRUSTED): Outcome(Leads.NOBODY, InSync.TRUSTED),
        (Pool.AWAY, Leader.GONE): _WAITS,
        # Brokers that shut down serve until they are gone, so the partition is led for as long as that is possible.
        (Pool.LEAVING, Leader.LEAVES): Outcome(Leads.SAME, InSync.LEAVING),
        (Pool.LEAVING, Leader.DISTRUSTED): Outcome(Leads.FIRST, InSync.LEAVING),
        (Pool.LEAVING, Leader.GONE): Outcome(Leads.FIRST, InSync.LEAVING),
        # Each eligible replica has every acknowledged record, because it left while nothing was committed (KIP-966,
        # rule 8). It leads alone, since the others' logs are not known to be equal.
        (Pool.ELIGIBLE, Leader.DISTRUSTED): _ALONE,
        (Pool.ELIGIBLE, Leader.GONE): _ALONE,
        # Records may be lost. The partition is marked as recovering, and coordinators reload (rule 19).
        (Pool.UNCLEAN, Leader.DISTRUSTED): _RECOVERS,
        (Pool.UNCLEAN, Leader.GONE): _RECOVERS,
        # The partition waits for an eligible replica, or for what machines.recovery does.
        (Pool.NOBODY, Leader.DISTRUSTED): _NOBODY,
        (Pool.NOBODY, Leader.GONE): _NOBODY,
    }
)


@dataclass(frozen=True)
class Standing:
    """One partition among brokers. `unclean` says that the topic allows unclean elections."""

    partition: Partition
    existing: Availability
    unclean: bool

    @cached_property
    def lost(self) -> frozenset[int]:
        """These are the members of ISR and ELR that may have lost records."""
        return self.existing.lost(self.partition)

    @cached_property
    def pool(self) -> Pool:
        return self._candidates[0]

    @property
    def first(self) -> int:
        """This is the replica that leads if the pool's first does. It is NO_LEADER if the pool's members are away, or
        if there are none."""
        return self._candidates[1]

    @property
    def leader(self) -> Leader:
        leader = self.partition.leader
        if leader in self._present:
            return Leader.YIELDS if self._has_room_only_elsewhere else Leader.STAYS
        if leader in self._leaving:
            return Leader.LEAVES
        return Leader.DISTRUSTED if leader in self.lost else Leader.GONE

    @property
    def outcome(self) -> Outcome:
        return OUTCOMES[self.pool, self.leader]

    def isr_of(self, outcome: Outcome) -> tuple[int, ...]:
        """Return the ISR that the outcome names, in the order of the present one."""
        match outcome.isr:
            case InSync.PRESENT:
                return self._present
            case InSync.TRUSTED:
                return self._trusted
            case InSync.LEAVING:
                return self._leaving
            case InSync.LEADER | InSync.RECOVERING:
                return (self.first,)
            case InSync.NOBODY:
                return ()

    @cached_property
    def _trusted(self) -> tuple[int, ...]:
        return tuple(b for b in self.partition.isr if b not in self.lost)

    @cached_property
    def _present(self) -> tuple[int, ...]:
        existing = self.existing
        return tuple(b for b in self._trusted if b in existing.willing or b in existing.within_grace)

    @cached_property
    def _leaving(self) -> tuple[int, ...]:
        return tuple(b for b in self._trusted if b in self.existing.live and b not in self._present)

    @cached_property
    def _candidates(self) -> tuple[Pool, int]:
        """These are the pool, and its first member."""
        # From here on the pools come in the order of what they risk.
        if (first := self._first(self._present)) is not None:
            return Pool.IN_SYNC, first
        if self._present:
            return Pool.AWAY, NO_LEADER
        if self._leaving:
            return Pool.LEAVING, next(b for b in self.partition.replicas if b in self._leaving)
        # No member of the ISR that can't have lost records is live here, or it would be present or leaving.
        if (first := self._first(tuple(b for b in self.partition.elr if b not in self.lost))) is not None:
            return Pool.ELIGIBLE, first
        if self.unclean and (first := self._outsider()) is not None:
            return Pool.UNCLEAN, first
        return Pool.NOBODY, NO_LEADER

    @property
    def _has_room_only_elsewhere(self) -> bool:
        """It tells whether the pool's first can take appends and the leader can't."""
        full = self.existing.read_only
        return self.partition.leader in full and self.first != NO_LEADER and self.first not in full

    def _first(self, among: tuple[int, ...]) -> int | None:
        """Return the first that may lead, in the order of the replicas, and if possible one whose disk takes appends.

        The order of the replicas makes the first of them the preferred leader.
        """
        existing = self.existing
        may = [b for b in self.partition.replicas if b in among and b in existing.willing]
        return next((b for b in may if b not in existing.read_only), may[0] if may else None)

    def _outsider(self) -> int | None:
        """Return the leader of an unclean election: a former member of the ISR, or else any replica.

        Replicas whose directories have moved come last, because an empty disk would lose everything.
        """
        partition = self.partition
        known, rest = partition.last_known_elr, partition.replicas
        kept = (tuple(b for b in each if not self.existing.has_moved(partition, b)) for each in (known, rest))
        firsts = map(self._first, (*kept, rest))
        return next((first for first in firsts if first is not None), None)
