"""The states of a group and every way from one to the next are one table. Nothing else changes a group's state.

Requests of many members meet a group at any moment of a rebalance, and each state treats them differently. If every
request changed the state by conditions of its own, some order of them would end in a state that nothing leaves. With
one table, a pair that is missing is an error at once, and a test walks through all of them.

The names are Kafka's. PreparingRebalance waits for the members to join. CompletingRebalance waits for the assignment
that the leader makes. Each change of a member leads back to PreparingRebalance, so two rebalances never overlap.

The diagram in docs/design/groups.md is drawn from here (tools/state_diagrams.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class GroupState(Enum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class GroupStateEvent(Enum):
    REBALANCE = "a member joins, changes, leaves or is evicted"
    ALL_JOINED = "all members have joined, or the time to join is over"
    ALL_GONE = "no member is left"
    ASSIGNED = "the leader has assigned"
    REMOVED = "deleted or expired"


INITIAL: Final[Mapping[str, GroupState]] = {
    "first request, or loaded without members": GroupState.EMPTY,
    "loaded with members": GroupState.STABLE,
}

NEXT: Final[Mapping[tuple[GroupState, GroupStateEvent], GroupState]] = {
    (GroupState.EMPTY, GroupStateEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    # Only an empty group is removed: members would commit into a group that is gone.
    (GroupState.EMPTY, GroupStateEvent.REMOVED): GroupState.DEAD,
    (GroupState.PREPARING_REBALANCE, GroupStateEvent.ALL_JOINED): GroupState.COMPLETING_REBALANCE,
    (GroupState.PREPARING_REBALANCE, GroupStateEvent.ALL_GONE): GroupState.EMPTY,
    # A member that comes or goes before the leader has assigned makes that assignment obsolete, so all join again.
    (GroupState.COMPLETING_REBALANCE, GroupStateEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
    (GroupState.COMPLETING_REBALANCE, GroupStateEvent.ASSIGNED): GroupState.STABLE,
    (GroupState.STABLE, GroupStateEvent.REBALANCE): GroupState.PREPARING_REBALANCE,
}
"""A group that is Dead is in no shard any longer. The next request under its id meets a new group."""
