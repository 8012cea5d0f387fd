"""A group of the consumer protocol: its members, their targets, the owners of partitions, and its epochs.

Each change is that of one record, here as in the log, so a group's state is always that of its log. What every request
needs (the state's name, the owner of a partition, the subscriptions) is updated with each change. So a request costs as
much in a group of 5,000 members as in one of five.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from enum import Enum
from sys import intern
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from ottla_core.coordination.shard import Entry
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer.member import ConsumerMember, CurrentAssignment, MemberMetadata
from ottla_group_coordinator.machines.consumer.partitions import NO_PARTITIONS, Partitions
from ottla_group_coordinator.machines.consumer.records import (
    ConsumerKey,
    CurrentKey,
    GroupEpoch,
    GroupEpochKey,
    MemberKey,
    RegexKey,
    ResolvedRegex,
    TargetEpoch,
    TargetEpochKey,
    TargetKey,
    TopicMetadataKey,
    encode_consumer_key,
)
from ottla_group_coordinator.machines.consumer.shared_names import shared_names
from ottla_group_coordinator.machines.consumer.states import ConsumerGroupState, MemberState, group_state
from ottla_group_coordinator.machines.reading import Reading

_Key = TypeVar("_Key", bound=Hashable)


class Subscription(NamedTuple):
    """What a member subscribes to. In most groups all members share one, whatever their number."""

    topics: frozenset[str]
    regex: str


class SeenTopics(NamedTuple):
    """A change in memory: the version of the topics that a group has seen, and the hash of those it reads."""

    group: str
    version: int
    hash: int


class RefreshAsked(NamedTuple):
    """A change in memory: when a group last requested the matches of all its regular expressions."""

    group: str
    at: float


class Refreshed(NamedTuple):
    """A change in memory: when all regular expressions of a group were last matched, and with which version of the
    topics and ACLs."""

    group: str
    version: int
    at: float


class TargetAsked(NamedTuple):
    """A change in memory: when a group last requested its target, and for which epoch."""

    group: str
    epoch: int
    at: float


class RegexesRefused(NamedTuple):
    """A change in memory: why the matches of some regular expressions can't be kept. With None as its reason, an
    expression may be matched again."""

    group: str
    reasons: Mapping[str, str | None]


class ClassicStep(Enum):
    """The next request that is expected of a classic member."""

    JOIN = "join"
    SYNC = "sync"


class Awaited(NamedTuple):
    """A change in memory: the step that is expected of a classic member, or None."""

    group: str
    member_id: str
    step: ClassicStep | None


class Report(Enum):
    """What a member has reported of its assignment."""

    CURRENT = "current"
    """It has reported exactly its assignment. After a load, this is assumed of each member."""
    DUE = "due"
    """It has not reported its assignment yet. Each response repeats it."""
    FORMER_DUE = "former due"
    """It had not reported its assignment when it had to revoke a part of it. For some time, each response repeats the
    former one."""


class Reported(NamedTuple):
    """A change in memory: what a member has reported, or None once it has left."""

    group: str
    member_id: str
    report: Report | None
    since: float | None = None
    """When a response had the former assignment for the first time, with FORMER_DUE."""


MemoryChange: TypeAlias = SeenTopics | RefreshAsked | Refreshed | TargetAsked | RegexesRefused | Awaited | Reported
"""A change of a group that is not in the log."""


class ConsumerGroup:
    def __init__(self, group_id: str, first_epoch: int | None = None) -> None:
        """`first_epoch` continues the generations of a classic group with this id."""
        self.group_id: Final = group_id
        self.written: GroupEpoch | None = None
        """The epoch as it is in the log. A group without one does not exist yet."""
        self.assigned: TargetEpoch | None = None
        self.members: Final[dict[str, ConsumerMember]] = {}
        self.targets: Final[dict[str, Partitions]] = {}
        self.resolved: Final[dict[str, ResolvedRegex]] = {}
        self.subscriptions: Final[Counter[Subscription]] = Counter()
        self.regexes: Final[Counter[str]] = Counter()
        self.unmatched: Final[dict[str, None]] = {}
        """Expressions of members that have no matches yet."""
        self.unread: Final[dict[str, None]] = {}
        """Expressions that have matches, but no member any longer."""
        self.refused: Final[dict[str, str]] = {}
        """Expressions whose matches can't be kept, with the reasons."""
        self._refused_now: Final[dict[str, None]] = {}
        """The expressions in `unmatched` that are refused."""
        self.classic_protocols: Final[Counter[str]] = Counter()
        """For each assignor, the number of classic members that offer it."""
        self.classic_members = 0
        self.seen = SeenTopics(group_id, 0, 0)
        """The version of the topics for which the group's epoch is known to be current."""
        self._altered: Final[set[Subscription | frozenset[str]]] = set()
        """Subscriptions and matches that have been added or removed since the topics were hashed."""
        self.refresh_asked = RefreshAsked(group_id, float("-inf"))
        self.refreshed = Refreshed(group_id, 0, float("-inf"))
        self.target_asked = TargetAsked(group_id, 0, float("-inf"))
        self.awaited: Final[dict[str, ClassicStep]] = {}
        self.reported: Final[dict[str, Reported]] = {}
        """What each member has reported. After a load there are no members in it."""
        self._first: Final = GroupEpoch() if first_epoch is None else GroupEpoch(first_epoch)
        self.quiet_epoch: int | None = None
        """The target's epoch, or None while the target is older than the group's epoch."""
        self._update_quiet_epoch()
        self._instances: Final[dict[str, str]] = {}
        self._owners: Final[dict[TopicId, dict[int, str]]] = {}
        self._reconciled: Final[Counter[int]] = Counter()
        self._assignors: Final[Counter[str]] = Counter()
        self._named: Final[Counter[str]] = Counter()
        self._counted: Final[dict[str, frozenset[str]]] = {}
        """For each expression of a member, its matches as `_matches` counts them."""
        self._matches: Final[Counter[frozenset[str]]] = Counter()
        self._matched: Final[Counter[str]] = Counter()
        """For each topic, the number of different `_matches` that contain it."""
        self._matches_size = 0
        """The number of names in all different `_matches`."""
        self._shared: Final[dict[Subscription, Subscription]] = {}

    # ---- what it is ------------------------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        return not self.members

    is_consumers: Final = True
    is_in_log: Final = True
    is_awaited: Final = False

    @property
    def exists(self) -> bool:
        return self.written is not None

    @property
    def is_void(self) -> bool:
        """Whether nothing of the group is in the log."""
        return not (self.exists or self.assigned or self.members or self.targets or self.resolved)

    @property
    def group_epoch(self) -> GroupEpoch:
        return self.written or self._first

    @property
    def epoch(self) -> int:
        return self.group_epoch.epoch

    @property
    def target_epoch(self) -> int:
        return self._first.epoch if self.assigned is None else self.assigned.epoch

    @property
    def is_all_classic(self) -> bool:
        """Whether all members use the classic protocol, and have an assignor in common."""
        count = self.classic_members
        return 0 < len(self.members) == count and count in self.classic_protocols.values()

    @property
    def is_assigned(self) -> bool:
        return self.target_epoch >= self.epoch

    @property
    def state(self) -> ConsumerGroupState:
        reconciled = self._reconciled[self.target_epoch]
        return group_state(len(self.members), reconciled, is_assigned=self.is_assigned)

    @property
    def reads_what_was_hashed(self) -> bool:
        return not self._altered

    @property
    def awaits_matches(self) -> bool:
        return len(self.unmatched) > len(self._refused_now)

    def refusal(self, pattern: str) -> str | None:
        """Return why the expression is refused and has no matches, or None."""
        return self.refused[pattern] if pattern in self._refused_now else None

    def by_instance(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def owner(self, topic_id: TopicId, number: int) -> str | None:
        """Return the member that owns the partition. A member owns it until it has given it up."""
        return self._owners.get(topic_id, {}).get(number)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def assignor(self, known: Sequence[str]) -> str:
        """Return which of the known assignors most members prefer, or the first one if they prefer none."""
        return max(known, key=lambda name: self._assignors[name])

    def subscribed_topics(self) -> Set[str]:
        """Return the topics that any member reads, by name or by a regular expression."""
        return self._named.keys() | self._matched.keys() if self._matched else self._named.keys()

    def reading(self) -> Reading:
        # An expression without matches may match any topic.
        topics = None if self.unmatched else self.subscribed_topics()
        left_ms = -1 if self.members or self.assigned is None else self.assigned.made_ms
        return Reading(topics, is_settled=True, empty_since_ms=left_ms)

    def reads(self, member: ConsumerMember, topic: str | None) -> bool:
        if topic is None:
            return False
        matches = self.resolved.get(member.metadata.regex)
        return topic in member.metadata.topics or (matches is not None and topic in matches.topics)

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        matches = self.resolved.get(subscription.regex)
        if matches is None:
            return subscription.topics
        return subscription.topics | matches.topics if subscription.topics else matches.topics

    def has_room_for(self, matches: frozenset[str], most: int) -> bool:
        """Return whether all matches of the group still have at most `most` names with these added. Equal matches count
        once."""
        return self._matches[matches] > 0 or self._matches_size + len(matches) <= most

    # ---- records ---------------------------------------------------------------------------------------------------

    def apply(self, key: ConsumerKey, value: Any) -> None:
        """Take in a record. A value of None is a tombstone."""
        match key:
            case GroupEpochKey():
                self.written = value
                self._update_quiet_epoch()
            case TargetEpochKey():
                self.assigned = value
                self._update_quiet_epoch()
            case MemberKey():
                self._put_metadata(key.member_id, value)
            case CurrentKey():
                self._put_current(key.member_id, value)
            case TargetKey():
                _put(self.targets, key.member_id, value)
            case RegexKey():
                self._put_resolved(key.pattern, value)

    def _update_quiet_epoch(self) -> None:
        self.quiet_epoch = self.target_epoch if self.is_assigned else None

    def keys(self) -> Iterator[ConsumerKey]:
        """Yield the keys of the group's records, and one that an older release of Kafka may have written."""
        yield from (CurrentKey(self.group_id, member_id) for member_id in self.members)
        yield from (TargetKey(self.group_id, member_id) for member_id in self.targets)
        yield TargetEpochKey(self.group_id)
        yield from (MemberKey(self.group_id, member_id) for member_id in self.members)
        yield from (RegexKey(self.group_id, pattern) for pattern in self.resolved)
        yield TopicMetadataKey(self.group_id)
        yield GroupEpochKey(self.group_id)

    def tombstones(self) -> tuple[Entry, ...]:
        """Return the records that delete the group."""
        return tuple(Entry(encode_consumer_key(key), None) for key in self.keys())

    def value_of(self, key: ConsumerKey) -> Any:
        """Return the value that `apply` last got under this key, or None."""
        match key:
            case GroupEpochKey():
                return self.written
            case TargetEpochKey():
                return self.assigned
            case MemberKey():
                member = self.members.get(key.member_id)
                return None if member is None else member.metadata
            case CurrentKey():
                member = self.members.get(key.member_id)
                return None if member is None or member.current == CurrentAssignment() else member.current
            case TargetKey():
                return self.targets.get(key.member_id)
            case RegexKey():
                return self.resolved.get(key.pattern)
        return None

    def remember(self, change: MemoryChange) -> None:
        match change:
            case SeenTopics():
                self.seen = change
                self._altered.clear()
            case Awaited():
                _put(self.awaited, change.member_id, change.step)
            case Reported():
                _put(self.reported, change.member_id, change if change.report else None)
            case RefreshAsked():
                self.refresh_asked = change
            case Refreshed():
                self.refreshed = change
            case TargetAsked():
                self.target_asked = change
            case RegexesRefused():
                gone = [pattern for pattern in self.refused if pattern not in self.regexes]
                for pattern, reason in {**dict.fromkeys(gone), **change.reasons}.items():
                    _put(self.refused, pattern, reason)
                    self._look_at_regex(pattern)

    def _put_metadata(self, member_id: str, metadata: MemberMetadata | None) -> None:
        former = self.members.get(member_id)
        if former is not None:
            self._count(former.metadata, member_id, -1)
        if metadata is not None:
            metadata = metadata._replace(topics=self._shared_topics(metadata))
            self.members[member_id] = (former or ConsumerMember(member_id))._replace(metadata=metadata)
            self._count(metadata, member_id, 1)
            if former is None:
                self._reconciled[0] += 1
        elif former is not None:
            self._release(former)
            del self.members[member_id]

    def _shared_topics(self, metadata: MemberMetadata) -> frozenset[str]:
        """Return the topics of a member as the group keeps them.

        Members with equal subscriptions share one set. Otherwise 5,000 members would hold its topics 5,000 times.
        Members with different subscriptions share the names, of which each request brings its own copies.
        """
        kept = self._shared.get(Subscription(metadata.topics, metadata.regex))
        if kept is not None:
            return kept.topics
        # A copy of a set takes half the memory of a set that has grown.
        return frozenset({intern(name) for name in metadata.topics})

    def _put_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        former = self.members.get(member_id)
        if former is None:
            if current is None:
                return
            self._put_metadata(member_id, MemberMetadata())
            former = self.members[member_id]
        self._release(former)
        member = former._replace(current=current or CurrentAssignment())
        self.members[member_id] = member
        self._reconciled[member.epoch] += member.current.state is MemberState.STABLE
        for partitions in (member.current.assigned, member.current.revoking):
            for topic_id, numbers in partitions.items():
                self._owners.setdefault(topic_id, {}).update(dict.fromkeys(numbers, member_id))

    def _release(self, member: ConsumerMember) -> None:
        """Undo the counts of the member's assignment."""
        if member.current.state is MemberState.STABLE:
            _take_one(self._reconciled, member.epoch)
        for partitions in (member.current.assigned, member.current.revoking):
            for topic_id, numbers in partitions.items():
                owners = self._owners.get(topic_id, {})
                for number in [n for n in numbers if owners.get(n) == member.member_id]:
                    del owners[number]
                if not owners:
                    self._owners.pop(topic_id, None)

    def _put_resolved(self, pattern: str, value: ResolvedRegex | None) -> None:
        _put(self.resolved, pattern, None if value is None else value._replace(topics=shared_names(value.topics)))
        self._look_at_regex(pattern)

    def _look_at_regex(self, pattern: str) -> None:
        """Update what depends on whether the expression has members and matches."""
        is_read, found = pattern in self.regexes, self.resolved.get(pattern)
        is_unmatched = is_read and found is None
        _mark(self.unread, pattern, not is_read and found is not None)
        _mark(self.unmatched, pattern, is_unmatched)
        _mark(self._refused_now, pattern, is_unmatched and pattern in self.refused)
        self._count_matches(pattern, found.topics if is_read and found is not None else None)

    def _count_matches(self, pattern: str, topics: frozenset[str] | None) -> None:
        former = self._counted.get(pattern)
        if former == topics:
            return
        _put(self._counted, pattern, topics)
        # Many expressions may have the same matches, which count once.
        if former is not None and _add(self._matches, former, -1):
            self._alter(former)
            self._matches_size -= len(former)
            for topic in sorted(former):
                _take_one(self._matched, topic)
        if topics is not None and _add(self._matches, topics, 1):
            self._alter(topics)
            self._matches_size += len(topics)
            self._matched.update(topics)

    def _alter(self, read: Subscription | frozenset[str]) -> None:
        """Note that this was added or removed. Both together alter nothing."""
        self._altered.symmetric_difference_update((read,))

    def _count(self, metadata: MemberMetadata, member_id: str, by: int) -> None:
        """Count the member in, or out with -1."""
        if metadata.instance_id is not None:
            if by > 0:
                self._instances[metadata.instance_id] = member_id
            elif self._instances.get(metadata.instance_id) == member_id:
                del self._instances[metadata.instance_id]
        subscription = Subscription(metadata.topics, metadata.regex)
        # A topic counts once for each subscription that names it, however many members have that subscription.
        if _add(self.subscriptions, subscription, by):
            self._alter(subscription)
            _put(self._shared, subscription, subscription if by > 0 else None)
            for topic in sorted(metadata.topics):
                _add(self._named, topic, by)
        if metadata.regex:
            _add(self.regexes, metadata.regex, by)
            self._look_at_regex(metadata.regex)
        if metadata.assignor is not None:
            _add(self._assignors, metadata.assignor, by)
        if metadata.classic is not None:
            self.classic_members += by
            for name in dict.fromkeys(metadata.classic.names):
                _add(self.classic_protocols, name, by)


def _put(values: dict[Any, Any], key: Hashable, value: Any) -> None:
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def _mark(marked: dict[str, None], key: str, is_marked: bool) -> None:
    if is_marked:
        marked[key] = None
    else:
        marked.pop(key, None)


def _add(counter: Counter[_Key], key: _Key, by: int) -> bool:
    """Count by 1 or -1. Return whether the key is new in the counter, or gone from it."""
    before = counter[key]
    if before + by:
        counter[key] = before + by
    else:
        del counter[key]
    return before == 0 or before + by == 0


def _take_one(counter: Counter[_Key], key: _Key) -> None:
    _add(counter, key, -1)
