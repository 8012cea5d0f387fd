"""The strategies by which a group's leader assigns partitions to members.

Names and results are Kafka's, so that members with other clients may lead or follow:

* `range`: each member gets a contiguous range of every topic's partitions; topics of equal size are split alike.
* `roundrobin`: the partitions of all topics are dealt out one by one.
* `sticky`: even to within one partition, and as many as possible stay with their member (KIP-54).
* `cooperative-sticky`: like `sticky`, but a partition that moves has no owner in this round: its old owner gives it up
  while it goes on reading the rest, and the next round assigns it (KIP-429).

The coordinator lists members in no particular order; all results depend on ids alone, never on that order.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import ClassVar, Final, NamedTuple

from ottla.machines.stickiness import Owned, balance
from ottla_core.kafka_formats.consumer_protocol import (
    UNKNOWN_GENERATION,
    Subscription,
    read_partitions,
    write_partitions,
)
from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import TopicPartition

_GENERATION_BYTES: Final = 4


class Subscriber(NamedTuple):
    """A member of the group that gets partitions."""

    member_id: str
    subscription: Subscription
    instance_id: str | None = None

    @property
    def rank(self) -> tuple[bool, str]:
        """The sort key of members: static ones first, because their order survives restarts."""
        return (self.instance_id is None, self.instance_id or self.member_id)


Assignments = dict[str, list[TopicPartition]]
"""The partitions by member id. It has every member, and every partition of a subscribed topic once."""


class Assignor(ABC):
    """A strategy. To make one of your own, subclass it, give it a `name`, and pass an instance: `assignors=[mine]`."""

    name: ClassVar[str]
    cooperative: ClassVar[bool] = False
    """Whether members keep reading their partitions while the group rebalances."""

    @abstractmethod
    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        """Assign the partitions. `partitions_of` has the number of partitions of each existing subscribed topic."""

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes:
        """Return what a member adds to its subscription, for the assignor of the group's leader."""
        return b""


class RangeAssignor(Assignor):
    name = "range"

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        ranked = sorted(members, key=lambda member: member.rank)
        made: Assignments = {member.member_id: [] for member in ranked}
        indexes_of = _indexes_by_topic(ranked)
        for topic in sorted(partitions_of):
            indexes = indexes_of.get(topic, ())
            numbers = iter(range(partitions_of[topic]))
            for rank, index in enumerate(indexes):
                least, more = divmod(partitions_of[topic], len(indexes))
                share = islice(numbers, least + (rank < more))
                made[ranked[index].member_id] += [TopicPartition(topic, number) for number in share]
        return made


class RoundRobinAssignor(Assignor):
    name = "roundrobin"

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        ranked = sorted(members, key=lambda member: member.rank)
        made: Assignments = {member.member_id: [] for member in ranked}
        indexes_of, turn = _indexes_by_topic(ranked), 0
        for partition in all_partitions(partitions_of):
            indexes = indexes_of.get(partition.topic)
            if indexes is not None:
                # The next reader from `turn` on, or from the first member on where that was the last.
                index = indexes[bisect_left(indexes, turn) % len(indexes)]
                made[ranked[index].member_id].append(partition)
                turn = index + 1
        return made


def _indexes_by_topic(ranked: Sequence[Subscriber]) -> dict[str, list[int]]:
    """Return, for each topic, the indexes in `ranked` of the members that subscribe to it, in order."""
    indexes_of: dict[str, list[int]] = {}
    for index, member in enumerate(ranked):
        for topic in dict.fromkeys(member.subscription.topics):
            indexes_of.setdefault(topic, []).append(index)
    return indexes_of


class StickyAssignor(Assignor):
    """An assignor whose members list their partitions in the user data, as Java's does."""

    name = "sticky"

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        ranked = sorted(members, key=lambda member: member.rank)
        topics_of = {member.member_id: frozenset(member.subscription.topics) for member in ranked}
        owned = {member.member_id: self._owned(member.subscription) for member in ranked}
        return balance(list(all_partitions(partitions_of)), topics_of, owned)

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes:
        writer = Writer(flexible=False)
        write_partitions(writer, owned)
        writer.int32(generation)
        return bytes(writer.buffer)

    def _owned(self, subscription: Subscription) -> Owned:
        if not subscription.user_data:
            return Owned(subscription.generation, subscription.owned)
        reader = Reader(memoryview(subscription.user_data))
        try:
            partitions = read_partitions(reader)
            generation = reader.int32() if reader.left >= _GENERATION_BYTES else UNKNOWN_GENERATION
        except MalformedError:
            return Owned(UNKNOWN_GENERATION, ())  # the member keeps nothing, and the group goes on
        return Owned(generation, partitions)


class CooperativeStickyAssignor(StickyAssignor):
    """An assignor whose members list their partitions in the subscription; older clients send only the generation."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(self, partitions_of: Mapping[str, int], members: Iterable[Subscriber]) -> Assignments:
        members = list(members)
        target = super().assign(partitions_of, members)
        return withhold_moving(target, {m.member_id: self._owned(m.subscription) for m in members})

    def user_data(self, owned: Iterable[TopicPartition], generation: int) -> bytes:
        writer = Writer(flexible=False)
        writer.int32(generation)
        return bytes(writer.buffer)

    def _owned(self, subscription: Subscription) -> Owned:
        generation = subscription.generation
        if generation == UNKNOWN_GENERATION and len(subscription.user_data) >= _GENERATION_BYTES:
            generation = Reader(memoryview(subscription.user_data)).int32()
        return Owned(generation, subscription.owned)


def withhold_moving(target: Assignments, owned: Mapping[str, Owned]) -> Assignments:
    """Return `target` without partitions that another member still holds: that member has to give them up first.

    If two members claim a partition, the one with the older generation does not hold it: it has missed that it moved.
    """
    holders: dict[TopicPartition, tuple[int, set[str]]] = {}
    for member_id, (generation, partitions) in owned.items():
        for partition in partitions:
            newest, member_ids = holders.get(partition, (generation, set()))
            if generation > newest:
                member_ids = set()
            if generation >= newest:
                holders[partition] = (generation, member_ids | {member_id})
    no_holder = (UNKNOWN_GENERATION, set[str]())
    return {
        member_id: [p for p in partitions if holders.get(p, no_holder)[1] <= {member_id}]
        for member_id, partitions in target.items()
    }


def all_partitions(partitions_of: Mapping[str, int]) -> Iterable[TopicPartition]:
    """Return all partitions, by topic and number."""
    for topic in sorted(partitions_of):
        for number in range(partitions_of[topic]):
            yield TopicPartition(topic, number)


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    assignor.name: assignor
    for assignor in (RangeAssignor(), RoundRobinAssignor(), StickyAssignor(), CooperativeStickyAssignor())
}
