"""A consumer group of the classic protocol: its members, and how far a rebalance has come.

Its states and the ways between them are the table in `states`. The steps from one state to the next are in `rebalance`
and `membership`. They work on a copy, which replaces the group once the change is decided.

Only a complete generation is written to the log, with its members. Members of a join that is under way are only in
memory. So after a change of the coordinator, members find the last generation in which they synchronized, or an error
that makes them join again.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final

from ottla_core.coordination.shard import Entry
from ottla_core.errors import OttlaError
from ottla_core.kafka_formats.consumer_protocol import (
    PROTOCOL_TYPE,
    MemberAssignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.history import MOST_READ, Readers
from ottla_group_coordinator.machines.members import Member, Members
from ottla_group_coordinator.machines.reading import Reading
from ottla_group_coordinator.machines.records import GroupKey, GroupRecord, MemberRecord, encode_key
from ottla_group_coordinator.machines.states import NEXT, GroupState, GroupStateEvent

DEPARTED: Final = MemberRecord(
    "departed",
    None,
    "a member of the consumer protocol that has gone",
    "",
    rebalance_timeout_ms=0,
    session_timeout_ms=0,
    subscription=encode_subscription(Subscription(())),
    assignment=encode_assignment(MemberAssignment(())),
)
"""In the log, this member is the leader of a group that has none. Only coordinators of older releases take it for a
real member. They evict it at once, because its session is over, and so they have the others join again, too."""


@dataclass(slots=True)
class Group:
    group_id: str
    state: GroupState = GroupState.EMPTY
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    """None if there are no members, or if they have yet to join because the group was one of the consumer protocol."""
    state_since_ms: int = -1
    members: Members = field(default_factory=Members)
    pending: frozenset[str] = frozenset()
    """They are member ids that were given out and did not come back yet (KIP-394)."""
    unsynced: frozenset[str] = frozenset()
    """They are the members of a COMPLETING group that have not synchronized yet."""
    initial_delay_until: float | None = None
    """It is set while a group that was empty waits for more members, and says until when it waits at most."""
    rebalance_began_ms: int = 0
    former_readers: Readers = field(default_factory=dict)
    """It has the last reader of each partition that no member has now: the reader left, or gave the partition up for
    another."""
    unclaimed: frozenset[TopicPartition] = frozenset()
    """They are the partitions of these that the last assignment gave to no member. If the next one does not assign them
    either, they are gone, as partitions of a deleted topic are, and are forgotten."""

    def copy(self) -> Group:
        """Return a copy that may be changed without changing this group."""
        return replace(self, members=self.members.copy())

    def move(self, event: GroupStateEvent) -> None:
        """Go to the next state, by the table."""
        self.state = NEXT[self.state, event]

    @property
    def is_consumers(self) -> bool:
        """It tells whether the members read topics. Others may coordinate anything."""
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def is_empty(self) -> bool:
        return self.state is GroupState.EMPTY

    @property
    def is_in_log(self) -> bool:
        return self.generation > 0

    @property
    def is_awaited(self) -> bool:
        """It tells whether a member may be about to come, although the group is empty."""
        return bool(self.pending)

    @property
    def all_have_joined(self) -> bool:
        return not self.pending and self.members.all_have_joined

    def supports(self, protocol_type: str, protocols: Collection[str], but: str = "") -> bool:
        """Return whether a member with these could be together with all the others, except for `but`, which it
        replaces."""
        if self.members and protocol_type != self.protocol_type:
            return False
        return self.members.support(protocols, but)

    def subscribed_topics(self) -> frozenset[str] | None:
        """Return the topics that the members of a consumer group read, or None if that can't be known, or takes too
        long."""
        if not self.is_consumers or self.protocol is None:
            return None if self.members else frozenset()
        topics: set[str] = set()
        left = MOST_READ
        try:
            for member in self.members.values():
                read = decode_subscription(member.metadata(self.protocol), most=max(left, 0)).topics
                topics.update(read)
                left -= len(read)
        except OttlaError:
            return None
        return frozenset(topics)

    def reading(self) -> Reading:
        is_settled = self.state in (GroupState.EMPTY, GroupState.STABLE)
        return Reading(self.subscribed_topics(), is_settled, self.state_since_ms if self.is_empty else -1)

    def tombstones(self) -> tuple[Entry, ...]:
        """Return the record that deletes the group."""
        return (Entry(encode_key(GroupKey(self.group_id)), None),)

    def record(self) -> GroupRecord:
        leader, members = self.leader, [self._record_of(member) for member in self.members.values()]
        if members and leader is None:
            leader = DEPARTED.member_id
            members.append(DEPARTED)
        return GroupRecord(
            self.protocol_type, self.generation, self.protocol, leader, self.state_since_ms, tuple(members)
        )

    def _record_of(self, member: Member) -> MemberRecord:
        return MemberRecord(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata(self.protocol),
            member.assignment,
        )


def group_from(group_id: str, record: GroupRecord) -> Group:
    """Return a group as the log has it."""
    members = Members()
    for m in record.members:
        if m.member_id == DEPARTED.member_id:
            continue
        members.put(
            Member(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                {record.protocol or "": m.subscription},
                m.assignment,
            )
        )
    return Group(
        group_id,
        GroupState.STABLE if members else GroupState.EMPTY,
        record.protocol_type,
        record.generation,
        record.protocol,
        None if record.leader == DEPARTED.member_id else record.leader,
        record.state_since_ms,
        members,
    )
