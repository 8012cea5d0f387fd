"""The target of a group: made when its epoch is ahead, and at most once in an assignment interval (KIP-1263)."""

from __future__ import annotations

from ottla_core.model import TopicId
from ottla_core.plural import counted
from ottla_group_coordinator.machines.consumer.assignors import ASSIGNORS, AssignedMember
from ottla_group_coordinator.machines.consumer.draft import Draft
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup, Subscription
from ottla_group_coordinator.machines.consumer.partitions import NO_PARTITIONS, Partitions, each
from ottla_group_coordinator.machines.consumer.records import TargetEpoch, TargetEpochKey, TargetKey
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.history import Kind


def make_target(draft: Draft, topics: GroupTopics, settings: ConsumerSettings) -> None:
    """Make the target of the group's epoch, unless the last one was made a moment ago."""
    group = draft.group
    if group.is_assigned or not _is_due(draft, settings):
        return
    name = group.assignor(settings.assignors[0])
    ids: dict[Subscription, frozenset[TopicId]] = {}
    counts: dict[TopicId, int] = {}
    for subscription in group.subscriptions:
        read = [topic for n in sorted(group.topics_of(subscription)) if (topic := topics.get(n)) is not None]
        counts.update((topic.id, topic.partition_count) for topic in read)
        ids[subscription] = frozenset(topic.id for topic in read)
    members = {
        member_id: AssignedMember(
            ids[Subscription(member.metadata.topics, member.metadata.regex)],
            member.instance_id,
            group.target(member_id),
        )
        for member_id, member in group.members.items()
    }
    moved = 0
    for member_id, target in ASSIGNORS[name](members, counts).items():
        former = group.targets.get(member_id)
        if target != (former or NO_PARTITIONS) or former is None:
            moved += _moved(group, member_id, target)
            draft.write(TargetKey(group.group_id, member_id), target)
    draft.write(TargetEpochKey(group.group_id), TargetEpoch(group.epoch, draft.now.wall_ms))
    draft.note(Kind.TARGET, f"{name} assigned to {counted(len(members), 'member')}", moved=moved)


def _is_due(draft: Draft, settings: ConsumerSettings) -> bool:
    made_ms = 0 if draft.group.assigned is None else draft.group.assigned.made_ms
    return not made_ms or draft.now.wall_ms >= made_ms + settings.assignment_interval_ms


def _moved(group: ConsumerGroup, member_id: str, target: Partitions) -> int:
    """Return how many partitions of the target another member owns."""
    return sum(group.owner(topic_id, number) not in (None, member_id) for topic_id, number in each(target))
