"""Members that leave, miss their heartbeats, or do not give their partitions up in time."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_group_coordinator.machines.consumer.draft import Awaits, Draft, MemberTimer
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import LEAVES_FOR_NOW, ConsumerMember
from ottla_group_coordinator.machines.consumer.partitions import NO_EPOCHS
from ottla_group_coordinator.machines.consumer.records import (
    LAST_EPOCH,
    CurrentKey,
    MemberKey,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
)
from ottla_group_coordinator.machines.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_group_coordinator.machines.consumer.states import MemberState
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.membership import GroupSettings
from ottla_group_coordinator.machines.migration import downgrade, may_downgrade
from ottla_group_coordinator.machines.responses import fenced_instance, unknown_member


def decide_consumer_leave(
    group: ConsumerGroup, request: ConsumerHeartbeat, topics: GroupTopics, settings: GroupSettings, now: Moment
) -> ShardDecision[ConsumerHeartbeatAnswer]:
    """Have a member leave, for good or, if it is static, for now. Raises UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    member = member_of(group, request.member_id, request.instance_id)
    with Draft(group, now) as draft:
        if request.epoch == LEAVES_FOR_NOW:
            # It keeps its assignment until its session ends, except for partitions that it had to give up.
            current = member.current._replace(epoch=LEAVES_FOR_NOW, revoking=NO_EPOCHS)
            draft.write(CurrentKey(group.group_id, member.member_id), current)
            draft.timers[MemberTimer(group.group_id, member.member_id, Awaits.REVOCATION)] = None
            draft.note(Kind.LEFT, "left for now; its place is kept until its session ends", member)
        else:
            remove(draft, [member], Kind.LEFT, "left", topics, settings)
        interval_ms = settings.consumer.of(group.group_id).heartbeat_interval_ms
        return draft.decision(ConsumerHeartbeatAnswer(member.member_id, request.epoch, interval_ms))


def decide_consumer_session_end(
    group: ConsumerGroup, member_id: str, topics: GroupTopics, settings: GroupSettings, now: Moment
) -> ShardDecision[Any]:
    """Fence a member that has missed its heartbeats."""
    member = group.members.get(member_id)
    if member is None:
        return ShardDecision(None)
    with Draft(group, now) as draft:
        timeout_ms = _session_timeout_ms(member, settings.consumer.of(group.group_id))
        name = "session.timeout.ms" if member.is_classic else "consumer.session.timeout.ms"
        remove(draft, [member], Kind.EVICTED, f"sent no heartbeat for {timeout_ms} ms ({name})", topics, settings)
        return draft.decision(None)


def decide_revocation_end(
    group: ConsumerGroup, member_id: str, topics: GroupTopics, settings: GroupSettings, now: Moment
) -> ShardDecision[Any]:
    """Fence a member that has not given its partitions up in time."""
    member = group.members.get(member_id)
    if member is None or member.current.state is not MemberState.UNREVOKED:
        return ShardDecision(None)
    with Draft(group, now) as draft:
        cause = f"did not give its partitions up within {member.metadata.rebalance_timeout_ms} ms"
        remove(draft, [member], Kind.EVICTED, f"{cause} (max.poll.interval.ms)", topics, settings)
        return draft.decision(None)


def decide_classic_step_end(
    group: ConsumerGroup, member_id: str, topics: GroupTopics, settings: GroupSettings, now: Moment
) -> ShardDecision[Any]:
    """Fence a classic member that has not joined or synchronized in time."""
    member, awaited = group.members.get(member_id), group.awaited.get(member_id)
    if member is None or awaited is None:
        return ShardDecision(None)
    with Draft(group, now) as draft:
        cause = f"did not {awaited.value} within {member.metadata.rebalance_timeout_ms} ms (max.poll.interval.ms)"
        remove(draft, [member], Kind.EVICTED, cause, topics, settings)
        return draft.decision(None)


def decide_consumer_resume(group: ConsumerGroup, settings: ConsumerSettings, now: Moment) -> ShardDecision[None]:
    """Give every member a full session, and full time to give its partitions up, after a load."""
    with Draft(group, now) as draft:
        for member in group.members.values():
            draft.timers[MemberTimer(group.group_id, member.member_id, Awaits.SESSION)] = (
                now.at + _session_timeout_ms(member, settings) / 1000
            )
            if member.current.revoking and not member.is_classic:
                draft.timers[MemberTimer(group.group_id, member.member_id, Awaits.REVOCATION)] = (
                    now.at + member.metadata.rebalance_timeout_ms / 1000
                )
        if group.members:
            draft.note(Kind.LOADED, "this coordinator took over; it does not know what happened before")
        return draft.decision(None)


def _session_timeout_ms(member: ConsumerMember, settings: ConsumerSettings) -> int:
    classic = member.metadata.classic
    return settings.session_timeout_ms if classic is None else classic.session_timeout_ms


def member_of(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerMember:
    """Return the member that sent a request. Raises UNKNOWN_MEMBER_ID or FENCED_INSTANCE_ID."""
    if instance_id is not None:
        static = group.by_instance(instance_id)
        if static is not None and static.member_id != member_id:
            raise fenced_instance(instance_id, member_id)
        member = static
    else:
        member = group.members.get(member_id)
    if member is None:
        raise unknown_member(group.group_id, member_id)
    return member


def remove(
    draft: Draft,
    members: Collection[ConsumerMember],
    kind: Kind,
    cause: str,
    topics: GroupTopics,
    settings: GroupSettings,
) -> None:
    """Remove members, and begin the epoch in which others get their partitions. If the last member of the consumer
    protocol is among them, downgrade the group."""
    group = draft.group
    for member in members:
        drop(draft, member)
        draft.note(kind, cause, member)
    has_consumer = not all(member.is_classic for member in members)
    if has_consumer and may_downgrade(group, settings) and downgrade(draft, topics, settings):
        return
    if group.epoch == LAST_EPOCH:
        # No further epoch could give the partitions to others. Without members the group begins again.
        for entry in () if group.members else group.tombstones():
            draft.add(entry)
        return
    names = ", ".join(member.client_id or member.member_id for member in members)
    draft.begin_epoch(draft.topics_hash(topics), f"{names}: {cause}")
    # An empty group has nothing to assign, so its target gets the new epoch at once.
    if not group.members:
        draft.write(TargetEpochKey(group.group_id), TargetEpoch(group.epoch, draft.now.wall_ms))


def drop(draft: Draft, member: ConsumerMember) -> None:
    """Delete a member's records and timers."""
    group_id, member_id = draft.group.group_id, member.member_id
    draft.write(CurrentKey(group_id, member_id), None)
    if member_id in draft.group.targets:
        draft.write(TargetKey(group_id, member_id), None)
    draft.write(MemberKey(group_id, member_id), None)
    draft.cancel_timers([member_id])
