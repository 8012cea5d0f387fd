"""The roles of a replica and every way from one to the next are one table.

Nothing else changes a replica's role. The diagram in docs/design/replication.md is drawn from here
(tools/state_diagrams.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ReplicaRole(Enum):
    LEADERLESS = "leaderless"
    FOLLOWER = "follower"
    STARTING_EPOCH = "starting an epoch"
    LEADER = "leader"


class RoleEvent(Enum):
    NO_LEADER = "no broker leads, or this broker can't lead yet"
    OTHER_LEADS = "another broker leads"
    THIS_LEADS = "this broker is to lead an epoch"
    EPOCH_STARTED = "the epoch's start is known"


NEXT_ROLE: Final[Mapping[tuple[ReplicaRole, RoleEvent], ReplicaRole]] = {
    (ReplicaRole.LEADERLESS, RoleEvent.NO_LEADER): ReplicaRole.LEADERLESS,
    (ReplicaRole.LEADERLESS, RoleEvent.OTHER_LEADS): ReplicaRole.FOLLOWER,
    (ReplicaRole.LEADERLESS, RoleEvent.THIS_LEADS): ReplicaRole.STARTING_EPOCH,
    (ReplicaRole.FOLLOWER, RoleEvent.NO_LEADER): ReplicaRole.LEADERLESS,
    (ReplicaRole.FOLLOWER, RoleEvent.OTHER_LEADS): ReplicaRole.FOLLOWER,
    (ReplicaRole.FOLLOWER, RoleEvent.THIS_LEADS): ReplicaRole.STARTING_EPOCH,
    (ReplicaRole.STARTING_EPOCH, RoleEvent.NO_LEADER): ReplicaRole.LEADERLESS,
    (ReplicaRole.STARTING_EPOCH, RoleEvent.OTHER_LEADS): ReplicaRole.FOLLOWER,
    (ReplicaRole.STARTING_EPOCH, RoleEvent.THIS_LEADS): ReplicaRole.STARTING_EPOCH,
    (ReplicaRole.STARTING_EPOCH, RoleEvent.EPOCH_STARTED): ReplicaRole.LEADER,
    (ReplicaRole.LEADER, RoleEvent.NO_LEADER): ReplicaRole.LEADERLESS,
    (ReplicaRole.LEADER, RoleEvent.OTHER_LEADS): ReplicaRole.FOLLOWER,
    (ReplicaRole.LEADER, RoleEvent.THIS_LEADS): ReplicaRole.STARTING_EPOCH,
}
"""A leader whose ISR changes within its epoch stays leader, so that is not an event here."""
