"""A group changes its protocol: from the classic one to the consumer protocol, and back.

A group with members changes without a stop (`group.consumer.migration.policy`). The first member that joins with the
consumer protocol upgrades it, and when the last such member has gone, it is downgraded. In between it is a consumer
group with classic members (`consumer.classic_members`), which keep their partitions. An empty group takes the protocol
of the next member that joins. Epochs and generations continue either way, so no old commit passes for a new one.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, NamedTuple

from ottla_core.coordination.batches import record_limit, size_limit
from ottla_core.coordination.shard import Entry, Record, Resolve
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    PROTOCOL_TYPE,
    MemberAssignment,
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from ottla_core.model import TopicId, TopicPartition
from ottla_group_coordinator.machines.consumer.draft import Awaits, Draft, MemberTimer
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import (
    ClassicProtocols,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
)
from ottla_group_coordinator.machines.consumer.partitions import (
    EpochOfPartition,
    Partitions,
    count,
    each,
    union,
    without_epochs,
)
from ottla_group_coordinator.machines.consumer.records import (
    FIRST_EPOCH,
    CurrentKey,
    GroupEpoch,
    GroupEpochKey,
    MemberKey,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
    encode_consumer_key,
)
from ottla_group_coordinator.machines.consumer.states import MemberState
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.names import too_long
from ottla_group_coordinator.machines.rebalance import begin
from ottla_group_coordinator.machines.records import GroupKey, GroupRecord, MemberRecord, encode_group, encode_key
from ottla_group_coordinator.machines.responses import rebalance_in_progress
from ottla_group_coordinator.machines.states import GroupState
from ottla_group_coordinator.machines.transition import RebalanceTimer, SessionTimer, Transition

_NAMELESS: Final = MemberRecord("", "", "", "", 0, 0, b"", encode_assignment(MemberAssignment(())))
_LEAST_BYTES_OF_MEMBER: Final = (
    len(encode_group(GroupRecord("", 0, None, None, 0, (_NAMELESS,))))
    - len(encode_group(GroupRecord("", 0, None, None, 0)))
    + 2 * record_limit(Entry(encode_consumer_key(MemberKey("", "")), None))
)
"""The fewest bytes of a downgrade for each member, without its names and data. They include two tombstones. A third one
deletes its target, if it has one."""

_PARTITION_BYTES: Final = 4

_DOWNGRADED: Final = "the group was downgraded, because its last member of the consumer protocol has gone"


def first_epoch(classic: Group) -> int:
    return max(FIRST_EPOCH, classic.generation)


def classic_tombstone(group_id: str) -> Entry:
    return Entry(encode_key(GroupKey(group_id)), None)


# ---- upgrade ------------------------------------------------------------------------------------------------------


def check_upgrade(classic: Group, settings: GroupSettings) -> None:
    """Raise GROUP_ID_NOT_FOUND unless the group, which has members, may change to the consumer protocol."""
    consumer = settings.consumer.of(classic.group_id)
    if not consumer.migration_policy.may_upgrade:
        raise _stays_classic(
            classic.group_id,
            f"group.consumer.migration.policy is {consumer.migration_policy.value}",
            "stop all of its members first, or set the policy to bidirectional",
        )
    if not classic.is_consumers:
        raise _stays_classic(
            classic.group_id, f"its protocol type is {classic.protocol_type!r}", "choose another group.id"
        )
    if len(classic.members) > consumer.max_size:
        raise _stays_classic(
            classic.group_id,
            f"it has {len(classic.members)} members, more than group.consumer.max.size",
            "raise group.consumer.max.size, or run fewer members",
        )


def upgrade(draft: Draft, classic: Group, topics: GroupTopics) -> None:
    """Move the members of the classic group, with their assignments, to the draft's. Raises GROUP_ID_NOT_FOUND."""
    group = draft.group
    for member in classic.members.values():
        for waiting in (member.joining, member.syncing):
            if waiting is not None:
                draft.effects.append(Resolve(waiting, rebalance_in_progress(group.group_id)))
        _take_over(draft, member, classic, topics)
    draft.timers[RebalanceTimer(group.group_id)] = None
    # No hash of topics is written, so the join that follows begins an epoch even if a static member has only come back.
    # The target of this epoch replaces a rebalance that was under way, and covers what the leader has not assigned.
    draft.write(GroupEpochKey(group.group_id), GroupEpoch(first_epoch(classic), created_ms=draft.now.wall_ms))
    draft.write(TargetEpochKey(group.group_id), TargetEpoch(first_epoch(classic)))
    draft.add(classic_tombstone(group.group_id))
    draft.note(Kind.MIGRATED, "the group was upgraded, because its first member of the consumer protocol has joined")


def check_upgrade_size(classic: Group, records: Sequence[Record], settings: GroupSettings) -> None:
    """Raise GROUP_ID_NOT_FOUND if the upgrade and the join that causes it take more than a batch."""
    size_bytes = size_limit(records)
    if size_bytes > settings.max_record_bytes:
        raise _stays_classic(
            classic.group_id,
            f"the records of its {len(classic.members)} members take {size_bytes} bytes, more than the "
            f"{settings.max_record_bytes} bytes of a batch",
            "stop all of its members first, or run fewer members",
        )


def _take_over(draft: Draft, member: Member, classic: Group, topics: GroupTopics) -> None:
    group, group_id, member_id = draft.group, draft.group.group_id, member.member_id
    try:
        first = next(iter(member.protocols.values()), b"")
        subscription = decode_subscription(member.metadata(classic.protocol) or first)
        made = decode_assignment(member.assignment)
    except OttlaError as error:
        raise _stays_classic(
            group_id, f"the data of its member {member_id} can't be read: {error.message}", "stop that member first"
        ) from error
    if made.user_data:
        raise _stays_classic(
            group_id,
            f"the assignment of its member {member_id} has data of a custom assignor, which would be lost",
            "stop all of its members first, or change to an assignor that keeps no data",
        )
    protocols = ClassicProtocols(member.session_timeout_ms, tuple(member.protocols.items()))
    metadata = MemberMetadata(
        member.instance_id,
        subscription.rack,
        member.client_id,
        member.client_host,
        frozenset(subscription.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=protocols,
    )
    assigned: dict[TopicId, dict[int, int]] = {}
    for topic_id, number in each(partitions_of(made.partitions, topics)):
        # A leader may have assigned a partition twice. Only one member can own it here.
        if group.owner(topic_id, number) is None:
            assigned.setdefault(topic_id, {})[number] = classic.generation
    current = CurrentAssignment(classic.generation, classic.generation, MemberState.STABLE, assigned)
    draft.write(MemberKey(group_id, member_id), metadata)
    draft.write(TargetKey(group_id, member_id), without_epochs(assigned))
    draft.write(CurrentKey(group_id, member_id), current)
    draft.timers[SessionTimer(group_id, member_id)] = None
    draft.timers[MemberTimer(group_id, member_id, Awaits.SESSION)] = draft.now.at + member.session_timeout_ms / 1000


def partitions_of(named: tuple[TopicPartition, ...], topics: GroupTopics) -> Partitions:
    """Return those of the partitions that exist, by the ids of their topics."""
    found: dict[TopicId, frozenset[int]] = {}
    by_topic: dict[str, set[int]] = {}
    for name, number in named:
        by_topic.setdefault(name, set()).add(number)
    for name, numbers in by_topic.items():
        topic = topics.get(name)
        if topic is not None and (existing := {n for n in numbers if 0 <= n < topic.partition_count}):
            found[topic.id] = frozenset(existing)
    return found


def named_partitions(partitions: Partitions | EpochOfPartition, topics: GroupTopics) -> bytes:
    """Return an assignment in the format of the classic protocol, without partitions of deleted topics."""
    named = ((topics.name(topic_id), number) for topic_id, number in each(partitions))
    return encode_assignment(MemberAssignment(tuple(TopicPartition(name, n) for name, n in named if name is not None)))


def _stays_classic(group_id: str, reason: str, hint: str) -> OttlaError:
    return OttlaError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"group {group_id} uses the classic protocol and can't change to the consumer protocol: {reason}",
        hint=hint,
    )


# ---- downgrade ----------------------------------------------------------------------------------------------------


def may_downgrade(group: ConsumerGroup, settings: GroupSettings) -> bool:
    """Return whether the group now has only classic members, and may become a classic group again.

    This is called only when a member of the consumer protocol has gone. Otherwise a group of thousands that is too
    large for a downgrade would try it with each request of its classic members.
    """
    return (
        group.is_all_classic
        and len(group.members) <= settings.max_size
        and settings.consumer.of(group.group_id).migration_policy.may_downgrade
    )


class Rejoining(NamedTuple):
    """A member whose join, under this key, downgrades its group. It need not join again."""

    member_id: str
    key: Hashable


def downgrade(draft: Draft, topics: GroupTopics, settings: GroupSettings, joining: Rejoining | None = None) -> bool:
    """Make the draft's group a classic one, whose members then join again for a new assignment. If its records can't be
    written, change nothing and return False."""
    group = draft.group
    if not _may_be_written(group, settings.max_record_bytes):
        return False
    classic = _classic(group, topics)
    tombstones = group.tombstones()
    written = Entry(encode_key(GroupKey(group.group_id)), encode_group(classic.record()))
    if draft.size_with((*tombstones, written)) > settings.max_record_bytes:
        return False
    for entry in (written, *tombstones):
        draft.add(entry)
    draft.cancel_timers(group.members)
    step = Transition(classic, draft.now)
    for member in list(step.group.members.values()):
        step.start_session(member)
    step.note(Kind.MIGRATED, _DOWNGRADED)
    if joining is not None:
        step.change(step.group.members[joining.member_id], joining=joining.key)
        step.end_session(joining.member_id)
    begin(step, _DOWNGRADED, settings.initial_rebalance_delay_ms)
    draft.include(step.decision(None))
    return True


def _may_be_written(group: ConsumerGroup, most_bytes: int) -> bool:
    """Return False if the records of a downgrade have a name that is too long, or clearly too many bytes.

    This takes a fraction of the time that encoding them takes.
    """
    for member in group.members.values():
        classic = member.metadata.classic
        assert classic is not None
        names = (member.member_id, member.instance_id or "", member.client_id, member.client_host)
        if too_long((*names, *classic.names)):
            return False
        most_bytes -= _LEAST_BYTES_OF_MEMBER + sum(map(len, names)) + 2 * len(group.group_id + member.member_id)
        most_bytes -= min((len(data) for _, data in classic.protocols), default=0)
        most_bytes -= _PARTITION_BYTES * (count(member.current.assigned) + count(member.current.revoking))
        if most_bytes < 0:
            return False
    return True


def _classic(group: ConsumerGroup, topics: GroupTopics) -> Group:
    """Return the group as a classic one. It has no leader, because its members have yet to join
    (`decide_resume`)."""
    classic = Group(group.group_id, GroupState.STABLE, PROTOCOL_TYPE, group.epoch)
    for member in group.members.values():
        classic.members.put(_classic_member(member, topics))
    classic.protocol = classic.members.vote()
    return classic


def _classic_member(member: ConsumerMember, topics: GroupTopics) -> Member:
    """Return the member with all partitions that it still owns, of which its target may lack some. If the group were
    upgraded before the member has joined again, the missing partitions would go to others."""
    metadata, current = member.metadata, member.current
    assert metadata.classic is not None
    return Member(
        member.member_id,
        metadata.instance_id,
        metadata.client_id,
        metadata.client_host,
        metadata.rebalance_timeout_ms,
        metadata.classic.session_timeout_ms,
        dict(metadata.classic.protocols),
        named_partitions(without_epochs(union(current.assigned, current.revoking)), topics),
    )
