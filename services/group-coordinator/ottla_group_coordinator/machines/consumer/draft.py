"""A group during a decision: changed in place step by step, and restored at the end.

A decision has no effect before the runtime takes it. But its later steps depend on the earlier ones: the target is made
for the subscriptions that include the new member's, and a partition is free once its owner has gone. Copying the group
for each heartbeat would cost too much. So each record is applied as it is made, and all of them are undone at the end.
The runtime applies them again when it takes the decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import IntEnum
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

from ottla_core.coordination.batches import record_limit
from ottla_core.coordination.shard import Entry, ShardDecision
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_core.records.batch import HEADER_SIZE
from ottla_group_coordinator.machines.consumer import errors
from ottla_group_coordinator.machines.consumer.group import Awaited, ConsumerGroup, Reported, SeenTopics
from ottla_group_coordinator.machines.consumer.member import ConsumerMember
from ottla_group_coordinator.machines.consumer.records import (
    LAST_EPOCH,
    ConsumerKey,
    GroupEpochKey,
    RegexKey,
    encode_consumer_key,
    encode_consumer_value,
)
from ottla_group_coordinator.machines.consumer.topics import GroupTopics, hash_of
from ottla_group_coordinator.machines.history import Happened, HistoryEvent, Kind, shortened

_FORGOTTEN_BYTES: Final = 1 << 15
"""A decision writes tombstones for expressions until they take this many bytes."""


class Awaits(IntEnum):
    """What a member's timer waits for."""

    SESSION = 1
    """The member's next heartbeat."""
    REVOCATION = 2
    """The member gives its partitions up, within its rebalance timeout."""
    CLASSIC_STEP = 3
    """The member, a classic one, joins or synchronizes, within its rebalance timeout."""


class MemberTimer(NamedTuple):
    group: str
    member_id: str
    awaits: Awaits


class Draft:
    """A context manager. Its changes to the group are undone when it is left."""

    def __init__(self, group: ConsumerGroup, now: Moment) -> None:
        self.group: Final = group
        self.now: Final = now
        self.timers: Final[dict[TimerKey, float | None]] = {}
        self.effects: Final[list[Any]] = []
        self.memory: Final[list[Any]] = []
        self._entries: Final[dict[bytes, Entry]] = {}
        self._entries_bytes = 0
        self._undo: Final[list[tuple[ConsumerKey, Any]]] = []
        self._events: Final[list[HistoryEvent]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for key, value in reversed(self._undo):
            self.group.apply(key, value)

    def write(self, key: ConsumerKey, value: Any) -> int:
        """Write a record, or with None its tombstone. Return an upper bound of its bytes."""
        entry = _entry(key, value)
        self._write(key, value, entry)
        return record_limit(entry)

    def write_within(self, most_bytes: int, key: ConsumerKey, value: Any) -> bool:
        """Write a record unless the batch would become larger than `most_bytes`. Return whether it was written."""
        entry = _entry(key, value)
        if self.size_with((entry,)) > most_bytes:
            return False
        self._write(key, value, entry)
        return True

    def _write(self, key: ConsumerKey, value: Any, entry: Entry) -> None:
        self._undo.append((key, self.group.value_of(key)))
        self.group.apply(key, value)
        self.add(entry)

    def add(self, entry: Entry) -> None:
        """Write a record without applying it to the group."""
        self._entries_bytes += self._added_bytes(entry)
        self._entries.pop(entry.key, None)
        self._entries[entry.key] = entry

    @property
    def size_bytes(self) -> int:
        """An upper bound of the bytes of the batch so far. It is 0 if nothing has been written."""
        return HEADER_SIZE + self._entries_bytes if self._entries else 0

    def size_with(self, entries: Iterable[Entry]) -> int:
        """Return an upper bound of the bytes of the batch with records of other keys than each other's."""
        return HEADER_SIZE + self._entries_bytes + sum(map(self._added_bytes, entries))

    def _added_bytes(self, entry: Entry) -> int:
        former = self._entries.get(entry.key)
        return record_limit(entry) - (0 if former is None else record_limit(former))

    def include(self, decision: ShardDecision[Any]) -> None:
        """Append the decision of a classic group to this one."""
        for record in decision.records:
            assert isinstance(record, Entry)
            self.add(record)
        for change in decision.memory:
            if isinstance(change, Happened):
                self._events.extend(change.events)
            else:
                self.memory.append(change)
        self.timers.update(decision.timers)
        self.effects.extend(effect for effect in decision.effects if not isinstance(effect, Happened))

    def topics_hash(self, topics: GroupTopics) -> int:
        """Return the hash of the topics that the group reads. They are hashed again only if they may have changed:
        there may be ten thousand, and most members that join or leave read the topics of others."""
        group = self.group
        if group.reads_what_was_hashed and group.seen.version == topics.version:
            return group.seen.hash
        found = hash_of(group.subscribed_topics(), topics)
        self.memory.append(SeenTopics(group.group_id, topics.version, found))
        return found

    def begin_epoch(self, topics_hash: int, cause: str) -> None:
        """Begin the next epoch. Raises UNKNOWN_SERVER_ERROR if there is none."""
        former = self.group.group_epoch
        if former.epoch == LAST_EPOCH:
            raise errors.no_further_epoch(self.group.group_id)
        created_ms = former.created_ms if self.group.exists else self.now.wall_ms
        self.write(
            GroupEpochKey(self.group.group_id),
            former._replace(epoch=former.epoch + 1, topics_hash=topics_hash, created_ms=created_ms),
        )
        self.note(Kind.REBALANCE_BEGAN, cause)

    def note(
        self, kind: Kind, cause: str, member: ConsumerMember | None = None, *, duration_ms: int = 0, moved: int = 0
    ) -> None:
        """Keep an event for `Group.ExplainGroup`."""
        who = member or ConsumerMember("")
        self._events.append(
            HistoryEvent(
                self.now.wall_ms,
                kind,
                shortened(cause),
                self.group.epoch,
                who.member_id,
                who.instance_id,
                shortened(who.client_id),
                who.client_host,
                duration_ms,
                moved,
            )
        )

    def records(self) -> tuple[Entry, ...]:
        return tuple(self._entries.values())

    def decision(self, response: Any) -> ShardDecision[Any]:
        # A heartbeat of a classic member must write nothing, and what a load brings about is not written either.
        if self._entries:
            self._forget_unread()
        happened = [Happened(self.group.group_id, tuple(self._events))] if self._events else []
        return ShardDecision(
            response,
            self.records(),
            (*self.memory, *happened),
            self.timers,
            (*self.effects, *happened),
            by_last_proof=not self._entries,
        )

    def _forget_unread(self) -> None:
        """Delete matches of expressions that no member has any longer, and leave the rest to the next decision that
        writes if they are many."""
        left_bytes = _FORGOTTEN_BYTES - self.size_bytes
        while left_bytes > 0 and self.group.unread:
            left_bytes -= self.write(RegexKey(self.group.group_id, next(iter(self.group.unread))), None)

    def cancel_timers(self, member_ids: Collection[str]) -> None:
        """Cancel the timers of members, and forget what is remembered of them."""
        for member_id in member_ids:
            self.timers[MemberTimer(self.group.group_id, member_id, Awaits.SESSION)] = None
            self.timers[MemberTimer(self.group.group_id, member_id, Awaits.REVOCATION)] = None
            self.timers[MemberTimer(self.group.group_id, member_id, Awaits.CLASSIC_STEP)] = None
            if member_id in self.group.awaited:
                self.memory.append(Awaited(self.group.group_id, member_id, None))
            if member_id in self.group.reported:
                self.memory.append(Reported(self.group.group_id, member_id, None))


def _entry(key: ConsumerKey, value: Any) -> Entry:
    return Entry(encode_consumer_key(key), None if value is None else encode_consumer_value(key, value))
