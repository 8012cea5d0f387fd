"""The next step of a member towards its target.

No partition has two owners, and no step waits for a member that owns none of the partitions in question. A member owns
a partition until it reports its partitions without it. If it reports none at all, nothing has changed. Source:
CurrentAssignmentBuilder of Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer.member import ConsumerMember, CurrentAssignment
from ottla_group_coordinator.machines.consumer.partitions import (
    NO_EPOCHS,
    EpochOfPartition,
    Partitions,
    has_any,
    shared_epochs,
    union,
)
from ottla_group_coordinator.machines.consumer.states import NEXT, MemberEvent, MemberState


class Goal(NamedTuple):
    """What a member moves towards. `is_read` returns whether it is subscribed to a topic, and `owner` the member that
    owns a partition."""

    epoch: int
    partitions: Partitions
    is_read: Callable[[TopicId], bool]
    owner: Callable[[TopicId, int], str | None]


def reconcile(member: ConsumerMember, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    """Return the member's assignment after its next step, which may be the present one. `owned` is what it reports."""
    current = member.current
    is_there = current.state is MemberState.STABLE and current.epoch == goal.epoch
    if is_there or (current.state is MemberState.UNREVOKED and _owns(current.revoking, owned)):
        return _without_unread(current, goal, owned)
    return _next(member, goal, owned)


def _owns(revoking: EpochOfPartition, owned: Partitions | None) -> bool:
    """Return whether the member still owns any of `revoking`. It does if it reports nothing."""
    return owned is None or has_any(revoking, owned)


def _without_unread(current: CurrentAssignment, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    """Have the member give up topics that it no longer reads, although its target may still have them."""
    unread = {t: epochs for t, epochs in current.assigned.items() if not goal.is_read(t)}
    if not unread:
        return current
    assigned = {t: epochs for t, epochs in current.assigned.items() if t not in unread}
    revoking = union(current.revoking, unread)
    if not _owns(revoking, owned):
        return current._replace(assigned=assigned)
    return current._replace(state=NEXT[current.state, MemberEvent.MUST_REVOKE], assigned=assigned, revoking=revoking)


def _next(member: ConsumerMember, goal: Goal, owned: Partitions | None) -> CurrentAssignment:
    current = member.current
    target = {t: numbers for t, numbers in goal.partitions.items() if goal.is_read(t)}
    kept: dict[TopicId, dict[int, int]] = {}
    revoking: dict[TopicId, dict[int, int]] = {}
    for topic_id, epochs in current.assigned.items():
        wanted = target.get(topic_id, frozenset())
        for number, epoch in epochs.items():
            (kept if number in wanted else revoking).setdefault(topic_id, {})[number] = epoch
    # It stays in its epoch until it has given these up: it commits their last offsets in it.
    if revoking and _owns(revoking, owned):
        return current._replace(state=NEXT[current.state, MemberEvent.MUST_REVOKE], assigned=kept, revoking=revoking)
    waits, owner = False, goal.owner
    # Partitions that the member itself has just given up are free for it.
    takes = (None, member.member_id)
    for topic_id, numbers in target.items():
        missing = sorted(numbers - kept.get(topic_id, {}).keys())
        free = [number for number in missing if owner(topic_id, number) in takes]
        if free:
            kept.setdefault(topic_id, {}).update(dict.fromkeys(free, goal.epoch))
        waits |= len(free) < len(missing)
    event = MemberEvent.MUST_WAIT if waits else MemberEvent.RECONCILED
    previous_epoch = current.epoch if current.epoch != goal.epoch else current.previous_epoch
    assigned = {t: shared_epochs(epochs) for t, epochs in kept.items()}
    return CurrentAssignment(goal.epoch, previous_epoch, NEXT[current.state, event], assigned, NO_EPOCHS)
