"""A consumer group of the classic protocol, as it stands: its members, and how far a rebalance has come.

Its states and the ways between them are the table in `states`. What takes a group from one to the next is in
`rebalance` and `membership`; they work on a copy, which replaces the group once it is decided.

Only a generation that is complete is written to the log, and with it its members; members of a join that is
under way are memory. So after a change of the coordinator members find the last generation that they synchronized in,
or an error that makes them join again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from ottla_core.consumer_protocol import PROTOCOL_TYPE, decode_subscription
from ottla_core.errors import OttlaError
from ottla_group_coordinator.machines.history import KEPT, HistoryEvent, Readers
from ottla_group_coordinator.machines.records import GroupRecord, MemberRecord
from ottla_group_coordinator.machines.states import NEXT, GroupState, GroupStateEvent


@dataclass(frozen=True, slots=True)
class Member:
    """`protocols`: the member's metadata by the name of each assignor that it can use, best first.

    `joining` and `syncing` are the keys of its requests that wait for the others.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Mapping[str, bytes]
    assignment: bytes = b""
    joining: Hashable | None = None
    syncing: Hashable | None = None

    def metadata(self, protocol: str | None) -> bytes:
        return self.protocols.get(protocol or "", b"")


@dataclass(slots=True)
class Group:
    group_id: str
    state: GroupState = GroupState.EMPTY
    protocol_type: str = ""
    generation: int = 0
    protocol: str | None = None
    leader: str | None = None
    state_since_ms: int = -1
    members: dict[str, Member] = field(default_factory=dict)
    pending: frozenset[str] = frozenset()
    """Member ids that were given out and did not come back yet (KIP-394)."""
    unsynced: frozenset[str] = frozenset()
    """Members of a COMPLETING group that have not synchronized yet."""
    initial_delay_until: float | None = None
    """Set while a group that was empty waits for more members: how long at most."""
    rebalance_began_ms: int = 0
    former_readers: Readers = field(default_factory=dict)
    """The last reader of each partition that no member has now: it left, or gave the partition up for another one."""
    events: deque[HistoryEvent] = field(default_factory=lambda: deque(maxlen=KEPT))

    def copy(self) -> Group:
        """One that may be changed without a trace in this one."""
        return replace(self, members=dict(self.members), events=self.events.copy())

    def move(self, event: GroupStateEvent) -> None:
        """To the next state, as the table says."""
        self.state = NEXT[self.state, event]

    def by_instance(self, instance_id: str | None) -> Member | None:
        if instance_id is None:
            return None
        return next((m for m in self.members.values() if m.instance_id == instance_id), None)

    @property
    def is_consumers(self) -> bool:
        return self.protocol_type == PROTOCOL_TYPE

    @property
    def all_have_joined(self) -> bool:
        return not self.pending and all(member.joining is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """That of the slowest member (rule 48)."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[str], but: str = "") -> bool:
        """Whether a member with these could be with all the others, `but` one that it replaces."""
        if self.members and protocol_type != self.protocol_type:
            return False
        other_members = [member for member_id, member in self.members.items() if member_id != but]
        return not other_members or not set.intersection(
            *(set(member.protocols) for member in other_members)
        ).isdisjoint(protocols)

    def vote(self) -> str:
        """The protocol that all know and most like best; of equal ones the one that came first."""
        known = set.intersection(*(set(member.protocols) for member in self.members.values()))
        votes = Counter(next(name for name in member.protocols if name in known) for member in self.members.values())
        return votes.most_common(1)[0][0]

    def subscribed_topics(self) -> frozenset[str] | None:
        """What the members of a consumer group read; None where that can't be known."""
        if not self.is_consumers or self.protocol is None:
            return None if self.members else frozenset()
        topics: set[str] = set()
        try:
            for member in self.members.values():
                topics.update(decode_subscription(member.metadata(self.protocol)).topics)
        except OttlaError:
            return None
        return frozenset(topics)

    def record(self) -> GroupRecord:
        return GroupRecord(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            self.state_since_ms,
            tuple(
                MemberRecord(
                    m.member_id,
                    m.instance_id,
                    m.client_id,
                    m.client_host,
                    m.rebalance_timeout_ms,
                    m.session_timeout_ms,
                    m.metadata(self.protocol),
                    m.assignment,
                )
                for m in self.members.values()
            ),
        )


def group_from(group_id: str, record: GroupRecord) -> Group:
    """A group as the log tells of it."""
    return Group(
        group_id,
        GroupState.STABLE if record.members else GroupState.EMPTY,
        record.protocol_type,
        record.generation,
        record.protocol,
        record.leader,
        record.state_since_ms,
        {
            m.member_id: Member(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.client_host,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                {record.protocol or "": m.subscription},
                m.assignment,
            )
            for m in record.members
        },
    )
