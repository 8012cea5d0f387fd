"""What the members of churning groups were told, held against each other, and what it came to. Pure.

Two rules are checked. In one generation a partition has one reader, known by its instance id where it is a static
member, else by a name of its own. And a fetch of committed offsets tells of nothing older than the commits that were
acknowledged before it was asked for. Several processes check each their own members; their figures add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla_core.model import TopicPartition


class ChurnError(Exception):
    """A group did what no group may."""


@dataclass(slots=True)
class Generations:
    """The lowest and the highest generation of a group that a member was in."""

    first: int
    last: int

    def merge(self, other: Generations) -> None:
        self.first, self.last = min(self.first, other.first), max(self.last, other.last)


@dataclass(slots=True)
class Churn:
    """What all members of this process were told; what they read and committed is kept by group and partition."""

    generations: dict[str, Generations] = field(default_factory=dict)
    _readers: Final[dict[tuple[str, int, TopicPartition], str]] = field(default_factory=dict)
    _committed: Final[dict[tuple[str, TopicPartition], int]] = field(default_factory=dict)

    # ---- what members are told --------------------------------------------------------------------------------------

    def on_assigned(self, group: str, generation: int) -> None:
        """A member has its partitions. Without a generation it was left behind meanwhile, and will be told so."""
        if generation >= 0:
            seen = Generations(generation, generation)
            self.generations.setdefault(group, seen).merge(seen)

    def on_read(self, group: str, generation: int, reader: str, partitions: Iterable[TopicPartition]) -> None:
        """A member was handed records of these. Raises ChurnError where somebody else was, in its generation."""
        for partition in partitions:
            first = self._readers.setdefault((group, generation, partition), reader)
            if first != reader:
                raise ChurnError(f"{partition} has two readers in generation {generation} of {group}")

    def on_committed(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        """These were acknowledged."""
        for partition, offset in offsets.items():
            key = group, partition
            self._committed[key] = max(offset, self._committed.get(key, 0))

    def committed(self, group: str) -> dict[TopicPartition, int]:
        """The highest offsets that were acknowledged so far: what a fetch that is asked for now may not fall behind."""
        return {partition: offset for (name, partition), offset in self._committed.items() if name == group}

    # ---- what it came to --------------------------------------------------------------------------------------------

    def take(self) -> dict[str, tuple[int, int]]:
        """The generations so far as plain values, to be added to another process's; they are forgotten here."""
        taken = {group: (seen.first, seen.last) for group, seen in self.generations.items()}
        self.generations = {}
        return taken

    def add(self, taken: Mapping[str, tuple[int, int]]) -> None:
        """Add what `take` gave elsewhere."""
        for group, (first, last) in taken.items():
            seen = Generations(first, last)
            self.generations.setdefault(group, seen).merge(seen)

    def report(self, memberships: Mapping[str, Any], seconds: int) -> dict[str, float]:
        """`memberships` is their row of a timeline of so many seconds, whose latencies are what each member waited."""
        return {
            "rebalances": sum(seen.last - seen.first for seen in self.generations.values()),
            "joins_per_s": round((memberships["requests"] - memberships["failures"]) / max(1, seconds), 2),
            "rebalance_p50_ms": memberships["p50_ms"],
            "rebalance_p99_ms": memberships["p99_ms"],
        }


def check_committed(
    group: str, at_least: Mapping[TopicPartition, int], told: Mapping[TopicPartition, int | None]
) -> None:
    """Raise ChurnError where a fetch told of an older offset than `at_least`, acknowledged before it was asked for."""
    for partition, offset in at_least.items():
        if (told.get(partition) or 0) < offset:
            raise ChurnError(f"{group} was told {told.get(partition)} of {partition} after {offset} was committed")
