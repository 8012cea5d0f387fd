"""An even assignment that moves as few partitions as possible, shared by the sticky assignors.

It has three steps. First it checks what members own: if two claim a partition, the newer generation has it; if both are
of the same generation, neither has it. Then each member keeps as many of its partitions as an even share allows.
Finally each remaining partition goes to the reader of its topic that has the fewest. If members read different topics,
partitions then move from fuller to emptier members until no move makes the shares more even.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from ottla_core.model import TopicPartition


class Owned(NamedTuple):
    """The partitions that a member holds, by the assignment of that generation."""

    generation: int
    partitions: Sequence[TopicPartition]


TopicsOf = Mapping[str, frozenset[str]]
"""The topics that each member subscribes to; among equal members, the first in this order comes first."""


def balance(
    partitions: Sequence[TopicPartition], topics_of: TopicsOf, owned: Mapping[str, Owned]
) -> dict[str, list[TopicPartition]]:
    """Assign each of `partitions` that has a subscriber; return the assignment by member."""
    readers = _readers(partitions, topics_of)
    readable = [partition for partition in partitions if readers[partition.topic]]
    claimed = _claims(readable, topics_of, owned)
    alike = len(set(topics_of.values())) <= 1
    made = _within_even_share(claimed, len(readable)) if alike else claimed
    assigned = {partition for owned_partitions in made.values() for partition in owned_partitions}
    _hand_out([partition for partition in readable if partition not in assigned], made, readers)
    if not alike:
        _even_out(made, readers)
    return {member_id: sorted(owned_partitions) for member_id, owned_partitions in made.items()}


def _readers(partitions: Iterable[TopicPartition], topics_of: TopicsOf) -> dict[str, list[str]]:
    """Return the members that subscribe to each topic, in their order."""
    topics = dict.fromkeys(partition.topic for partition in partitions)
    return {
        topic: [member_id for member_id, owned_partitions in topics_of.items() if topic in owned_partitions]
        for topic in topics
    }


def _claims(
    readable: Iterable[TopicPartition], topics_of: TopicsOf, owned: Mapping[str, Owned]
) -> dict[str, list[TopicPartition]]:
    """Return what each member really owns: existing, subscribed partitions that no other member claims as strongly."""
    subscribed = set(readable)
    best: dict[TopicPartition, tuple[int, str | None]] = {}
    for member_id, (generation, partitions) in owned.items():
        for partition in dict.fromkeys(partitions):
            if partition not in subscribed or partition.topic not in topics_of[member_id]:
                continue
            known = best.get(partition)
            if known is None or generation > known[0]:
                best[partition] = (generation, member_id)
            elif generation == known[0]:
                best[partition] = (generation, None)
    claimed: dict[str, list[TopicPartition]] = {member_id: [] for member_id in topics_of}
    for partition, (_, holder) in best.items():
        if holder is not None:
            claimed[holder].append(partition)
    return claimed


def _within_even_share(claimed: Mapping[str, list[TopicPartition]], total: int) -> dict[str, list[TopicPartition]]:
    """Return what members keep if all read the same topics: an even share each, and one more while partitions
    remain."""
    if not claimed:
        return {}
    least, with_one_more = divmod(total, len(claimed))
    made = {}
    # The sort is stable: the member with the most is the first to keep one more.
    for member_id in sorted(claimed, key=lambda m: -len(claimed[m])):
        room = least
        if len(claimed[member_id]) > least and with_one_more:
            room, with_one_more = least + 1, with_one_more - 1
        made[member_id] = sorted(claimed[member_id])[:room]
    return {member_id: made[member_id] for member_id in claimed}


def _hand_out(
    free: Iterable[TopicPartition], made: dict[str, list[TopicPartition]], readers: Mapping[str, list[str]]
) -> None:
    """Give each partition to the reader that has the fewest; partitions with few readers go first."""
    by_readers: dict[tuple[str, ...], list[TopicPartition]] = defaultdict(list)
    for partition in free:
        by_readers[tuple(readers[partition.topic])].append(partition)
    for owned_partitions, partitions in sorted(by_readers.items(), key=lambda item: len(item[0])):
        heap = [(len(made[member_id]), rank, member_id) for rank, member_id in enumerate(owned_partitions)]
        heapify(heap)
        for partition in partitions:
            load, rank, member_id = heappop(heap)
            made[member_id].append(partition)
            heappush(heap, (load + 1, rank, member_id))


def _even_out(made: dict[str, list[TopicPartition]], readers: Mapping[str, list[str]]) -> None:
    """Move partitions from fuller to emptier readers while a move makes the shares more even.

    Each move lowers the sum of the squared shares by at least 2, so this loop ends.
    """
    moved = True
    while moved:
        moved = False
        for member_id in sorted(made, key=lambda m: -len(made[m])):
            for partition in sorted(made[member_id]):
                emptiest = min(readers[partition.topic], key=lambda m: len(made[m]))
                if len(made[member_id]) - len(made[emptiest]) > 1:
                    made[member_id].remove(partition)
                    made[emptiest].append(partition)
                    moved = True
