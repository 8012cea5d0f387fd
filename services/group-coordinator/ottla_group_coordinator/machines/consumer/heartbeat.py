"""The heartbeat of the consumer protocol: a member joins, reports changes, and takes its next step towards its target.

Most heartbeats report nothing and change nothing. A handful of comparisons recognizes these first, and they are
answered from memory. Any other heartbeat goes through five steps, each of which may write: the member's own data, its
regular expression, the epoch of the group, the target, and the member's next step. Source: GroupMetadataManager of
Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from ottla_core.coordination.shard import Recalled, ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer import errors
from ottla_group_coordinator.machines.consumer.departure import decide_consumer_leave, member_of
from ottla_group_coordinator.machines.consumer.draft import Awaits, Draft, MemberTimer
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup, RegexesRefused, Report, Reported
from ottla_group_coordinator.machines.consumer.member import (
    JOINS,
    LEAVES_FOR_NOW,
    ConsumerMember,
    CurrentAssignment,
    MemberMetadata,
)
from ottla_group_coordinator.machines.consumer.partitions import (
    EpochOfPartition,
    Partitions,
    are_equal,
    count,
    each,
    has_all,
    union,
    without_epochs,
)
from ottla_group_coordinator.machines.consumer.reconciliation import Goal, reconcile
from ottla_group_coordinator.machines.consumer.records import CurrentKey, MemberKey, TargetKey
from ottla_group_coordinator.machines.consumer.regexes import (
    ask,
    ask_all,
    check_is_not_refused,
    check_regex,
    is_refresh_due,
)
from ottla_group_coordinator.machines.consumer.requests import (
    UNCHANGED,
    ConsumerHeartbeat,
    ConsumerHeartbeatAnswer,
    Reader,
)
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_group_coordinator.machines.consumer.states import ConsumerGroupState, MemberState
from ottla_group_coordinator.machines.consumer.target import make_target
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.history import Kind
from ottla_group_coordinator.machines.membership import GroupSettings

_NAMED: Final = 5
"""The most partitions that an event names."""
_FORMER_S: Final = 15.0
_FORMER_SHARE: Final = 1 / 3
"""A member gets its former assignment for so many seconds, or for this share of its rebalance timeout if that is less.
It needs the rest of that timeout to give partitions up."""


def decide_consumer_heartbeat(
    group: ConsumerGroup,
    request: ConsumerHeartbeat,
    topics: GroupTopics,
    settings: GroupSettings,
    now: Moment,
    before: Callable[[Draft], None] = lambda draft: None,
) -> ShardDecision[ConsumerHeartbeatAnswer]:
    """Answer a heartbeat. Raises Kafka's errors, and then nothing has changed. `before` runs first, to upgrade a
    classic group."""
    if request.epoch < JOINS:
        return decide_consumer_leave(group, request, topics, settings, now)
    consumer = settings.consumer.of(group.group_id)
    with Draft(group, now) as draft:
        before(draft)
        check_room(group, request.member_id, request.instance_id, consumer)
        if request.epoch != JOINS:
            check_epoch(group, member_of(group, request.member_id, request.instance_id), request)
        return _go_on(draft, request, topics, settings)


def check_room(group: ConsumerGroup, member_id: str, instance_id: str | None, settings: ConsumerSettings) -> None:
    """Raise GROUP_MAX_SIZE_REACHED for a member that would be one too many. A static member takes its former place."""
    is_known = member_id in group.members or group.by_instance(instance_id) is not None
    if len(group.members) >= settings.max_size and not is_known:
        raise errors.full(group.group_id, len(group.members))


def check_epoch(group: ConsumerGroup, member: ConsumerMember, request: ConsumerHeartbeat) -> None:
    """Raise FENCED_MEMBER_EPOCH for an epoch that is not the member's.

    The member's previous epoch is accepted if it reports only partitions that are assigned to it: then only a response
    was lost.
    """
    if request.epoch == member.epoch:
        return
    is_repeated = request.epoch == member.current.previous_epoch and request.epoch < member.epoch
    if not (is_repeated and request.owned is not None and has_all(member.current.assigned, request.owned)):
        raise errors.fenced_epoch(group.group_id, member.member_id, request.epoch, member.epoch)


def answer_if_quiet(
    group: ConsumerGroup, request: ConsumerHeartbeat, topics: GroupTopics, settings: ConsumerSettings, now: Moment
) -> Recalled | None:
    """Answer a heartbeat that changes nothing, as most do, or return None."""
    member = group.members.get(request.member_id)
    if member is None or not _is_quiet(group, member, request, topics, settings, now):
        return None
    answer = ConsumerHeartbeatAnswer(member.member_id, request.epoch, settings.heartbeat_interval_ms)
    timer = MemberTimer(group.group_id, member.member_id, Awaits.SESSION)
    return Recalled(answer, {timer: _session_end(settings, now)})


def _is_quiet(
    group: ConsumerGroup,
    member: ConsumerMember,
    request: ConsumerHeartbeat,
    topics: GroupTopics,
    settings: ConsumerSettings,
    now: Moment,
) -> bool:
    metadata = member.metadata
    return (
        request.epoch == member.current.epoch == group.quiet_epoch
        and member.current.state is MemberState.STABLE
        and group.seen.version == topics.version
        and request.says_nothing_new
        and (request.owned is None or are_equal(member.current.assigned, request.owned))
        and request.instance_id in (None, metadata.instance_id)
        and metadata.client_id == request.client_id
        and metadata.client_host == request.client_host
        and metadata.classic is None
        and (reported := group.reported.get(member.member_id)) is not None
        and reported.report is Report.CURRENT
        and group.refusal(metadata.regex) is None
        and not (group.regexes and is_refresh_due(group, topics, settings, now))
    )


def _go_on(
    draft: Draft, request: ConsumerHeartbeat, topics: GroupTopics, settings: GroupSettings
) -> ShardDecision[ConsumerHeartbeatAnswer]:
    group, consumer = draft.group, settings.consumer.of(draft.group.group_id)
    former = _admit(draft, request)
    cause = cause_of(group, former, request.client_id)
    member = _put(draft, former, request)
    is_resolved = _take_regex(draft, former.metadata, member.metadata, request.reader, topics, consumer)
    is_other = is_resolved or member.metadata.topics != former.metadata.topics
    update_epoch(draft, topics, cause, is_other=is_other)
    make_target(draft, topics, settings)
    current = step(draft, group.members[member.member_id], request.owned, topics)
    draft.timers[MemberTimer(group.group_id, member.member_id, Awaits.SESSION)] = _session_end(consumer, draft.now)
    assignment = _assignment_to_send(draft, former, current, request)
    return draft.decision(
        ConsumerHeartbeatAnswer(member.member_id, current.epoch, consumer.heartbeat_interval_ms, assignment)
    )


def _assignment_to_send(
    draft: Draft, former: ConsumerMember, current: CurrentAssignment, request: ConsumerHeartbeat
) -> Partitions | None:
    """Return the assignment for the response, or None if the member has it. Remember what the member has reported.

    A response may be lost, and not every client reports its partitions afterwards: librdkafka does not if its request
    has only timed out. So a member's responses have its assignment until it has reported it. After a load, the first
    response has it, too.
    """
    stored = draft.group.reported.get(former.member_id)
    is_other = request.epoch == JOINS or not are_equal(current.assigned, former.current.assigned)
    since = _former_due_since(draft.now, stored, former, current, request)
    if since is not None:
        report = Report.FORMER_DUE
    elif request.owned is not None:
        report = Report.CURRENT if _has_reported(former.current, current, request.owned, request.epoch) else Report.DUE
    else:
        is_due = is_other or (stored is not None and stored.report is not Report.CURRENT)
        report = Report.DUE if is_due else Report.CURRENT
    reported = Reported(draft.group.group_id, former.member_id, report, since)
    if reported != stored or request.epoch == JOINS:
        draft.memory.append(reported)
    if report is Report.FORMER_DUE:
        return without_epochs(union(current.assigned, current.revoking))
    # A member may report exactly its new assignment while it is still about to take an older one.
    is_told = report is Report.CURRENT and not is_other and (stored is not None or request.owned is not None)
    return None if is_told and not request.is_full else without_epochs(current.assigned)


def _has_reported(former: CurrentAssignment, current: CurrentAssignment, owned: Partitions, epoch: int) -> bool:
    """Return whether the member has exactly its assignment, as far as it reports.

    A member that joins reports that it has no partitions. If it had some, this may be a late repetition of an earlier
    request, and the member may still read them.
    """
    had_any = bool(former.assigned or former.revoking)
    return are_equal(current.assigned, owned) and not (epoch == JOINS and had_any)


def _former_due_since(
    now: Moment,
    stored: Reported | None,
    former: ConsumerMember,
    current: CurrentAssignment,
    request: ConsumerHeartbeat,
) -> float | None:
    """Return since when responses have the assignment from before a revocation, or None if they don't.

    No client reports an assignment that it already has. So if a member never got the partitions that it has to revoke,
    it sees no change, and the others would wait for these partitions until its rebalance timeout ends. A member that
    reports nothing for long has that assignment: a late repetition of its join has hidden its report.
    """
    says_nothing = request.owned is None and request.says_nothing_new
    if stored is None or not says_nothing or current.state is not MemberState.UNREVOKED:
        return None
    if stored.report is Report.DUE and former.current.state is not MemberState.UNREVOKED:
        return now.at
    most_s = min(_FORMER_S, former.metadata.rebalance_timeout_ms / 1000 * _FORMER_SHARE)
    is_over = stored.since is None or now.at >= stored.since + most_s
    return None if is_over else stored.since


# ---- the member ---------------------------------------------------------------------------------------------------


def _admit(draft: Draft, request: ConsumerHeartbeat) -> ConsumerMember:
    """Return the member as it was before this request. A member that joins may replace a static one."""
    group = draft.group
    if request.epoch != JOINS:
        return group.members[request.member_id]
    static = group.by_instance(request.instance_id)
    if static is None:
        return group.members.get(request.member_id) or ConsumerMember(request.member_id)
    if static.epoch == LEAVES_FOR_NOW or static.is_classic:
        replace_static(draft, static, request.member_id)
        return group.members[request.member_id]
    # The same process joins again: the response to its join was lost, or it was fenced.
    if static.member_id == request.member_id:
        return static
    assert request.instance_id is not None
    raise errors.unreleased(request.instance_id, static.member_id)


def replace_static(draft: Draft, static: ConsumerMember, member_id: str) -> None:
    """Give a static member's data and assignment to the process that has come back as `member_id`."""
    group = draft.group
    target = group.targets.get(static.member_id)
    ends_another = static.member_id != member_id and member_id in group.members
    if static.member_id != member_id:
        draft.write(CurrentKey(group.group_id, static.member_id), None)
        draft.write(TargetKey(group.group_id, static.member_id), None)
        draft.write(MemberKey(group.group_id, static.member_id), None)
        draft.cancel_timers([static.member_id, member_id])
    draft.write(MemberKey(group.group_id, member_id), static.metadata)
    if target is not None:
        draft.write(TargetKey(group.group_id, member_id), target)
    current = static.current._replace(epoch=JOINS, previous_epoch=JOINS)
    draft.write(CurrentKey(group.group_id, member_id), current)
    draft.note(Kind.REPLACED, f"came back in place of {static.member_id}", group.members[member_id])
    if ends_another:
        draft.begin_epoch(group.group_epoch.topics_hash, f"{member_id} has replaced another member")


def _put(draft: Draft, former: ConsumerMember, request: ConsumerHeartbeat) -> ConsumerMember:
    """Store what the member reports about itself."""
    was = former.metadata
    metadata = was._replace(
        instance_id=was.instance_id if request.instance_id is None else request.instance_id,
        rack=was.rack if request.rack is None else request.rack,
        client_id=request.client_id,
        client_host=request.client_host,
        topics=was.topics if request.topics is None else request.topics,
        regex=was.regex if request.regex is None else request.regex,
        rebalance_timeout_ms=(
            was.rebalance_timeout_ms if request.rebalance_timeout_ms == UNCHANGED else request.rebalance_timeout_ms
        ),
        assignor=was.assignor if request.assignor is None else request.assignor,
        classic=None,
    )
    is_new = former.member_id not in draft.group.members
    if is_new or metadata != was:
        draft.write(MemberKey(draft.group.group_id, former.member_id), metadata)
    if was.classic is not None:
        draft.cancel_timers([former.member_id])
    member = draft.group.members[former.member_id]
    if is_new:
        draft.note(Kind.JOINED, "joined", member)
    return member


def _take_regex(
    draft: Draft,
    was: MemberMetadata,
    metadata: MemberMetadata,
    reader: Reader | None,
    topics: GroupTopics,
    settings: ConsumerSettings,
) -> bool:
    """Return whether the member has another regular expression, whose matches are known. Request matches that are
    missing or out of date."""
    group, pattern = draft.group, metadata.regex
    is_other = was.regex != pattern
    is_new = bool(is_other and pattern and group.regexes[pattern] == 1)
    if not is_new:
        check_is_not_refused(group, pattern)
    else:
        check_regex(pattern)
        if pattern in group.refused:
            draft.memory.append(RegexesRefused(group.group_id, {pattern: None}))
    if group.regexes and is_refresh_due(group, topics, settings, draft.now):
        ask_all(draft, reader)
    elif is_new:
        ask(draft, reader)
    return is_other and (not pattern or pattern in group.resolved)


# ---- the group ----------------------------------------------------------------------------------------------------


def cause_of(group: ConsumerGroup, former: ConsumerMember, client_id: str) -> str:
    """Return the cause of the epoch that begins if the member is new or changes its subscription."""
    did = "changed its subscription" if former.member_id in group.members else "joined"
    return f"{client_id or former.member_id} {did}"


def update_epoch(draft: Draft, topics: GroupTopics, cause: str, *, is_other: bool) -> None:
    """Begin an epoch if a member has another subscription, with this `cause`, or if the topics have changed."""
    group = draft.group
    is_other = is_other or not group.exists
    if not is_other and group.seen.version == topics.version:
        return
    topics_hash = draft.topics_hash(topics)
    if is_other or topics_hash != group.group_epoch.topics_hash:
        draft.begin_epoch(topics_hash, cause if is_other else "the topics' metadata has changed")


# ---- the next step ------------------------------------------------------------------------------------------------


def step(draft: Draft, member: ConsumerMember, owned: Partitions | None, topics: GroupTopics) -> CurrentAssignment:
    """Take the member's next step towards its target, and return its assignment. `owned` is what it reports."""
    group = draft.group

    def is_read(topic_id: TopicId) -> bool:
        return group.reads(member, topics.name(topic_id))

    goal = Goal(group.target_epoch, group.target(member.member_id), is_read, group.owner)
    current = reconcile(member, goal, owned)
    if current == member.current:
        return current
    was = group.state
    draft.write(CurrentKey(group.group_id, member.member_id), current)
    timer = MemberTimer(group.group_id, member.member_id, Awaits.REVOCATION)
    if current.state is MemberState.UNREVOKED:
        # A classic member's time begins once its heartbeat has asked it to join again (`classic_members`).
        timeout_s = member.metadata.rebalance_timeout_ms / 1000
        draft.timers[timer] = None if member.is_classic else draft.now.at + timeout_s
        draft.note(Kind.REVOKES, f"has to give up {_named(current.revoking, topics)}", member)
    else:
        draft.timers[timer] = None
        _note_step(draft, group.members[member.member_id], goal, topics)
    if group.state is ConsumerGroupState.STABLE and was is not ConsumerGroupState.STABLE:
        since_ms = draft.now.wall_ms if group.assigned is None else group.assigned.made_ms
        draft.note(Kind.SETTLED, "every member has its assignment", duration_ms=max(0, draft.now.wall_ms - since_ms))
    return current


def _note_step(draft: Draft, member: ConsumerMember, goal: Goal, topics: GroupTopics) -> None:
    if member.current.state is MemberState.STABLE:
        draft.note(Kind.RECONCILED, f"has its assignment of epoch {member.epoch}", member)
        return
    waits = [
        (topic_id, number, owner)
        for topic_id, number in each(goal.partitions)
        if (owner := goal.owner(topic_id, number)) not in (None, member.member_id)
    ]
    named = [f"{topics.name(topic_id)}-{number} (owned by {owner})" for topic_id, number, owner in waits[:_NAMED]]
    draft.note(Kind.WAITS, f"waits for {_few(named, len(waits))}", member)


def _named(partitions: EpochOfPartition, topics: GroupTopics) -> str:
    first = islice(each(partitions), _NAMED)
    return _few([f"{topics.name(t) or 'a deleted topic'}-{number}" for t, number in first], count(partitions))


def _few(named: list[str], total: int) -> str:
    more = f" and {total - len(named)} more" if total > len(named) else ""
    return ", ".join(named) + more


def _session_end(settings: ConsumerSettings, now: Moment) -> float:
    return now.at + settings.session_timeout_ms / 1000
