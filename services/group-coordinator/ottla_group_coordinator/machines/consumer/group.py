"""A group of the consumer protocol: its members, their targets, who owns what, and in which epoch.

Each change is one record's, here as in the log, so the state is the log's by construction. What is asked again and
again (the state's name, who owns a partition, what is subscribed) is kept up to date with each change. So a request
costs as much in a group of 5,000 members as in one of five.
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
from ottla_group_coordinator.machines.consumer.shared_names import shared
from ottla_group_coordinator.machines.consumer.states import ConsumerGroupState, MemberState, group_state
from ottla_group_coordinator.machines.reading import Reading

_Key = TypeVar("_Key", bound=Hashable)


class Subscription(NamedTuple):
    """What a member reads. Most groups have one, whatever their size."""

    topics: frozenset[str]
    regex: str


class SeenTopics(NamedTuple):
    """Notes, as a change in memory, which version of the topics a group has seen."""

    group: str
    version: int


class RefreshAsked(NamedTuple):
    """Notes, as a change in memory, when the matches of all regular expressions of a group were last asked for."""

    group: str
    at: float


class Refreshed(NamedTuple):
    """Notes, as a change in memory, when all regular expressions of a group were last matched, and with which version
    of the topics and ACLs."""

    group: str
    version: int
    at: float


class TargetAsked(NamedTuple):
    """Notes, as a change in memory, when a group's target was last asked for, and for which epoch."""

    group: str
    epoch: int
    at: float


class RegexesRefused(NamedTuple):
    """Notes, as a change in memory, why the matches of some regular expressions can't be kept, or with None that they
    are to be tried again."""

    group: str
    reasons: Mapping[str, str | None]


class ClassicStep(Enum):
    """What a member of the classic protocol is to do next."""

    JOIN = "join"
    SYNC = "sync"


class Awaited(NamedTuple):
    """Notes, as a change in memory, what is awaited of a classic member. None: nothing."""

    group: str
    member_id: str
    step: ClassicStep | None


MemoryChange: TypeAlias = SeenTopics | RefreshAsked | Refreshed | TargetAsked | RegexesRefused | Awaited
"""A change of a group that is not in the log."""


class ConsumerGroup:
    def __init__(self, group_id: str, first_epoch: int | None = None) -> None:
        """`first_epoch` is that of a group of the other protocol, whose epochs this one continues."""
        self.group_id: Final = group_id
        self.written: GroupEpoch | None = None
        """The epoch as it is in the log. A group that has none does not exist yet."""
        self.assigned: TargetEpoch | None = None
        self.members: Final[dict[str, ConsumerMember]] = {}
        self.targets: Final[dict[str, Partitions]] = {}
        self.resolved: Final[dict[str, ResolvedRegex]] = {}
        self.subscriptions: Final[Counter[Subscription]] = Counter()
        self.regexes: Final[Counter[str]] = Counter()
        self.unmatched: Final[dict[str, None]] = {}
        """These expressions of members have no matches yet."""
        self.unread: Final[dict[str, None]] = {}
        """These expressions have matches, but no member has them any longer."""
        self.refused: Final[dict[str, str]] = {}
        """The expressions whose matches can't be kept, and why."""
        self._refused_now: Final[dict[str, None]] = {}
        """Those of `unmatched` that are refused."""
        self.classic_protocols: Final[Counter[str]] = Counter()
        """How many members of the classic protocol offer each assignor."""
        self.classic_members = 0
        self.seen_version = 0
        """The version of the topics by which the epoch is known to be right."""
        self.refresh_asked = RefreshAsked(group_id, float("-inf"))
        self.refreshed = Refreshed(group_id, 0, float("-inf"))
        self.target_asked = TargetAsked(group_id, 0, float("-inf"))
        self.awaited: Final[dict[str, ClassicStep]] = {}
        self._first: Final = GroupEpoch() if first_epoch is None else GroupEpoch(first_epoch)
        self.quiet_epoch: int | None = None
        """The epoch of members that have nothing to do, or None while the next target is to be made."""
        self._update_quiet_epoch()
        self._instances: Final[dict[str, str]] = {}
        self._owners: Final[dict[TopicId, dict[int, str]]] = {}
        self._reconciled: Final[Counter[int]] = Counter()
        self._assignors: Final[Counter[str]] = Counter()
        self._named: Final[Counter[str]] = Counter()
        self._counted: Final[dict[str, frozenset[str]]] = {}
        """The matches that count, of expressions that members have."""
        self._matches: Final[Counter[frozenset[str]]] = Counter()
        self._matched: Final[Counter[str]] = Counter()
        """In how many different `_matches` a topic is."""
        self._matches_size = 0
        """How many names the different `_matches` have."""
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
        """It tells whether nothing of the group is in the log."""
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
        """It tells whether all members use the classic protocol, and could make an assignment for each other."""
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
    def awaits_matches(self) -> bool:
        return len(self.unmatched) > len(self._refused_now)

    def refusal(self, pattern: str) -> str | None:
        """Return why the expression has no matches, and gets none for now."""
        return self.refused[pattern] if pattern in self._refused_now else None

    def by_instance(self, instance_id: str | None) -> ConsumerMember | None:
        member_id = None if instance_id is None else self._instances.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def owner(self, topic_id: TopicId, number: int) -> str | None:
        """Return the member that owns the partition: it has it, or has not given it up yet."""
        return self._owners.get(topic_id, {}).get(number)

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def assignor(self, known: Sequence[str]) -> str:
        """Return the assignor that most members prefer, of those that are known. The first is that of a group whose
        members prefer none."""
        return max(known, key=lambda name: self._assignors[name])

    def subscribed_topics(self) -> Set[str]:
        """Return the topics that any member reads, by name or by what its regular expression matches."""
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
        """Return whether the matches of the group's expressions would still be at most that many, with these added.
        Those that are equal count once."""
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
        """Yield the key of each of the group's records, and that of one which an older release may have written."""
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
        """Return what `apply` has taken in last under this key, or None."""
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
                self.seen_version = change.version
            case Awaited():
                _put(self.awaited, change.member_id, change.step)
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

        Members with one subscription share it, or 5,000 of them would hold its topics 5,000 times. Those with another
        share the names, each of which came with a request of its own.
        """
        shared = self._shared.get(Subscription(metadata.topics, metadata.regex))
        if shared is not None:
            return shared.topics
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
        """Take out what is counted of the member's assignment."""
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
        _put(self.resolved, pattern, None if value is None else value._replace(topics=shared(value.topics)))
        self._look_at_regex(pattern)

    def _look_at_regex(self, pattern: str) -> None:
        """Keep up to date what depends on whether the expression has readers and matches."""
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
            self._matches_size -= len(former)
            for topic in sorted(former):
                _take_one(self._matched, topic)
        if topics is not None and _add(self._matches, topics, 1):
            self._matches_size += len(topics)
            self._matched.update(topics)

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
