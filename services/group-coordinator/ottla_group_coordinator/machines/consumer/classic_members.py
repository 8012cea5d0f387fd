"""Members of the classic protocol in a consumer group: the responses that they get while the group migrates.

They join, synchronize and send heartbeats as in a classic group, but no member waits for another, and none leads. A
join is the member's next step towards its target, and is answered at once with the member's epoch as its generation. A
heartbeat gets REBALANCE_IN_PROGRESS whenever the member can take another step. Source: GroupMetadataManager of Apache
Kafka.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla_core.coordination.shard import Later, ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE, Subscription, decode_subscription
from ottla_group_coordinator.machines.consumer.departure import member_of, remove
from ottla_group_coordinator.machines.consumer.draft import Awaits, Draft, MemberTimer
from ottla_group_coordinator.machines.consumer.group import Awaited, ClassicStep, ConsumerGroup
from ottla_group_coordinator.machines.consumer.heartbeat import cause_of, check_room, replace_static, step, update_epoch
from ottla_group_coordinator.machines.consumer.member import (
    ClassicProtocols,
    ConsumerMember,
)
from ottla_group_coordinator.machines.consumer.partitions import each
from ottla_group_coordinator.machines.consumer.records import MemberKey
from ottla_group_coordinator.machines.consumer.states import MemberState
from ottla_group_coordinator.machines.consumer.target import make_target
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.membership import CallerIdentity, GroupSettings, Join, Sync
from ottla_group_coordinator.machines.migration import (
    Rejoining,
    downgrade,
    may_downgrade,
    named_partitions,
    partitions_of,
)
from ottla_group_coordinator.machines.responses import (
    Joined,
    MemberIdRequiredError,
    Synced,
    illegal_generation,
    inconsistent,
    rebalance_in_progress,
    unknown_member,
)


def decide_join_of_classic(
    group: ConsumerGroup, request: Join, topics: GroupTopics, settings: GroupSettings, now: Moment
) -> ShardDecision[Any]:
    """Have a classic member take its next step. Raises Kafka's errors, and MemberIdRequiredError."""
    identity = request.identity
    member_id = identity.member_id or request.fresh_id
    check_room(group, member_id, identity.instance_id, settings.consumer.of(group.group_id))
    subscription = _check_join(group, request, member_id)
    if not identity.member_id and identity.instance_id is None and request.member_id_required:
        return ShardDecision(MemberIdRequiredError(request.fresh_id))
    with Draft(group, now) as draft:
        former = _admit(draft, identity, member_id)
        was_consumer = former.member_id in group.members and not former.is_classic
        cause = cause_of(group, former, request.client_id)
        member = _put(draft, former, request, subscription)
        is_other = former.metadata.regex != "" or former.metadata.topics != member.metadata.topics
        update_epoch(draft, topics, cause, is_other=is_other)
        # The member may have replaced the last member of the consumer protocol.
        joining = Rejoining(member.member_id, request.key)
        if was_consumer and may_downgrade(group, settings) and downgrade(draft, topics, settings, joining):
            return draft.decision(Later(request.key))
        make_target(draft, topics, settings)
        current = step(draft, group.members[member.member_id], partitions_of(subscription.owned, topics), topics)
        _start_session(draft, member)
        _await(draft, member, ClassicStep.SYNC)
        protocol = next(iter(request.protocols))
        return draft.decision(Joined(current.epoch, PROTOCOL_TYPE, protocol, "", member.member_id))


def _check_join(group: ConsumerGroup, request: Join, member_id: str) -> Subscription:
    """Return the member's subscription. Raises INCONSISTENT_GROUP_PROTOCOL."""
    former = group.members.get(member_id) or group.by_instance(request.identity.instance_id)
    own = former.metadata.classic if former is not None else None
    others = group.classic_members - (own is not None)
    own_names = set() if own is None else set(own.names)
    common = [name for name in request.protocols if group.classic_protocols[name] - (name in own_names) == others]
    if request.protocol_type != PROTOCOL_TYPE or not common:
        raise inconsistent(
            group.group_id,
            f"it offers {request.protocol_type} with {', '.join(request.protocols) or 'nothing'}, "
            "and the group's classic members use other protocols",
        )
    return decode_subscription(next(iter(request.protocols.values())))


def _admit(draft: Draft, identity: CallerIdentity, member_id: str) -> ConsumerMember:
    group = draft.group
    if identity.instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if identity.member_id:
        return member_of(group, member_id, identity.instance_id)
    static = group.by_instance(identity.instance_id)
    if static is None:
        return ConsumerMember(member_id)
    replace_static(draft, static, member_id)
    return group.members[member_id]


def _put(draft: Draft, former: ConsumerMember, request: Join, subscription: Subscription) -> ConsumerMember:
    was = former.metadata
    metadata = was._replace(
        instance_id=request.identity.instance_id or was.instance_id,
        rack=subscription.rack or was.rack,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=frozenset(subscription.topics),
        regex="",
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        classic=ClassicProtocols(request.session_timeout_ms, tuple(request.protocols.items())),
    )
    is_new = former.member_id not in draft.group.members
    if is_new or metadata != was:
        draft.write(MemberKey(draft.group.group_id, former.member_id), metadata)
    member = draft.group.members[former.member_id]
    if is_new:
        draft.note(Kind.JOINED, request.reason or "joined, with the classic protocol", member)
    return member


def decide_sync_of_classic(group: ConsumerGroup, request: Sync, topics: GroupTopics, now: Moment) -> ShardDecision[Any]:
    """Return the assignment of a classic member."""
    member = _classic_member(group, request.identity)
    assert member.metadata.classic is not None
    if request.generation != member.epoch:
        raise illegal_generation(group.group_id, request.generation, member.epoch)
    protocol = member.metadata.classic.names[0]
    for named, agreed in ((request.protocol_type, PROTOCOL_TYPE), (request.protocol, protocol)):
        if named and named != agreed:
            raise inconsistent(group.group_id, f"it synchronizes with {named}, but has joined with {agreed}")
    with Draft(group, now) as draft:
        if _has_to_join(group, member):
            _await(draft, member, ClassicStep.JOIN)
            return draft.decision(rebalance_in_progress(group.group_id))
        _start_session(draft, member)
        _await(draft, member, None)
        return draft.decision(Synced(PROTOCOL_TYPE, protocol, named_partitions(member.current.assigned, topics)))


def decide_heartbeat_of_classic(
    group: ConsumerGroup, identity: CallerIdentity, generation: int, now: Moment
) -> ShardDecision[Any]:
    """Continue the session of a classic member. The response is REBALANCE_IN_PROGRESS if it can take a step."""
    member = _classic_member(group, identity)
    if generation != member.epoch:
        raise illegal_generation(group.group_id, generation, member.epoch)
    with Draft(group, now) as draft:
        _start_session(draft, member)
        if not _can_step(group, member):
            return draft.decision(None)
        _await(draft, member, ClassicStep.JOIN)
        return draft.decision(rebalance_in_progress(group.group_id))


def decide_leave_of_classic(
    group: ConsumerGroup,
    leavers: Sequence[tuple[CallerIdentity, str]],
    topics: GroupTopics,
    settings: GroupSettings,
    now: Moment,
) -> ShardDecision[list[OttlaError | None]]:
    """Remove the members, which an administrator may choose of both protocols. Each has an outcome of its own."""
    outcomes: list[OttlaError | None] = []
    gone: dict[str, ConsumerMember] = {}
    for identity, _ in leavers:
        try:
            member = _leaver(group, identity)
            if member.member_id in gone:
                raise unknown_member(group.group_id, member.member_id)
            gone[member.member_id] = member
            outcomes.append(None)
        except OttlaError as error:
            outcomes.append(error)
    if not gone:
        return ShardDecision(outcomes)
    with Draft(group, now) as draft:
        remove(draft, list(gone.values()), Kind.LEFT, "left", topics, settings)
        return draft.decision(outcomes)


def _leaver(group: ConsumerGroup, identity: CallerIdentity) -> ConsumerMember:
    if identity.instance_id is not None and not identity.member_id:
        static = group.by_instance(identity.instance_id)
        identity = CallerIdentity("" if static is None else static.member_id, identity.instance_id)
    return member_of(group, identity.member_id, identity.instance_id)


def _classic_member(group: ConsumerGroup, identity: CallerIdentity) -> ConsumerMember:
    member = member_of(group, identity.member_id, identity.instance_id)
    if not member.is_classic:
        raise OttlaError(
            ErrorCode.UNKNOWN_MEMBER_ID,
            f"member {member.member_id!r} of group {group.group_id} uses the consumer protocol",
            hint="a member has to keep to the protocol with which it has joined",
        )
    return member


def _has_to_join(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Return whether the member gets its assignment only by another join."""
    # A join leads to the target's epoch. If the group's epoch counted, clients would join again and again, without a
    # pause and without an assignment, until the next target is made. A member that has to give up partitions learns
    # that from this response. Its next heartbeat has it join again.
    return group.target_epoch > member.epoch and member.current.state is not MemberState.UNREVOKED


def _can_step(group: ConsumerGroup, member: ConsumerMember) -> bool:
    match member.current.state:
        case MemberState.UNREVOKED:
            return True
        case MemberState.UNRELEASED:
            owners = (group.owner(t, n) for t, n in each(group.target(member.member_id)))
            is_free = all(owner in (None, member.member_id) for owner in owners)
            return is_free or member.epoch < group.epoch
        case MemberState.STABLE:
            return member.epoch < group.epoch


def _start_session(draft: Draft, member: ConsumerMember) -> None:
    assert member.metadata.classic is not None
    timeout_s = member.metadata.classic.session_timeout_ms / 1000
    draft.timers[MemberTimer(draft.group.group_id, member.member_id, Awaits.SESSION)] = draft.now.at + timeout_s


def _await(draft: Draft, member: ConsumerMember, awaited: ClassicStep | None) -> None:
    """Give the member its rebalance timeout for this step. The time does not begin again if the step is already
    awaited."""
    group_id, member_id = draft.group.group_id, member.member_id
    if draft.group.awaited.get(member_id) is awaited:
        return
    draft.memory.append(Awaited(group_id, member_id, awaited))
    at = None if awaited is None else draft.now.at + member.metadata.rebalance_timeout_ms / 1000
    draft.timers[MemberTimer(group_id, member_id, Awaits.CLASSIC_STEP)] = at
