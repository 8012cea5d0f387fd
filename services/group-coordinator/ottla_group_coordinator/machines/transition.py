"""A group on its way to another state: a copy that is changed, and the effects of the change.

Nothing of it shows before the runtime takes the `ShardDecision` in which it ends.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, NamedTuple

from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.shard import Entry, Later, Resolve, ShardDecision
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import MOST_READ, Happened, HistoryEvent, Kind, Readers, shortened
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.records import GroupKey, encode_group, encode_key


class SessionTimer(NamedTuple):
    """A member has missed its heartbeats, or has not come back with the id that it was given."""

    group: str
    member_id: str


class RebalanceTimer(NamedTuple):
    """The time to join, or to synchronize, is over."""

    group: str


_NOBODY: Final = Member("", None, "", "", 0, 0, {})


class Transition:
    def __init__(self, group: Group, now: Moment) -> None:
        self.group: Final = group.copy()
        self.now: Final = now
        self._records: list[Entry] = []
        self._timers: dict[TimerKey, float | None] = {}
        self._effects: list[Any] = []
        self._events: list[HistoryEvent] = []
        self._former_readers: dict[TopicPartition, str] | None = None

    def decision(self, response: Any) -> ShardDecision[Any]:
        happened = [Happened(self.group.group_id, tuple(self._events))] if self._events else []
        memory, effects = (self.group, *happened), (*self._effects, *happened)
        return ShardDecision(response, tuple(self._records), memory, self._timers, effects)

    def later(self, key: Hashable) -> ShardDecision[Any]:
        return self.decision(Later(key))

    # ---- what a change brings with it -------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the group to the log as it is now."""
        group = self.group
        self._records.append(Entry(encode_key(GroupKey(group.group_id)), encode_group(group.record())))

    @property
    def size_bytes(self) -> int:
        """This is the size of what is written to the log."""
        return size_limit(self._records)

    def resolve(self, key: Hashable, response: Any) -> None:
        """Answer a request that waits."""
        self._effects.append(Resolve(key, response))

    def note(
        self, kind: Kind, cause: str, member: Member | None = None, *, duration_ms: int = 0, moved: int = 0
    ) -> None:
        """Keep an event for `Group.ExplainGroup`."""
        who = member or _NOBODY
        self._events.append(
            HistoryEvent(
                self.now.wall_ms,
                kind,
                shortened(cause),
                self.group.generation,
                who.member_id,
                who.instance_id,
                shortened(who.client_id),
                who.client_host,
                duration_ms,
                moved,
            )
        )

    def remember(self, held: Readers) -> None:
        """Keep who read these partitions, as long as they are not too many."""
        group = self.group
        if group.former_readers is not self._former_readers:  # one copy, however many members go at once
            group.former_readers = self._former_readers = dict(group.former_readers)
        if len(self._former_readers) + len(held) <= MOST_READ:
            self._former_readers.update(held)

    # ---- members ----------------------------------------------------------------------------------------------------

    def put(self, member: Member) -> Member:
        self.group.members.put(member)
        return member

    def change(self, member: Member, **fields: Any) -> Member:
        return self.put(member._replace(**fields))

    def start_session(self, member: Member) -> None:
        """Start or restart the member's session, because it has just sent a request."""
        self._timers[SessionTimer(self.group.group_id, member.member_id)] = session_ends_at(member, self.now)

    def end_session(self, member_id: str) -> None:
        """End the member's session, because the member waits for a response now, or is gone."""
        self._timers[SessionTimer(self.group.group_id, member_id)] = None

    def await_member(self, member_id: str, timeout_ms: int) -> None:
        """Expect a member that was given its id."""
        self.group.pending |= {member_id}
        self._timers[SessionTimer(self.group.group_id, member_id)] = self.now.at + timeout_ms / 1000

    def await_response(self, member_id: str, timeout_ms: int) -> None:
        """Let a member wait that long for its response. Then it counts as gone."""
        self._timers[SessionTimer(self.group.group_id, member_id)] = self.now.at + timeout_ms / 1000

    def wait(self, timeout_ms: float | None) -> None:
        """Wait for the rest of the members. None stops the waiting."""
        at = None if timeout_ms is None else self.now.at + timeout_ms / 1000
        self._timers[RebalanceTimer(self.group.group_id)] = at


def session_ends_at(member: Member, now: Moment) -> float:
    return now.at + member.session_timeout_ms / 1000
