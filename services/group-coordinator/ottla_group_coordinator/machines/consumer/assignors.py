"""The assignors, which decide who reads which partition. A group uses the one that most of its members prefer.

An assignor is a function of the subscriptions, the partitions and the former target, so every coordinator gets the same
result. It runs in steps, because a large group takes longer than a decision may. It ignores racks, as in Kafka 4.4.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import islice
from typing import Final, NamedTuple, Protocol

from ottla_core.event_loop.steps import Steps
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer.partitions import NO_PARTITIONS, Partitions

_MOST_PASSES: Final = 16
"""How often `uniform` looks for a better balance if members read different topics. Few groups need more than two."""

_A_STEP: Final = 500
"""How many partitions are assigned in one step."""

Counts = Mapping[TopicId, int]
"""The number of partitions of each topic."""


class AssignedMember(NamedTuple):
    """A member as an assignor sees it. `topics` are sorted, and `former` is its present target."""

    topics: tuple[TopicId, ...]
    instance_id: str | None = None
    former: Partitions = NO_PARTITIONS


class Assignor(Protocol):
    def __call__(self, members: Mapping[str, AssignedMember], counts: Counts) -> Steps[Mapping[str, Partitions]]:
        """Find the target of each member. `counts` has the topics that members read, and no others."""
        ...


# ---- uniform ------------------------------------------------------------------------------------------------------


def uniform(members: Mapping[str, AssignedMember], counts: Counts) -> Steps[Mapping[str, Partitions]]:
    """Give all members equally many partitions, as far as their topics allow, and move as few as possible."""
    free = _Free(counts)
    held: dict[str, Partitions] = {}
    for name in sorted(members):
        held[name] = free.take(_valid(members[name], counts))
        yield
    if (yield from _read_the_same(members)):
        return (yield from _share_equally(held, free, sum(counts.values())))
    return (yield from _Balance(held, free).targets(members))


def _read_the_same(members: Mapping[str, AssignedMember]) -> Steps[bool]:
    first = next(iter(members.values()), AssignedMember(())).topics
    for member in members.values():
        if member.topics is not first and member.topics != first:
            return False
        yield
    return True


def _valid(member: AssignedMember, counts: Counts) -> Partitions:
    """Return the partitions of a member's former target that still exist and that it still reads."""
    former, read = member.former, frozenset(member.topics if member.former else ())
    if all(t in read and max(numbers, default=0) < counts[t] for t, numbers in former.items()):
        return former
    kept = {t: frozenset(n for n in numbers if n < counts[t]) for t, numbers in former.items() if t in read}
    return {t: numbers for t, numbers in kept.items() if numbers}


class _Free:
    """The partitions that no member has, in order."""

    def __init__(self, counts: Counts) -> None:
        self._counts: Final = counts
        self._taken: Final[dict[TopicId, set[int]]] = {}

    def take(self, wanted: Partitions) -> Partitions:
        """Take those of the wanted partitions that are free, and return them."""
        if any(not self._taken.get(t, set()).isdisjoint(numbers) for t, numbers in wanted.items()):
            left = {t: numbers - self._taken.get(t, set()) for t, numbers in wanted.items()}
            wanted = {t: numbers for t, numbers in left.items() if numbers}
        for topic_id, numbers in wanted.items():
            self._taken.setdefault(topic_id, set()).update(numbers)
        return wanted

    def give_back(self, topic_id: TopicId, number: int) -> None:
        self._taken[topic_id].discard(number)

    def of(self, topic_id: TopicId) -> Sequence[int]:
        taken, count = self._taken.get(topic_id, set()), self._counts[topic_id]
        if len(taken) == count:
            return ()
        return [number for number in range(count) if number not in taken]

    def __iter__(self) -> Iterator[tuple[TopicId, int]]:
        for topic_id in sorted(self._counts):
            for number in self.of(topic_id):
                yield topic_id, number


def _share_equally(held: Mapping[str, Partitions], free: _Free, total: int) -> Steps[Mapping[str, Partitions]]:
    least, extra = divmod(total, len(held) or 1)
    sizes = {name: sum(map(len, partitions.values())) for name, partitions in held.items()}
    targets: dict[str, Partitions] = {}
    short: list[tuple[str, int]] = []
    # The members that have most keep the extra partitions, so none moves because of the order of the members alone.
    for place, name in enumerate(sorted(held, key=lambda name: (-sizes[name], name))):
        quota = least + (place < extra)
        targets[name] = held[name]
        if sizes[name] > quota:
            targets[name] = _without(held[name], sizes[name] - quota, free)
        elif sizes[name] < quota:
            short.append((name, quota - sizes[name]))
        yield
    rest = iter(free)
    for name, missing in short:
        targets[name] = yield from _with(targets[name], islice(rest, missing))
    return targets


def _without(partitions: Partitions, surplus: int, free: _Free) -> Partitions:
    """Give the last `surplus` partitions back."""
    kept = dict(partitions)
    for topic_id in sorted(partitions, reverse=True):
        numbers = sorted(kept[topic_id])
        stay = max(0, len(numbers) - surplus)
        for number in numbers[stay:]:
            free.give_back(topic_id, number)
        surplus -= len(numbers) - stay
        kept[topic_id] = frozenset(numbers[:stay])
        if not surplus:
            break
    return {t: numbers for t, numbers in kept.items() if numbers}


def _with(partitions: Partitions, more: Iterable[tuple[TopicId, int]]) -> Steps[Partitions]:
    added: dict[TopicId, set[int]] = {}
    for place, (topic_id, number) in enumerate(more):
        added.setdefault(topic_id, set()).add(number)
        if place % _A_STEP == 0:
            yield
    return {t: partitions.get(t, frozenset()) | added.get(t, set()) for t in dict.fromkeys((*partitions, *added))}


class _Balance:
    """Members that read different topics: those that have fewest get free partitions, and then surplus ones move."""

    def __init__(self, held: Mapping[str, Partitions], free: _Free) -> None:
        self._held: Final = {name: {t: set(n) for t, n in partitions.items()} for name, partitions in held.items()}
        self._sizes: Final = {name: sum(map(len, partitions.values())) for name, partitions in held.items()}
        self._free: Final = free
        self._readers: Final[dict[TopicId, list[str]]] = {}

    def targets(self, members: Mapping[str, AssignedMember]) -> Steps[Mapping[str, Partitions]]:
        for name in self._held:
            for topic_id in members[name].topics:
                self._readers.setdefault(topic_id, []).append(name)
            yield
        # Topics with few readers come first, because topics with more readers can still even out what they leave.
        topics = sorted(self._readers, key=lambda topic_id: (len(self._readers[topic_id]), topic_id))
        for topic_id in topics:
            yield from self._give(topic_id)
        for _ in range(_MOST_PASSES):
            has_moved = False
            for topic_id in topics:
                has_moved |= yield from self._level(topic_id)
            if not has_moved:
                break
        targets: dict[str, Partitions] = {}
        for name, held in self._held.items():
            targets[name] = {t: frozenset(n) for t, n in held.items() if n}
            yield
        return targets

    def _give(self, topic_id: TopicId) -> Steps[None]:
        """Give the topic's free partitions to its readers that have fewest."""
        yield
        numbers = self._free.of(topic_id)
        if not numbers:
            return
        readers = [(self._sizes[name], name) for name in self._readers[topic_id]]
        heapify(readers)
        for place, number in enumerate(numbers):
            size, name = readers[0]
            self._add(name, topic_id, number)
            heapreplace(readers, (size + 1, name))
            if place % _A_STEP == 0:
                yield

    def _level(self, topic_id: TopicId) -> Steps[bool]:
        """Move partitions of the topic from the reader that has most to the one that has fewest, until they differ by
        one at most. Return whether any was moved."""
        yield
        readers = self._readers[topic_id]
        sizes = [self._sizes[name] for name in readers]
        # Most topics are balanced, so this check has to be cheap.
        if max(sizes) - min(sizes) < 2:
            return False
        least = list(zip(sizes, readers, strict=True))
        most = [(-size, name) for size, name in least if self._held[name].get(topic_id)]
        heapify(least)
        heapify(most)
        in_order: dict[str, list[int]] = {}
        moved = 0
        while most:
            size, name = -most[0][0], most[0][1]
            if size - least[0][0] < 2:
                break
            taker = least[0][1]
            if name not in in_order:
                in_order[name] = sorted(self._held[name][topic_id])
            number = in_order[name].pop()
            self._held[name][topic_id].discard(number)
            self._sizes[name] -= 1
            self._add(taker, topic_id, number)
            moved += 1
            heapreplace(least, (self._sizes[taker], taker))
            if in_order[name]:
                heapreplace(most, (-self._sizes[name], name))
            else:
                heappop(most)
            if moved % _A_STEP == 0:
                yield
        return moved > 0

    def _add(self, name: str, topic_id: TopicId, number: int) -> None:
        self._held[name].setdefault(topic_id, set()).add(number)
        self._sizes[name] += 1


# ---- range --------------------------------------------------------------------------------------------------------


def range_(members: Mapping[str, AssignedMember], counts: Counts) -> Steps[Mapping[str, Partitions]]:
    """Give each reader of a topic a range of its partitions. Members that read the same topics get the same ranges of
    all of them, so that they can join records of these topics."""
    readers: dict[TopicId, list[str]] = {}
    for name in sorted(members, key=lambda name: _place(name, members[name])):
        for topic_id in members[name].topics:
            readers.setdefault(topic_id, []).append(name)
        yield
    targets: dict[str, dict[TopicId, frozenset[int]]] = {name: {} for name in members}
    for topic_id in sorted(readers):
        least, extra = divmod(counts[topic_id], len(readers[topic_id]))
        start = 0
        for place, name in enumerate(readers[topic_id]):
            end = start + least + (place < extra)
            if end > start:
                targets[name][topic_id] = frozenset(range(start, end))
            start = end
        yield
    return targets


def _place(name: str, member: AssignedMember) -> tuple[bool, str]:
    # A static member keeps its place, and with it its ranges, when it comes back under another id.
    return (member.instance_id is None, member.instance_id or name)


ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": uniform, "range": range_}
"""By their names in `group.remote.assignor`."""
