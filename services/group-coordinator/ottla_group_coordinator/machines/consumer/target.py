"""The target of a group: made when the group's epoch is ahead of it, and at most once in an assignment interval
(KIP-1263).

The target of a small group is made in the decision that needs it, so the response to a join has the assignment. That of
a large group takes longer than a decision may. So the decision only requests it (`AssignTarget`), the service makes it
in slices from a snapshot of the group (`TargetWork`), and later decisions write it (`decide_made`). Until then members
keep the former target.

The group's epoch may have grown in the meantime. The target still counts, for the epoch for which it was made.
Otherwise a group that members keep joining would never get a target. The members that it lacks get nothing yet, and the
next target follows after the assignment interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Final, NamedTuple

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_core.event_loop.steps import Steps, finished
from ottla_core.model import TopicId
from ottla_core.plural import counted
from ottla_group_coordinator.machines.consumer import errors
from ottla_group_coordinator.machines.consumer.assignors import ASSIGNORS, AssignedMember
from ottla_group_coordinator.machines.consumer.draft import Draft
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup, Subscription, TargetAsked
from ottla_group_coordinator.machines.consumer.member import ConsumerMember
from ottla_group_coordinator.machines.consumer.partitions import NO_PARTITIONS, Partitions, count, shared_numbers
from ottla_group_coordinator.machines.consumer.records import (
    GroupEpoch,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
)
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.membership import GroupSettings

_AT_ONCE: Final = 10_000
"""The most work of a target that is made in one decision. Each partition counts as one, and so does each topic of each
member."""

_OF_A_MEMBER: Final = 4
"""Each member counts as this much, too."""

_A_PART: Final = 2_500
"""The most members whose targets one decision writes."""

_ASK_AGAIN_S: Final = 10.0
"""How long a group waits for a target before it requests it again. The first request may have been lost."""

_A_STEP: Final = 500
"""How many topics are looked up in one step."""


class AssignTarget(NamedTuple):
    """An effect that requests the target of a group that is too large for one decision."""

    group: str


class TargetWork(NamedTuple):
    """A snapshot of a group, from which its target is made."""

    group_epoch: GroupEpoch
    assignor: str
    members: Mapping[str, ConsumerMember]
    targets: Mapping[str, Partitions]
    matches: Mapping[str, ResolvedRegex]


class TargetChange(NamedTuple):
    member_id: str
    instance_id: str | None
    target: Partitions


class MadeTarget(NamedTuple):
    """The changes from the former target to a new one. `moved` partitions get another reader."""

    group_epoch: GroupEpoch
    assignor: str
    members: int
    changes: Sequence[TargetChange]
    moved: int


def make_target(draft: Draft, topics: GroupTopics, settings: GroupSettings) -> None:
    """Make the target of the group's epoch, or request it, unless the assignment interval is not over yet.

    A target that does not fit into one batch is written by several heartbeats, and counts once it is complete. What
    members lose is written first, so that each of these heartbeats makes the same target.
    """
    group, consumer = draft.group, settings.consumer.of(draft.group.group_id)
    if group.is_assigned or not is_due(group, consumer, draft.now) or _is_asked(draft):
        return
    if _is_small(group, topics):
        made = finished(made_target(target_work(group, consumer), topics))
        _write(draft, made, 0, settings)
        return
    if group.assigned is None:
        # The first member gets the epoch of the empty target, and a coordinator that takes over must not begin lower.
        draft.write(TargetEpochKey(group.group_id), TargetEpoch(group.target_epoch))
    draft.effects.append(AssignTarget(group.group_id))
    draft.memory.append(TargetAsked(group.group_id, group.epoch, draft.now.at))


def is_due(group: ConsumerGroup, settings: ConsumerSettings, now: Moment) -> bool:
    """Return whether the assignment interval since the last target is over."""
    made_ms = 0 if group.assigned is None else group.assigned.made_ms
    # A time in the future is that of a former coordinator, whose clock was ahead.
    return not 0 <= now.wall_ms - made_ms < settings.assignment_interval_ms


def _is_asked(draft: Draft) -> bool:
    asked = draft.group.target_asked
    return asked.epoch > draft.group.target_epoch and draft.now.at < asked.at + _ASK_AGAIN_S


def _is_small(group: ConsumerGroup, topics: GroupTopics) -> bool:
    work = 0
    for subscription, members in group.subscriptions.items():
        matches = group.resolved.get(subscription.regex)
        work += members * (_OF_A_MEMBER + len(subscription.topics) + (0 if matches is None else len(matches.topics)))
        if work > _AT_ONCE:
            return False
    found = map(topics.get, group.subscribed_topics())
    return work + sum(topic.partition_count for topic in found if topic is not None) <= _AT_ONCE


# ---- making ---------------------------------------------------------------------------------------------------------


def target_work(group: ConsumerGroup, settings: ConsumerSettings) -> TargetWork:
    assignor = group.assignor(settings.assignors)
    return TargetWork(group.group_epoch, assignor, group.members.copy(), group.targets.copy(), group.resolved.copy())


def made_target(work: TargetWork, topics: GroupTopics) -> Steps[MadeTarget]:
    """Make the target for the snapshot. What members lose comes first."""
    counts: dict[TopicId, int] = {}
    members = yield from _assigned_members(work, topics, counts)
    targets = yield from ASSIGNORS[work.assignor](members, counts)
    given: dict[TopicId, set[int]] = {}
    for former in work.targets.values():
        for topic_id, numbers in former.items():
            given.setdefault(topic_id, set()).update(numbers)
        yield
    changes: list[tuple[int, TargetChange]] = []
    moved = 0
    for member_id, target in targets.items():
        yield
        was = work.targets.get(member_id)
        if target == was:
            continue
        former = was or NO_PARTITIONS
        moved += sum(
            len((numbers - former.get(t, frozenset())) & given.get(t, frozenset())) for t, numbers in target.items()
        )
        target = {t: shared_numbers(numbers) for t, numbers in target.items()}
        change = TargetChange(member_id, members[member_id].instance_id, target)
        changes.append((count(target) - count(former), change))
    changes.sort(key=lambda change: change[0])
    return MadeTarget(work.group_epoch, work.assignor, len(members), [change for _, change in changes], moved)


def _assigned_members(
    work: TargetWork, topics: GroupTopics, counts: dict[TopicId, int]
) -> Steps[dict[str, AssignedMember]]:
    """Return the members with the topics that they read, and add to `counts` how many partitions each topic has."""
    read: dict[Subscription, tuple[TopicId, ...]] = {}
    members: dict[str, AssignedMember] = {}
    for member_id, member in work.members.items():
        yield
        subscription = Subscription(member.metadata.topics, member.metadata.regex)
        if subscription not in read:
            matches = work.matches.get(subscription.regex)
            names = subscription.topics if matches is None else subscription.topics | matches.topics
            read[subscription] = yield from _ids(names, topics, counts)
        former = work.targets.get(member_id, NO_PARTITIONS)
        members[member_id] = AssignedMember(read[subscription], member.instance_id, former)
    return members


def _ids(names: frozenset[str], topics: GroupTopics, counts: dict[TopicId, int]) -> Steps[tuple[TopicId, ...]]:
    ids: list[TopicId] = []
    for place, name in enumerate(sorted(names)):
        if (topic := topics.get(name)) is not None:
            ids.append(topic.id)
            # A topic may get more partitions in the meantime. All members see the number that the first one has seen.
            counts.setdefault(topic.id, topic.partition_count)
        if place % _A_STEP == 0:
            yield
    return tuple(sorted(ids))


# ---- writing --------------------------------------------------------------------------------------------------------


def decide_made(
    group: ConsumerGroup, made: MadeTarget, start: int, settings: GroupSettings, now: Moment
) -> ShardDecision[int | None]:
    """Write the changes of a target from `start` on, as many as fit into a batch. Return where to continue, or None if
    the target is complete or no longer needed."""
    # The group may have a newer target by now, or be another group with that name.
    is_newer = group.target_epoch < made.group_epoch.epoch <= group.epoch
    if not is_newer or group.group_epoch.created_ms != made.group_epoch.created_ms:
        return ShardDecision(None)
    with Draft(group, now) as draft:
        place = _write(draft, made, start, settings)
        if place is None:
            # This was what the group has asked for. It may ask for the next one.
            draft.memory.append(TargetAsked(group.group_id, made.group_epoch.epoch, now.at))
        return draft.decision(place)


def _write(draft: Draft, made: MadeTarget, start: int, settings: GroupSettings) -> int | None:
    group, most_bytes = draft.group, settings.max_record_bytes
    for place, change in enumerate(islice(made.changes, start, None), start):
        if place - start == _A_PART:
            return place
        # The member may have gone, or come back under another id.
        member = group.members.get(change.member_id) or group.by_instance(change.instance_id)
        if member is None:
            continue
        # Half of a batch is left to whatever else the decision writes. A larger record is alone in its batch.
        room_bytes = most_bytes // 2 if draft.size_bytes else most_bytes
        if draft.write_within(room_bytes, TargetKey(group.group_id, member.member_id), change.target):
            continue
        if draft.size_bytes:
            return place
        raise errors.too_much(group.group_id, member.member_id, count(change.target), most_bytes)
    complete = TargetEpoch(made.group_epoch.epoch, draft.now.wall_ms)
    if not draft.write_within(most_bytes, TargetEpochKey(group.group_id), complete):
        return len(made.changes)
    draft.note(Kind.TARGET, f"{made.assignor} assigned to {counted(made.members, 'member')}", moved=made.moved)
    return None
