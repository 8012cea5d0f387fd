"""Sets of partitions by topic id: a member's target, and its assignment with the epoch of each partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from ottla_core.model import TopicId

Partitions = Mapping[TopicId, frozenset[int]]
EpochOfPartition = Mapping[TopicId, Mapping[int, int]]
"""For each partition the member epoch at which the member got it (KIP-1251)."""

NO_PARTITIONS: Final[Partitions] = {}
NO_EPOCHS: Final[EpochOfPartition] = {}


_FEW: Final = 8
"""The size of the largest sets that are shared. Most members have few partitions of each topic."""

_KEPT: Final = 1 << 13


def shared_numbers(numbers: frozenset[int]) -> frozenset[int]:
    """Return an equal set. Equal small sets are shared, whatever their members and topics."""
    return _kept(numbers) if len(numbers) <= _FEW else numbers


def shared_epochs(epochs: Mapping[int, int]) -> Mapping[int, int]:
    """Return an equal mapping, shared like the sets of `shared_numbers`."""
    return _kept_epochs(tuple(epochs.items())) if len(epochs) <= _FEW else epochs


@lru_cache(_KEPT)
def _kept(numbers: frozenset[int]) -> frozenset[int]:
    return numbers


@lru_cache(_KEPT)
def _kept_epochs(epochs: tuple[tuple[int, int], ...]) -> Mapping[int, int]:
    return dict(epochs)


def each(partitions: Mapping[TopicId, frozenset[int] | Mapping[int, int]]) -> Iterator[tuple[TopicId, int]]:
    for topic_id, numbers in partitions.items():
        for number in numbers:
            yield topic_id, number


def without_epochs(partitions: EpochOfPartition) -> Partitions:
    return {topic_id: frozenset(epochs) for topic_id, epochs in partitions.items()}


def count(partitions: Mapping[TopicId, frozenset[int] | Mapping[int, int]]) -> int:
    return sum(map(len, partitions.values()))


def has_all(partitions: EpochOfPartition, some: Partitions) -> bool:
    """Return whether all partitions of `some` are among `partitions`."""
    return all(numbers <= partitions.get(topic_id, {}).keys() for topic_id, numbers in some.items() if numbers)


def has_any(partitions: EpochOfPartition, some: Partitions) -> bool:
    """Return whether a partition of `some` is among `partitions`."""
    return any(not numbers.isdisjoint(partitions.get(topic_id, {})) for topic_id, numbers in some.items())


def union(some: EpochOfPartition, others: EpochOfPartition) -> EpochOfPartition:
    """Return the partitions that are in either. One that is in both has its epoch in `others`."""
    return {t: {**some.get(t, {}), **others.get(t, {})} for t in (*some, *(t for t in others if t not in some))}


def are_equal(partitions: EpochOfPartition, others: Mapping[TopicId, frozenset[int] | Mapping[int, int]]) -> bool:
    """Return whether both have the same partitions, whatever their epochs."""
    return count(partitions) == count(others) and all(
        frozenset(numbers) <= partitions.get(topic_id, {}).keys() for topic_id, numbers in others.items() if numbers
    )
