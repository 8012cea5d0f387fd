"""The requests of members are decided here: join, sync, heartbeat and leave.

This is Kafka's classic protocol. All members join, one of them assigns, and all get their assignment by a sync. Members
are processes that die, restart, pause and repeat their requests, and the coordinator can't tell a slow one from a dead
one. Four rules keep the group moving all the same. Each member has a session, which ends if nothing is heard of it
(KIP-62). A request that waits for others suspends the session, because its client is waiting for us. A new member gets
its id before it counts, so that a client that never saw the response leaves no member behind (KIP-394, rule 44). And a
static member that comes back takes its old place without a rebalance (KIP-345 and KIP-814, rule 45).

A request decides by the group as it is, and changes a copy (`transition`). The moves of the group are in `rebalance`.
Responses leave once the log has proved the state that they come from (`coordination.owner`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ottla_core.coordination.effects import ShardLimits
from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE, decode_assignment, decode_subscription
from ottla_core.plural import counted
from ottla_group_coordinator.machines.consumer.settings import ConsumerGroupsSettings
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import MOST_READ, Kind
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.names import check_names
from ottla_group_coordinator.machines.rebalance import (
    assign,
    begin,
    complete,
    complete_if_all_joined,
    drop,
    evict_unsynchronized,
    extend_initial_delay,
    joined,
    rebalance_without,
    reject_assignment,
    replace_instance,
    synced,
    synchronized,
)
from ottla_group_coordinator.machines.responses import (
    MemberIdRequiredError,
    fenced_instance,
    illegal_generation,
    inconsistent,
    rebalance_in_progress,
    too_large,
    unknown_member,
)
from ottla_group_coordinator.machines.states import GroupState
from ottla_group_coordinator.machines.transition import SessionTimer, Transition, session_ends_at

_MOST_PENDING: Final = 1_000
"""The most member ids of a group that were given out and did not come back yet (KIP-394). A client that joins again and
again without its id would otherwise make the coordinator remember all of them."""

_NEW_MEMBER_JOIN_MS: Final = 300_000
"""How long a new member may wait in its join. During that time nothing shows whether its client is gone (Kafka's
NewMemberJoinTimeoutMs)."""


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """The settings of groups. Their names are Kafka's, with dots: `group.initial.rebalance.delay.ms` and so on."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    max_size: int = 2**31 - 1
    max_record_bytes: int = ShardLimits().max_batch_bytes
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    retention_check_s: float = 600.0
    producer_expiration_s: float = 24 * 3600.0
    consumer: ConsumerGroupsSettings = field(default_factory=ConsumerGroupsSettings)


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """A member as it names itself."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Join:
    """A request to join. `fresh_id` is the member's id if it is new. `key` stands for the request while it waits."""

    identity: CallerIdentity
    fresh_id: str
    key: Hashable
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Mapping[str, bytes]
    client_id: str = ""
    client_host: str = ""
    member_id_required: bool = False
    skips_assignment: bool = False
    reason: str = ""

    def member(self, member_id: str) -> Member:
        return Member(
            member_id,
            self.identity.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.protocols,
            joining=self.key,
        )


@dataclass(frozen=True, slots=True)
class Sync:
    """A request to synchronize. `protocol_type` and `protocol` are compared unless empty. `assignments` are the
    leader's, by member id."""

    identity: CallerIdentity
    generation: int
    key: Hashable
    protocol_type: str = ""
    protocol: str = ""
    assignments: Mapping[str, bytes] | None = None


# ---- join -----------------------------------------------------------------------------------------------------------


def check_join(group_id: str, request: Join, settings: GroupSettings) -> None:
    """Raise for a request that no group would take, whichever its protocol."""
    if not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        raise OttlaError(
            ErrorCode.INVALID_SESSION_TIMEOUT,
            f"a session timeout of {request.session_timeout_ms} ms is not allowed",
            hint=f"set session.timeout.ms to a value from {settings.min_session_timeout_ms} to "
            f"{settings.max_session_timeout_ms}",
        )
    if not request.protocol_type or not request.protocols:
        raise inconsistent(group_id, "it names no protocol type or no protocols")
    check_names(
        (
            group_id,
            request.identity.member_id or request.fresh_id,
            request.identity.instance_id or "",
            request.client_id,
            request.client_host,
            request.protocol_type,
            *request.protocols,
        )
    )


def decide_join(group: Group, request: Join, settings: GroupSettings, now: Moment) -> ShardDecision[Any]:
    """Join the group, now or when the rebalance is complete. Raises Kafka's errors, and MemberIdRequiredError."""
    # Everything that may refuse the member is checked before the copy is changed, so a refusal leaves the group as it
    # was.
    _check_place(group, request, settings)
    step = Transition(group, now)
    current = step.group
    if request.identity.member_id:
        return _rejoin(step, request, settings)
    old = current.members.by_instance(request.identity.instance_id)
    if old is not None:
        return _replace_static(step, old, request, settings)
    # A static member needs no round trip for an id: its instance id distinguishes a repeat from a new member.
    if request.identity.instance_id is None and request.member_id_required:
        return _require_member_id(step, request)
    return _join_new(step, request.member(request.fresh_id), request, settings)


def _check_place(group: Group, request: Join, settings: GroupSettings) -> None:
    """Raise unless the member fits in with the others."""
    # A static member that comes back is compared with the others only. Its former process might be the only one with
    # the old assignor, and would keep it out.
    replaced = group.members.by_instance(request.identity.instance_id)
    own_id = request.identity.member_id or (replaced.member_id if replaced is not None else "")
    if not group.supports(request.protocol_type, request.protocols, but=own_id):
        raise inconsistent(
            group.group_id,
            f"it offers {request.protocol_type} with {', '.join(request.protocols)}, "
            f"and the members use {group.protocol_type} with other protocols",
        )
    if len(group.members) >= settings.max_size and own_id not in group.members:
        raise OttlaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {group.group_id} has {counted(len(group.members), 'member')}, which is the maximum",
            hint="raise group.max.size, or run fewer members",
        )


def _require_member_id(step: Transition, request: Join) -> ShardDecision[Any]:
    """Respond with the member's id.

    It is a response and not an exception, because the decision has to remember that the id was given out (rule 44).
    """
    if len(step.group.pending) >= _MOST_PENDING:
        raise OttlaError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
            f"group {step.group.group_id} is waiting for {len(step.group.pending)} members with new ids to join, and "
            "assigns no more ids until they do",
            hint="try again later: an id expires if no member joins with it within the session timeout",
        )
    step.await_member(request.fresh_id, request.session_timeout_ms)
    return step.decision(MemberIdRequiredError(request.fresh_id))


def _join_new(step: Transition, member: Member, request: Join, settings: GroupSettings) -> ShardDecision[Any]:
    group = step.group
    # It is one of the members now. As a pending one it would still be waited for (`Group.all_have_joined`).
    group.pending -= {member.member_id}
    # The first member decides what kind of group this is. The others have to be of the same kind.
    if not group.members:
        group.protocol_type = request.protocol_type
    step.put(member)
    step.note(Kind.JOINED, request.reason or "joined", member)
    _continue_rebalance(step, f"{member.client_id or member.member_id} joined", settings)
    _limit_wait(step, member)
    return step.later(request.key)


def _limit_wait(step: Transition, member: Member) -> None:
    """Bound the wait of a new member, because no heartbeat shows whether its client is gone."""
    still = step.group.members.get(member.member_id)
    if still is not None and still.joining is not None:
        step.await_response(member.member_id, _NEW_MEMBER_JOIN_MS)


def _continue_rebalance(step: Transition, cause: str, settings: GroupSettings) -> None:
    """Begin to rebalance because a member joins, or check whether all have joined."""
    group = step.group
    if group.state is not GroupState.PREPARING_REBALANCE:
        begin(step, cause, settings.initial_rebalance_delay_ms)
    elif group.initial_delay_until is not None:
        extend_initial_delay(step, settings.initial_rebalance_delay_ms)
    else:
        complete_if_all_joined(step)


def _rejoin(step: Transition, request: Join, settings: GroupSettings) -> ShardDecision[Any]:
    group, identity = step.group, request.identity
    if identity.member_id in group.pending and identity.instance_id is None:
        return _join_new(step, request.member(identity.member_id), request, settings)
    member = check_member(group, identity)
    # They are compared as lists, because the order of the protocols is the member's preference and counts in the vote.
    changed = list(member.protocols.items()) != list(request.protocols.items())
    if group.state is GroupState.EMPTY:
        raise unknown_member(group.group_id, identity.member_id)
    # The response to its join was lost. It gets the response again, and no member has to join a second time.
    if group.state is GroupState.COMPLETING_REBALANCE and not changed:
        _reject_former(step, member)
        step.start_session(step.change(member, syncing=None))
        return step.decision(joined(step, member))
    # A follower that joins unchanged has lost its response; a leader that does wants a rebalance (new partitions, say).
    if group.state is GroupState.STABLE and not changed and identity.member_id != group.leader:
        step.start_session(member)
        return step.decision(joined(step, member))
    _reject_former(step, member)
    # The previous assignment stays, because the next one is compared with it (`assign`).
    again = request.member(identity.member_id)._replace(assignment=member.assignment)
    step.put(again)
    step.end_session(identity.member_id)
    reason = f": {request.reason}" if request.reason else ""
    _continue_rebalance(step, f"{request.client_id or identity.member_id} asked to join again{reason}", settings)
    return step.later(request.key)


def _reject_former(step: Transition, member: Member) -> None:
    """Reject a request of this member that still waits, because its client has given it up."""
    for waiting in (member.joining, member.syncing):
        if waiting is not None:
            step.resolve(waiting, rebalance_in_progress(step.group.group_id))


def _replace_static(step: Transition, old: Member, request: Join, settings: GroupSettings) -> ShardDecision[Any]:
    """Replace a static member after a restart. If it has not changed, the others need not know (rule 45).

    A member that ended before it gave a partition up has forgotten the partition, and does not ask for the rebalance in
    which another member gets it. So the coordinator begins that rebalance. Kafka's does not: there the partition has no
    reader until something else makes the group rebalance.
    """
    group = step.group
    new = request.member(request.fresh_id)._replace(assignment=old.assignment)
    replace_instance(step, old, new)
    # The vote is compared too: the restarted process may no longer offer the assignor that the group uses.
    unchanged = _has_same_subscription(group, old, new) and group.members.vote() == group.protocol
    if group.state is GroupState.STABLE and unchanged and not _was_to_give_up(group, old):
        member = step.change(new, joining=None)
        step.write()
        step.start_session(member)
        is_leader = group.leader == member.member_id
        response = joined(step, member, skip_assignment=is_leader and request.skips_assignment)
        if is_leader and not request.skips_assignment:
            # An older client that hears that it leads would make another assignment, which a stable group does not ask
            # for. So it hears of another leader and keeps its assignment (KIP-814).
            response = replace(response, leader=old.member_id, members=())
        return step.decision(response)
    _continue_rebalance(
        step, f"static member {request.identity.instance_id} came back changed, or in a rebalance", settings
    )
    return step.later(request.key)


def _has_same_subscription(group: Group, old: Member, new: Member) -> bool:
    """Tell whether the member subscribes to the same things as before.

    For a consumer only its topics count. The rest of the metadata says what the member held, which its next process
    does not know.
    """
    was, now = old.metadata(group.protocol), new.metadata(group.protocol)
    if was == now or group.protocol_type != PROTOCOL_TYPE:
        return was == now
    try:
        topics = [set(decode_subscription(each, most=MOST_READ).topics) for each in (was, now)]
    except OttlaError:
        return False
    return topics[0] == topics[1]


def _was_to_give_up(group: Group, member: Member) -> bool:
    """Tell whether a consumer joined with partitions that its assignment takes away from it (KIP-429)."""
    if group.protocol_type != PROTOCOL_TYPE:
        return False
    try:
        held = decode_subscription(member.metadata(group.protocol), most=MOST_READ).owned
        return not set(held) <= set(decode_assignment(member.assignment, most=MOST_READ).partitions)
    except OttlaError:
        return False


# ---- sync -----------------------------------------------------------------------------------------------------------


def decide_sync(group: Group, request: Sync, settings: GroupSettings, now: Moment) -> ShardDecision[Any]:
    """Synchronize the member, now or when the leader has assigned."""
    check_member(group, request.identity)
    check_generation(group, request.generation)
    _check_protocol(group, request)
    if group.state is GroupState.PREPARING_REBALANCE:
        raise rebalance_in_progress(group.group_id)
    step = Transition(group, now)
    member = step.group.members[request.identity.member_id]
    # The response to an earlier sync was lost, or the member comes after the leader has assigned.
    if group.state is GroupState.STABLE:
        synchronized(step, [member])
        return step.decision(synced(step, member))
    _reject_former(step, member)
    step.change(member, syncing=request.key)
    step.end_session(member.member_id)
    if member.member_id == group.leader:
        assign(step, request.assignments or {})
        # The assignment is one record, and the log takes none that is larger. All members hear of it: they would wait
        # for an assignment that can't come.
        if step.size_bytes > settings.max_record_bytes:
            error = too_large(group.group_id, step.size_bytes, settings.max_record_bytes)
            step = Transition(group, now)
            reject_assignment(step, error, settings.initial_rebalance_delay_ms)
            return step.decision(error)
    return step.later(request.key)


def _check_protocol(group: Group, request: Sync) -> None:
    for named, agreed in ((request.protocol_type, group.protocol_type), (request.protocol, group.protocol)):
        if named and named != agreed:
            raise inconsistent(group.group_id, f"it synchronizes as {named}, where the group agreed on {agreed}")


# ---- heartbeat ------------------------------------------------------------------------------------------------------


def decide_heartbeat(group: Group, identity: CallerIdentity, generation: int, now: Moment) -> ShardDecision[Any]:
    """Continue the member's session. The response is REBALANCE_IN_PROGRESS if the member is to join again.

    Rule 48: a heartbeat during PreparingRebalance says so and still refreshes the session, or slow members would be
    evicted while they finish their records. It writes nothing, so the owner may respond from memory.
    """
    member = check_member(group, identity)
    check_generation(group, generation)
    if member.joining is not None or member.syncing is not None:
        return ShardDecision(None)  # it waits for its response, so its session has no end
    response = rebalance_in_progress(group.group_id) if group.state is GroupState.PREPARING_REBALANCE else None
    timer = SessionTimer(group.group_id, member.member_id)
    return ShardDecision(response, timers={timer: session_ends_at(member, now)})


# ---- leave ----------------------------------------------------------------------------------------------------------


def decide_leave(
    group: Group, leavers: Sequence[tuple[CallerIdentity, str]], settings: GroupSettings, now: Moment
) -> ShardDecision[list[OttlaError | None]]:
    """Have members leave, each with a reason and an outcome of its own. A static member may be named by its instance id
    alone."""
    step = Transition(group, now)
    outcomes: list[OttlaError | None] = []
    gone: list[str] = []
    for identity, reason in leavers:
        try:
            if identity.instance_id is None and identity.member_id in step.group.pending:
                step.group.pending -= {identity.member_id}
                step.end_session(identity.member_id)
            else:
                member = check_leaver(step.group, identity)
                drop(step, member, Kind.LEFT, reason or "left")
                gone.append(member.client_id or member.member_id)
            outcomes.append(None)
        except OttlaError as error:
            outcomes.append(error)
    # Nothing has changed, so the copy is dropped.
    if all(outcome is not None for outcome in outcomes):
        return ShardDecision(outcomes)
    if gone:
        rebalance_without(step, f"{', '.join(gone)} left", settings.initial_rebalance_delay_ms)
    else:
        # Only ids that had not come back yet are gone. The others may have waited for exactly those.
        complete_if_all_joined(step)
    return step.decision(outcomes)


def check_leaver(group: Group, identity: CallerIdentity) -> Member:
    if identity.instance_id is not None and not identity.member_id:
        member = group.members.by_instance(identity.instance_id)
        if member is None:
            raise unknown_member(group.group_id, identity.instance_id)
        return member
    return check_member(group, identity)


# ---- time -----------------------------------------------------------------------------------------------------------


def decide_session_end(group: Group, member_id: str, settings: GroupSettings, now: Moment) -> ShardDecision[None]:
    """Evict a member that has missed its heartbeats, or forget an id that did not come back."""
    step = Transition(group, now)
    if member_id in group.pending:
        step.group.pending -= {member_id}
        complete_if_all_joined(step)
        return step.decision(None)
    member = group.members.get(member_id)
    if member is not None:
        cause = f"sent no heartbeat for {member.session_timeout_ms} ms (session.timeout.ms)"
        # While a member waits in its join it sends no heartbeats, so this timer is the one of `_limit_wait`.
        if member.joining is not None:
            cause = f"waited {_NEW_MEMBER_JOIN_MS / 1000:.0f} s for the others to join, and its client may be gone"
        drop(step, member, Kind.EVICTED, cause)
        rebalance_without(step, f"{member.client_id or member_id} {cause}", settings.initial_rebalance_delay_ms)
    return step.decision(None)


def decide_rebalance_end(group: Group, settings: GroupSettings, now: Moment) -> ShardDecision[None]:
    """End the time to join, or the time to synchronize."""
    step = Transition(group, now)
    if group.state is GroupState.PREPARING_REBALANCE:
        complete(step)
    # In a stable group, too: a member whose sync never comes holds partitions that it does not read.
    elif group.state in (GroupState.COMPLETING_REBALANCE, GroupState.STABLE) and group.unsynced:
        evict_unsynchronized(step, settings.initial_rebalance_delay_ms)
    return step.decision(None)


def decide_resume(group: Group, settings: GroupSettings, now: Moment) -> ShardDecision[None]:
    """Give every member a full session after a load (rule 49). The last owner's timers are not in the log. Nor is the
    rebalance that follows a change to the classic protocol, so it begins again."""
    step = Transition(group, now)
    for member in step.group.members.values():
        step.start_session(member)
    if step.group.members:
        step.note(Kind.LOADED, "this coordinator took over; it does not know what happened before")
        if group.leader is None:
            cause = "the group has changed to the classic protocol, and its members have not synchronized since"
            begin(step, cause, settings.initial_rebalance_delay_ms)
    return step.decision(None)


# ---- identity -------------------------------------------------------------------------------------------------------


def check_member(group: Group, identity: CallerIdentity) -> Member:
    """Return the member that calls. Raises FENCED_INSTANCE_ID or UNKNOWN_MEMBER_ID."""
    if identity.instance_id is not None:
        static = group.members.by_instance(identity.instance_id)
        if static is None:
            raise unknown_member(group.group_id, identity.member_id)
        # A newer process has this instance id. The older one must stop, not join again, or the two would fence each
        # other.
        if static.member_id != identity.member_id:
            raise fenced_instance(identity.instance_id, identity.member_id)
    member = group.members.get(identity.member_id)
    if member is None:
        raise unknown_member(group.group_id, identity.member_id)
    return member


def check_generation(group: Group, generation: int) -> None:
    if generation != group.generation:
        raise illegal_generation(group.group_id, generation, group.generation)
