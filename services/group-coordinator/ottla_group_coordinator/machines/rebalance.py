"""The steps of a rebalance: it begins, all have joined or the time is over, all have synchronized or the time is over.

A rebalance waits for every member and must end although one of them is dead. So each wait has a timer (rule 48: an
initial delay, then the rebalance timeout of the slowest member):

* A group that was empty waits `initial_delay_ms` for more members, and again while new ones come, up to the slowest
member's rebalance timeout. Otherwise a deployment of fifty members would be fifty rebalances. * Any other group waits
that long for its members to join again. They may be busy with the records of their last poll. * The members then have
the same time to synchronize, or a dead leader would block the group.

While a member waits for a response its session has no end, and it begins again with each response.

The assignment is written before any member hears of it (rule 49), so a coordinator that takes over knows the generation
in which members commit.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ottla_core.errors import OttlaError
from ottla_core.plural import counted
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import MOST_READ, Kind, partitions_moved, readers
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.responses import (
    Joined,
    SubscribedMember,
    Synced,
    fenced_instance,
    rebalance_in_progress,
    unknown_member,
)
from ottla_group_coordinator.machines.states import GroupState, GroupStateEvent
from ottla_group_coordinator.machines.transition import Transition

NOT_JOINED: Final = "did not join again within the rebalance timeout"
NOT_SYNCED: Final = "did not synchronize within the rebalance timeout"

_LAST_GENERATION: Final = 2**31 - 1


def begin(step: Transition, cause: str, initial_delay_ms: int) -> None:
    """Have all members join again."""
    group, was = step.group, step.group.state
    # Its members' syncs wait for an assignment that will not come.
    if was is GroupState.COMPLETING_REBALANCE:
        _reject_syncing(step, rebalance_in_progress(group.group_id))
    group.move(GroupStateEvent.REBALANCE)
    group.unsynced = frozenset()
    group.rebalance_began_ms = step.now.wall_ms
    step.note(Kind.REBALANCE_BEGAN, cause)
    if was is GroupState.EMPTY and initial_delay_ms > 0:
        group.initial_delay_until = step.now.at + group.members.rebalance_timeout_ms / 1000
        # The delay is never longer than the timeout that its first member accepts.
        step.wait(min(initial_delay_ms, group.members.rebalance_timeout_ms))
    else:
        group.initial_delay_until = None
        step.wait(group.members.rebalance_timeout_ms)
        complete_if_all_joined(step)


def extend_initial_delay(step: Transition, initial_delay_ms: int) -> None:
    """Wait for other members again, because one more has come to a group that waits for its first members."""
    until = step.group.initial_delay_until
    if until is not None:
        left_ms = max(0.0, (until - step.now.at) * 1000)
        step.wait(min(initial_delay_ms, left_ms))


def complete_if_all_joined(step: Transition) -> None:
    group = step.group
    # During the initial delay all members have always joined, and the wait is for those that are yet to come.
    if group.state is GroupState.PREPARING_REBALANCE and group.initial_delay_until is None and group.all_have_joined:
        complete(step)


def complete(step: Transition) -> None:
    """Complete the join phase, because all have joined or the time is over.

    Members that did not join are out, except for static ones. These may be restarting, and have their session to come
    back in.
    """
    group = step.group
    for member in [m for m in group.members.values() if m.joining is None and m.instance_id is None]:
        drop(step, member, Kind.EVICTED, NOT_JOINED)
    group.initial_delay_until = None
    # No member could lead: one that has not joined can't make an assignment.
    if group.members and group.members.none_has_joined:
        step.wait(group.members.rebalance_timeout_ms)  # all members are static, and away
        return
    step.wait(None)
    # A generation without members counts, too, as in Kafka: a member of the previous one must not commit into it (rule
    # 46: a commit must name its generation).
    group.generation = group.generation % _LAST_GENERATION + 1
    group.state_since_ms = step.now.wall_ms
    if not group.members:
        group.move(GroupStateEvent.ALL_GONE)
        group.protocol, group.leader, group.former_readers = None, None, {}
        step.note(Kind.GENERATION, "the last member is gone")
        step.write()
        return
    leader = group.members.get(group.leader or "")
    if leader is None or leader.joining is None:
        group.leader = next(m.member_id for m in group.members.values() if m.joining is not None)
    group.move(GroupStateEvent.ALL_JOINED)
    group.protocol = group.members.vote()
    group.unsynced = frozenset(group.members)
    step.wait(group.members.rebalance_timeout_ms)
    of_members = counted(len(group.members), "member")
    step.note(Kind.GENERATION, f"{of_members}, assignor {group.protocol}, leader {group.leader}")
    for member in list(group.members.values()):
        if member.joining is not None:
            step.resolve(member.joining, joined(step, member))
            # It no longer waits for a response, so its session begins again with this one.
            step.start_session(step.change(member, joining=None))


def joined(step: Transition, member: Member, *, skip_assignment: bool = False) -> Joined:
    """Return the response to a member whose generation is complete."""
    group = step.group
    assert group.leader is not None
    subscribers: tuple[SubscribedMember, ...] = ()
    # Only the leader needs the others' subscriptions. In a group of 4,000 they would be megabytes for each member.
    if member.member_id == group.leader:
        subscribers = tuple(
            SubscribedMember(m.member_id, m.instance_id, m.metadata(group.protocol)) for m in group.members.values()
        )
    return Joined(
        group.generation,
        group.protocol_type,
        group.protocol or "",
        group.leader,
        member.member_id,
        subscribers,
        skip_assignment,
    )


def assign(step: Transition, assignments: Mapping[str, bytes]) -> None:
    """Take the leader's assignment. It is written, and then every member that waits gets its response (rule 49)."""
    group, members = step.group, list(step.group.members.values())
    # A member that the leader left out gets an empty assignment, and not the one of its last generation.
    assigned = [step.change(m, assignment=assignments.get(m.member_id, b""), syncing=None) for m in members]
    changed = [(was, now) for was, now in zip(members, assigned, strict=True) if was.assignment != now.assignment]
    moved = _count_moved(group, [was for was, _ in changed], [now for _, now in changed])
    group.move(GroupStateEvent.ASSIGNED)
    group.state_since_ms = step.now.wall_ms
    took_ms = max(0, step.now.wall_ms - group.rebalance_began_ms)
    cause = f"{counted(len(members), 'member')} in the group"
    if moved is None:
        cause += f"; with more than {MOST_READ:,} partitions it is not counted which have moved"
    step.note(Kind.ASSIGNED, cause, duration_ms=took_ms, moved=moved or 0)
    step.write()
    waited = [(was.syncing, now) for was, now in zip(members, assigned, strict=True) if was.syncing is not None]
    for waiting, member in waited:
        step.resolve(waiting, synced(step, member))
    synchronized(step, [member for _, member in waited])


def _count_moved(group: Group, were: Sequence[Member], are: Sequence[Member]) -> int | None:
    """Return how many partitions have another reader, or None if there are too many to be counted. Remember who read
    those that no member reads now."""
    held, after = readers(were), readers(are)
    if held is None or after is None:
        group.former_readers, group.unclaimed = {}, frozenset()
        return None
    before = {**group.former_readers, **held}
    # One that is unclaimed twice in a row is forgotten, like those of a deleted topic.
    unclaimed = [p for p in before if p not in after]
    group.former_readers = {p: before[p] for p in unclaimed if p not in group.unclaimed}
    group.unclaimed = frozenset(unclaimed)
    return partitions_moved(before, after)


def reject_assignment(step: Transition, error: OttlaError, initial_delay_ms: int) -> None:
    """Reject an assignment that can't be written.

    Every member that waits for it gets the error, and may try in another generation.
    """
    _reject_syncing(step, error)
    begin(step, error.message, initial_delay_ms)


def synced(step: Transition, member: Member) -> Synced:
    return Synced(step.group.protocol_type, step.group.protocol or "", member.assignment)


def synchronized(step: Transition, members: Collection[Member]) -> None:
    """Note that these members have their assignment."""
    step.group.unsynced -= {member.member_id for member in members}
    # The timer ends with the last member. In CompletingRebalance the leader's assignment is still missing.
    if not step.group.unsynced and step.group.state is GroupState.STABLE:
        step.wait(None)
    for member in members:
        step.start_session(member)


def evict_unsynchronized(step: Transition, initial_delay_ms: int) -> None:
    """Evict the members that did not synchronize in time."""
    for member_id in sorted(step.group.unsynced & set(step.group.members)):
        # A member that waits has done its part: the leader is missing.
        if step.group.members[member_id].syncing is None:
            drop(step, step.group.members[member_id], Kind.EVICTED, NOT_SYNCED)
    rebalance_without(step, NOT_SYNCED, initial_delay_ms)


def drop(step: Transition, member: Member, kind: Kind, cause: str) -> None:
    """Remove a member, and reject its requests that wait. A rebalance of the others has to follow."""
    group = step.group
    group.members.remove(member.member_id)
    step.remember(readers([member]) or {})
    step.end_session(member.member_id)
    for waiting in (member.joining, member.syncing):
        if waiting is not None:
            step.resolve(waiting, unknown_member(group.group_id, member.member_id))
    step.note(kind, cause, member)


def rebalance_without(step: Transition, cause: str, initial_delay_ms: int) -> None:
    """Have the other members share what was assigned to members that are gone."""
    group = step.group
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        begin(step, cause, initial_delay_ms)
    else:
        complete_if_all_joined(step)


def replace_instance(step: Transition, old: Member, new: Member) -> None:
    """Give a static member's place to the process that came back under a new id. Requests under the old id are
    fenced."""
    group = step.group
    for waiting in (old.joining, old.syncing):
        if waiting is not None:
            assert old.instance_id is not None
            step.resolve(waiting, fenced_instance(old.instance_id, old.member_id))
    group.members.replace(old, new)
    if group.leader == old.member_id:
        group.leader = new.member_id
    if old.member_id in group.unsynced:
        group.unsynced = group.unsynced - {old.member_id} | {new.member_id}
    # The old id is gone, and its timer would go off for nothing.
    step.end_session(old.member_id)
    step.note(Kind.REPLACED, f"came back in place of {old.member_id}", new)


def _reject_syncing(step: Transition, error: OttlaError) -> None:
    for member in list(step.group.members.values()):
        if member.syncing is not None:
            step.resolve(member.syncing, error)
            step.start_session(step.change(member, syncing=None))
