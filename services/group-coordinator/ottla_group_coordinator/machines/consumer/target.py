"""The target of a group: made when its epoch is ahead, and at most once in an assignment interval (KIP-1263).

The target of a small group is made in the decision that needs it, so a member that joins hears its assignment at once.
That of a large group takes longer than a decision may. So the decision only asks for it (`AssignTarget`), the service
makes it in slices from the group as it is then (`TargetWork`), and later decisions write it down (`decide_made`).
Members go on by the former target until then.

The group may have gone on in the meantime. What was made still counts, for the epoch that it was made for. If it did
not, a group that members join all the time would never have a target. Members that have come since get nothing yet, and
the next target follows after the assignment interval.
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
from ottla_group_coordinator.machines.consumer.partitions import NO_PARTITIONS, Partitions, count, shared
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
"""The work of a target that is made at once, counted in topics that a member reads, and partitions. A member counts as
some more of them."""

_OF_A_MEMBER: Final = 4
_A_PART: Final = 2_500
"""The most members of a large group whose targets are written in one decision."""

_ASK_AGAIN_S: Final = 10.0
"""How long a group waits for a target before it asks for it again. What was asked may have been lost."""

_A_STEP: Final = 500
"""How many topics are looked up in one step."""


class AssignTarget(NamedTuple):
    """Asks, as an effect, for the target of a group that is too large for one decision."""

    group: str


class TargetWork(NamedTuple):
    """What a target is made of: a group at one moment. Nothing of it changes afterwards."""

    epoch: GroupEpoch
    assignor: str
    members: Mapping[str, ConsumerMember]
    targets: Mapping[str, Partitions]
    matches: Mapping[str, ResolvedRegex]


class TargetChange(NamedTuple):
    member_id: str
    instance_id: str | None
    target: Partitions


class MadeTarget(NamedTuple):
    """A target, as far as it differs from the former one. `moved` is how many partitions have another reader."""

    epoch: GroupEpoch
    assignor: str
    members: int
    changes: Sequence[TargetChange]
    moved: int


def make_target(draft: Draft, topics: GroupTopics, settings: GroupSettings) -> None:
    """Make the target of the group's epoch, or ask for it, unless the last one was made a moment ago.

    A target that does not go into one batch is written with several heartbeats, and counts once it is complete. What
    members lose comes first: then each heartbeat comes to the same target.
    """
    group, consumer = draft.group, settings.consumer.of(draft.group.group_id)
    if group.is_assigned or not _is_due(draft, consumer) or _is_asked(draft):
        return
    if _is_small(group, topics):
        made = finished(made_target(target_work(group, consumer), topics))
        _write(draft, made, 0, settings)
        return
    if group.assigned is None:
        # Its first member gets the epoch of the empty target, and no coordinator must take that for a later one.
        draft.write(TargetEpochKey(group.group_id), TargetEpoch(group.target_epoch))
    draft.effects.append(AssignTarget(group.group_id))
    draft.memory.append(TargetAsked(group.group_id, group.epoch, draft.now.at))


def _is_due(draft: Draft, settings: ConsumerSettings) -> bool:
    made_ms = 0 if draft.group.assigned is None else draft.group.assigned.made_ms
    # A time that is still to come is that of another coordinator, whose clock is ahead.
    return not 0 <= draft.now.wall_ms - made_ms < settings.assignment_interval_ms


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


# ---- making it ----------------------------------------------------------------------------------------------------


def target_work(group: ConsumerGroup, settings: ConsumerSettings) -> TargetWork:
    assignor = group.assignor(settings.assignors)
    return TargetWork(group.group_epoch, assignor, group.members.copy(), group.targets.copy(), group.resolved.copy())


def made_target(work: TargetWork, topics: GroupTopics) -> Steps[MadeTarget]:
    """Make the target of the group as it was. What members lose comes first."""
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
        target = {t: shared(numbers) for t, numbers in target.items()}
        change = TargetChange(member_id, members[member_id].instance_id, target)
        changes.append((count(target) - count(former), change))
    changes.sort(key=lambda change: change[0])
    return MadeTarget(work.epoch, work.assignor, len(members), [change for _, change in changes], moved)


def _assigned_members(
    work: TargetWork, topics: GroupTopics, counts: dict[TopicId, int]
) -> Steps[dict[str, AssignedMember]]:
    """Return the members with the topics that they read. Put into `counts` how many partitions each of these has."""
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
            # All members see the topic with as many partitions as the first one, though it may get more on the way.
            counts.setdefault(topic.id, topic.partition_count)
        if place % _A_STEP == 0:
            yield
    return tuple(sorted(ids))


# ---- writing it down ----------------------------------------------------------------------------------------------


def decide_made(
    group: ConsumerGroup, made: MadeTarget, start: int, settings: GroupSettings, now: Moment
) -> ShardDecision[int | None]:
    """Write the changes of a target from `start` on, as many as go into a batch. Return where to go on, or None if that
    was all, or the group needs it no longer."""
    # It may have another target by now, or be another group of that name.
    is_newer = group.target_epoch < made.epoch.epoch <= group.epoch
    if not is_newer or group.group_epoch.created_ms != made.epoch.created_ms:
        return ShardDecision(None)
    with Draft(group, now) as draft:
        return draft.decision(_write(draft, made, start, settings))


def _write(draft: Draft, made: MadeTarget, start: int, settings: GroupSettings) -> int | None:
    group, left_bytes = draft.group, settings.max_record_bytes // 2
    for place, change in enumerate(islice(made.changes, start, None), start):
        if left_bytes < 0 or place - start == _A_PART:
            return place
        # The member may have gone, or come back under another id.
        member = group.members.get(change.member_id) or group.by_instance(change.instance_id)
        if member is not None:
            size_bytes = draft.write(TargetKey(group.group_id, member.member_id), change.target)
            if size_bytes > settings.max_record_bytes:
                raise errors.too_much(group.group_id, member.member_id, count(change.target), settings.max_record_bytes)
            left_bytes -= size_bytes
    draft.write(TargetEpochKey(group.group_id), TargetEpoch(made.epoch.epoch, draft.now.wall_ms))
    draft.note(Kind.TARGET, f"{made.assignor} assigned to {counted(made.members, 'member')}", moved=made.moved)
    return None
