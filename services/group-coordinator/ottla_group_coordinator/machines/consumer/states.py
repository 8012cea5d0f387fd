"""The states of a consumer group's member, and all transitions between them, are one table.

A member moves to its target in three steps, and a lost response or a new target may interrupt each of them. First it
gives up the partitions that are not in its target, and stays in its epoch until it has done so. Then it takes the
target's epoch with all partitions that are free. Partitions that others still own follow with later heartbeats. So no
partition ever has two owners, and a slow member delays only those that wait for its partitions.

A group has no state of its own. The state that is reported for it follows from its members and epochs.

The diagram in docs/design/groups.md is drawn from here (tools/state_diagrams.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class MemberState(Enum):
    STABLE = "stable"
    UNREVOKED = "unrevoked-partitions"
    UNRELEASED = "unreleased-partitions"


class MemberEvent(Enum):
    MUST_REVOKE = "it owns partitions that are not in its target"
    MUST_WAIT = "others own partitions of its target"
    RECONCILED = "it has its whole target"


INITIAL: Final[Mapping[str, MemberState]] = {"joined": MemberState.STABLE}

NEXT: Final[Mapping[tuple[MemberState, MemberEvent], MemberState]] = {
    (MemberState.STABLE, MemberEvent.MUST_REVOKE): MemberState.UNREVOKED,
    (MemberState.STABLE, MemberEvent.MUST_WAIT): MemberState.UNRELEASED,
    (MemberState.STABLE, MemberEvent.RECONCILED): MemberState.STABLE,
    # The target may have changed while it revoked, so it may have to revoke more.
    (MemberState.UNREVOKED, MemberEvent.MUST_REVOKE): MemberState.UNREVOKED,
    (MemberState.UNREVOKED, MemberEvent.MUST_WAIT): MemberState.UNRELEASED,
    (MemberState.UNREVOKED, MemberEvent.RECONCILED): MemberState.STABLE,
    (MemberState.UNRELEASED, MemberEvent.MUST_REVOKE): MemberState.UNREVOKED,
    (MemberState.UNRELEASED, MemberEvent.MUST_WAIT): MemberState.UNRELEASED,
    (MemberState.UNRELEASED, MemberEvent.RECONCILED): MemberState.STABLE,
}


class ConsumerGroupState(Enum):
    """The names are Kafka's. A group that is Dead is in no shard any longer."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


def group_state(members: int, reconciled: int, *, is_assigned: bool) -> ConsumerGroupState:
    """Return the state of a group, by its number of members and how many of them are reconciled to the target.

    `is_assigned` says that the target is not older than the group's epoch.
    """
    if not members:
        return ConsumerGroupState.EMPTY
    if not is_assigned:
        return ConsumerGroupState.ASSIGNING
    return ConsumerGroupState.STABLE if reconciled == members else ConsumerGroupState.RECONCILING
