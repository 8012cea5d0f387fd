"""The target of a group: made when its epoch is ahead, and at most once in an assignment interval (KIP-1263)."""

from __future__ import annotations

from ottla_core.model import TopicId
from ottla_core.plural import counted
from ottla_group_coordinator.machines.consumer.assignors import ASSIGNORS, AssignedMember
from ottla_group_coordinator.machines.consumer.draft import Draft
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup, Subscription
from ottla_group_coordinator.machines.consumer.partitions import Partitions, count, each
from ottla_group_coordinator.machines.consumer.records import TargetEpoch, TargetEpochKey, TargetKey
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.membership import GroupSettings


def make_target(draft: Draft, topics: GroupTopics, settings: GroupSettings) -> None:
    """Make the target of the group's epoch, unless the last one was made a moment ago.

    A target that does not go into one batch is written with several heartbeats, and counts once it is complete. What
    members lose comes first: then each heartbeat comes to the same target.
    """
    group, consumer = draft.group, settings.consumer.of(draft.group.group_id)
    if group.is_assigned or not _is_due(draft, consumer):
        return
    name = group.assignor(consumer.assignors)
    members, counts = _subscribed(group, topics)
    made = ASSIGNORS[name](members, counts)
    changed = [who for who in made if group.targets.get(who) is None or made[who] != group.target(who)]
    changed.sort(key=lambda member_id: count(made[member_id]) - count(group.target(member_id)))
    left_bytes, moved = settings.max_record_bytes // 2, 0
    for member_id in changed:
        moved += _moved(group, member_id, made[member_id])
        left_bytes -= draft.write(TargetKey(group.group_id, member_id), made[member_id])
        if left_bytes < 0:
            return
    draft.write(TargetEpochKey(group.group_id), TargetEpoch(group.epoch, draft.now.wall_ms))
    draft.note(Kind.TARGET, f"{name} assigned to {counted(len(members), 'member')}", moved=moved)


def _subscribed(group: ConsumerGroup, topics: GroupTopics) -> tuple[dict[str, AssignedMember], dict[TopicId, int]]:
    """Return the members with the topics that they read, and how many partitions each of these has."""
    ids: dict[Subscription, frozenset[TopicId]] = {}
    counts: dict[TopicId, int] = {}
    for subscription in group.subscriptions:
        read = [topic for n in sorted(group.topics_of(subscription)) if (topic := topics.get(n)) is not None]
        counts.update((topic.id, topic.partition_count) for topic in read)
        ids[subscription] = frozenset(topic.id for topic in read)
    members: dict[str, AssignedMember] = {}
    for member_id, member in group.members.items():
        read_ids = ids[Subscription(member.metadata.topics, member.metadata.regex)]
        members[member_id] = AssignedMember(read_ids, member.instance_id, group.target(member_id))
    return members, counts


def _is_due(draft: Draft, settings: ConsumerSettings) -> bool:
    made_ms = 0 if draft.group.assigned is None else draft.group.assigned.made_ms
    # A time that is still to come is that of another coordinator, whose clock is ahead.
    return not 0 <= draft.now.wall_ms - made_ms < settings.assignment_interval_ms


def _moved(group: ConsumerGroup, member_id: str, target: Partitions) -> int:
    """Return how many partitions of the target another member owns."""
    return sum(group.owner(topic_id, number) not in (None, member_id) for topic_id, number in each(target))
