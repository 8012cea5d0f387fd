"""A shard of groups: all groups whose ids hash to one partition of `__consumer_offsets`, with their offsets.

`apply` takes in what the log says, and `remember` what is only in memory (a group whose members are joining). Together
they make the state, and `on_timer` and the functions in `membership` and `offsets` decide on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, NamedTuple

from ottla_core.coordination.look import Looked
from ottla_core.coordination.shard import Entry, Marker, Record, ShardDecision
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.primitives import MalformedError
from ottla_core.model import TopicPartition
from ottla_group_coordinator.machines.consumer.commits import check_fetch
from ottla_group_coordinator.machines.consumer.departure import (
    decide_classic_step_end,
    decide_consumer_resume,
    decide_consumer_session_end,
    decide_revocation_end,
)
from ottla_group_coordinator.machines.consumer.draft import Awaits, MemberTimer
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup, MemoryChange
from ottla_group_coordinator.machines.consumer.records import ConsumerKey, decode_consumer_value
from ottla_group_coordinator.machines.consumer.topics import GroupTopics, ImageTopics
from ottla_group_coordinator.machines.group import Group, group_from
from ottla_group_coordinator.machines.history import Happened, History
from ottla_group_coordinator.machines.membership import (
    CallerIdentity,
    GroupSettings,
    decide_rebalance_end,
    decide_resume,
    decide_session_end,
)
from ottla_group_coordinator.machines.offsets import AnyGroup, Topics, expired, first_of, is_of_gone
from ottla_group_coordinator.machines.pending import PendingOffsets
from ottla_group_coordinator.machines.records import (
    CommittedOffset,
    GroupKey,
    Key,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
    encode_key,
)
from ottla_group_coordinator.machines.states import GroupState
from ottla_group_coordinator.machines.transactions import Guard, OffsetTransactions
from ottla_group_coordinator.machines.transition import RebalanceTimer, SessionTimer

_LOOKED_AT_ONCE: Final = 10_000
"""How many offsets one look for expired ones checks. A group, or a record that is to be written, counts as ten of
them."""

_NEXT_BATCH_S: Final = 0.1
_NO_OFFSETS: Final[dict[TopicPartition, CommittedOffset]] = {}

_TIME_IS_UP: Final = {
    Awaits.SESSION: decide_consumer_session_end,
    Awaits.REVOCATION: decide_revocation_end,
    Awaits.CLASSIC_STEP: decide_classic_step_end,
}
"""What follows when a timer of a member goes off."""


class ExpiryTimer(NamedTuple):
    """It is time to look for expired offsets, in the groups that the last look has left or, if none, in all."""


# It is no tuple, because two tuples without fields are one timer.
@dataclass(frozen=True, slots=True)
class LeftBehindTimer:
    """It is time to delete what an older release has left behind (`GroupShard.left_behind`)."""


class ProducersAged(NamedTuple):
    """Notes, as a change in memory, that it is time to forget the producers that ended long before `at`."""

    at: float


class Forgotten(NamedTuple):
    """A group that is only in memory, and no longer needed."""

    group: str


class Loaded(NamedTuple):
    """The state is that of the log, except for records that are `unreadable`. It still has offsets in topics that may
    have been deleted while the shard had no owner."""

    unreadable: int


class GroupShard:
    def __init__(self, settings: GroupSettings, topics: GroupTopics | None = None) -> None:
        self.settings = settings
        self.topics: Final = topics or ImageTopics()
        self._groups: Final[dict[str, Group]] = {}
        self._consumers: Final[dict[str, ConsumerGroup]] = {}
        """They are the groups of the consumer protocol. Those in `_groups`, too, are left behind (`left_behind`)."""
        self._offsets: Final[dict[str, dict[TopicPartition, CommittedOffset]]] = {}
        self._groups_in: Final[dict[str, Counter[str]]] = {}
        """For each topic, the groups that have committed in it, with the number of partitions."""
        self.pending: Final = PendingOffsets()
        self.transactions: Final = OffsetTransactions()
        self.history: Final = History()
        self._to_look_at: list[str] = []
        """These are the groups that a look for expired offsets has left."""
        self.unreadable = 0
        """It counts records that are of an unknown kind, or not what they say they are. They stay in the log."""

    # ---- the state --------------------------------------------------------------------------------------------------

    def group(self, group_id: str) -> AnyGroup:
        """Return the present group. Raises GROUP_ID_NOT_FOUND."""
        group = self.any_group(group_id)
        if group is None and group_id not in self._offsets and group_id not in self.pending.groups():
            raise OttlaError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}")
        return group or Group(group_id)

    def group_or_new(self, group_id: str) -> Group:
        return self._groups.get(group_id) or Group(group_id)

    def any_group(self, group_id: str) -> AnyGroup | None:
        return self._groups.get(group_id) or self.consumer_group(group_id)

    def consumer_group(self, group_id: str) -> ConsumerGroup | None:
        """Return the group, or None if there is none of the consumer protocol. It may be empty."""
        group = self._consumers.get(group_id)
        return group if group is not None and group.exists and group_id not in self._groups else None

    def left_behind(self, group_id: str) -> tuple[Entry, ...]:
        """Return what deletes the records of a consumer group that is a classic group now.

        A coordinator that changes a group's protocol deletes the former records with that. Only a release before the
        consumer protocol leaves them, because it does not know them: after a rollback, its classic group is the newer
        one.
        """
        group = self._consumers.get(group_id) if group_id in self._groups else None
        return () if group is None else group.tombstones()

    def offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return the group's committed offsets, which must not be changed."""
        return self._offsets.get(group_id, _NO_OFFSETS)

    def partitions(self, group_id: str) -> Collection[TopicPartition]:
        """Return the partitions in which the group has committed, or is about to."""
        return dict.fromkeys([*self.offsets(group_id), *self.pending.partitions(group_id)]).keys()

    def committed_in(self, group_id: str, topics: Topics) -> Collection[TopicPartition]:
        """Return the partitions of these topics in which the group has committed, or is about to."""
        existing = (p for p, offset in self.offsets(group_id).items() if not is_of_gone(p, offset, topics))
        return dict.fromkeys([*self.pending.partitions(group_id), *existing]).keys()

    def check_reader(self, group_id: str, identity: CallerIdentity, generation: int) -> None:
        """Raise if the caller names a member of a consumer group that does not exist, or another epoch (KIP-848). In a
        classic group anyone may fetch."""
        consumers = self.consumer_group(group_id)
        if consumers is not None:
            check_fetch(consumers, identity.member_id, generation)

    def groups(self) -> Iterator[AnyGroup]:
        for group_id in sorted(self._names()):
            yield self.group(group_id)

    def _names(self) -> dict[str, None]:
        return dict.fromkeys([*self._groups, *self._consumers, *self._offsets, *self.pending.groups()])

    def apply(self, record: Record) -> None:
        if isinstance(record, Marker):
            self.transactions.on_marker(record)
            for ended, offset in self.pending.end(record.producer.id, committed=record.committed):
                self._put(ended, offset)
            return
        if record.producer is not None:
            self.transactions.on_entry(record.producer)
        try:
            key = decode_key(record.key)
            if key is None:
                self.unreadable += 1
            else:
                self._apply(key, record)
        except MalformedError:
            self.unreadable += 1

    def _apply(self, key: Key, record: Entry) -> None:
        if isinstance(key, OffsetKey):
            if record.value is None:
                self._take_out(key)
            elif record.producer is not None:
                self.pending.hold(record.producer.id, key, decode_offset(record.value))
            else:
                self._put(key, decode_offset(record.value))
                self.pending.supersede(key)
        elif not isinstance(key, GroupKey):
            self._apply_to_consumers(key, record.value)
        elif record.value is not None:
            self._groups[key.group] = group_from(key.group, decode_group(record.value))
        else:
            self._groups.pop(key.group, None)
            self._forget_history(key.group)

    def _apply_to_consumers(self, key: ConsumerKey, data: bytes | None) -> None:
        # A load may take in the records of a group in any order, so each of them may be its first.
        group = self._consumers.get(key.group)
        if data is not None:
            value = decode_consumer_value(key, data)
            if group is None:
                group = self._consumers[key.group] = ConsumerGroup(key.group)
            group.apply(key, value)
        elif group is not None:
            group.apply(key, None)
        if group is not None and group.is_void:
            del self._consumers[key.group]
            self._forget_history(key.group)

    def _forget_history(self, group_id: str) -> None:
        """Forget what has happened in a group, unless the group has only changed its protocol."""
        if group_id not in self._groups and group_id not in self._consumers:
            self.history.forget(group_id)

    def _put(self, key: OffsetKey, offset: CommittedOffset) -> None:
        offsets = self._offsets.setdefault(key.group, {})
        if key.partition not in offsets:
            self._groups_in.setdefault(key.partition.topic, Counter())[key.group] += 1
        offsets[key.partition] = offset

    def _take_out(self, key: OffsetKey) -> None:
        self.pending.drop(key)
        offsets = self._offsets.get(key.group, {})
        if offsets.pop(key.partition, None) is None:
            return
        if not offsets:
            del self._offsets[key.group]
        groups = self._groups_in[key.partition.topic]
        groups[key.group] -= 1
        if not groups[key.group]:
            del groups[key.group]
        if not groups:
            del self._groups_in[key.partition.topic]

    def remember(self, change: Any) -> None:
        if isinstance(change, Forgotten):
            self._groups.pop(change.group, None)
            self._forget_history(change.group)
        elif isinstance(change, Group):
            self._groups[change.group_id] = change
        elif isinstance(change, MemoryChange):
            if (group := self._consumers.get(change.group)) is not None:
                group.remember(change)
        elif isinstance(change, Happened):
            self.history.add(change)
        elif isinstance(change, Guard):
            self.transactions.keep(change)
        elif isinstance(change, Looked):
            self._to_look_at = change.rest()
        elif isinstance(change, ProducersAged):
            self.transactions.expire(change.at, self.settings.producer_expiration_s)

    # ---- time -------------------------------------------------------------------------------------------------------

    def on_loaded(self, now: Moment) -> ShardDecision[None]:
        resumed = [decide_resume(group, self.settings, now) for group in self._groups.values()]
        resumed += [
            decide_consumer_resume(group, self.settings.consumer.of(group_id), now)
            for group_id, group in self._consumers.items()
        ]
        timers: dict[TimerKey, float | None] = {ExpiryTimer(): now.at + self.settings.retention_check_s}
        if self._groups.keys() & self._consumers.keys():
            timers[LeftBehindTimer()] = now.at
        for decision in resumed:
            timers.update(decision.timers)
        memory = tuple(change for decision in resumed for change in decision.memory)
        return ShardDecision(None, memory=memory, timers=timers, effects=(Loaded(self.unreadable),))

    def on_timer(self, key: TimerKey, now: Moment) -> ShardDecision[None]:
        if isinstance(key, ExpiryTimer):
            return self._expire(now)
        if isinstance(key, LeftBehindTimer):
            return self._delete_left_behind(now)
        if isinstance(key, MemberTimer):
            return self._on_consumer_timer(key, now)
        assert isinstance(key, SessionTimer | RebalanceTimer)
        group = self._groups.get(key.group)
        if group is None:
            return ShardDecision(None)
        if isinstance(key, RebalanceTimer):
            return decide_rebalance_end(group, self.settings, now)
        return decide_session_end(group, key.member_id, self.settings, now)

    def _on_consumer_timer(self, key: MemberTimer, now: Moment) -> ShardDecision[None]:
        group = self.consumer_group(key.group)
        if group is None:
            return ShardDecision(None)
        return _TIME_IS_UP[key.awaits](group, key.member_id, self.topics, self.settings, now)

    def _delete_left_behind(self, now: Moment) -> ShardDecision[None]:
        """Delete as much as is written at once."""
        gone = first_of(chain.from_iterable(map(self.left_behind, self._consumers)))
        next_at = None if gone.are_all else now.at + _NEXT_BATCH_S
        return ShardDecision(None, gone.records, timers={LeftBehindTimer(): next_at})

    def _expire(self, now: Moment) -> ShardDecision[None]:
        """Look at a limited number of groups at a time, because all other requests wait for it."""
        names = self._to_look_at or list(self._names())
        records: list[Entry] = []
        idle: list[Forgotten] = []
        left, looked_at = len(names), 0
        while left and looked_at + 10 * len(records) <= _LOOKED_AT_ONCE:
            group_id = names[left - 1]
            group, offsets = self.any_group(group_id) or Group(group_id), self.offsets(group_id)
            pending = self.pending.partitions(group_id)
            gone = first_of(expired(group, offsets, pending, self.settings, now))
            records += gone.records
            looked_at += 10 + len(offsets)
            if not gone.are_all:
                break  # the next look begins with this group
            left -= 1
            if isinstance(group, ConsumerGroup):
                continue
            if group.state is GroupState.EMPTY and group.generation == 0 and not group.pending:
                idle.append(Forgotten(group_id))
        pause_s = _NEXT_BATCH_S if left else self.settings.retention_check_s
        memory = (*idle, Looked(names, left), ProducersAged(now.at))
        return ShardDecision(None, tuple(records), memory, {ExpiryTimer(): now.at + pause_s})

    # ---- topics -----------------------------------------------------------------------------------------------------

    def forget_topics(self, topics: Topics, gone: Set[str] | None) -> ShardDecision[bool]:
        """Delete the offsets that were committed in topics that are not among `topics`. Return whether that were all.

        Only topics whose names are in `gone` are looked at, or all if it is None. Offsets that an older release has
        committed have no topic id. They go with the names in `gone`, whichever topic has those names.
        """

        def goes(partition: TopicPartition, offset: CommittedOffset) -> bool:
            if gone is not None and partition.topic not in gone:
                return False
            return is_of_gone(partition, offset, topics) or (offset.topic_id is None and gone is not None)

        groups: Iterable[str] = self._offsets
        if gone is not None:
            groups = dict.fromkeys(group for topic in sorted(gone) for group in self._groups_in.get(topic, ()))
        committed = (OffsetKey(group, p) for group in groups for p, o in self._offsets[group].items() if goes(p, o))
        pending = (key for key, offset in self.pending if goes(key.partition, offset))
        names = first_of(Entry(encode_key(key), None) for key in chain(committed, pending))
        return ShardDecision(names.are_all, names.records)
