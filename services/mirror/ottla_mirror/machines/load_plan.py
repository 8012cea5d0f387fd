"""The plan shares a flow's partitions among its mirrors so that each has about the same load, in bytes a second.

A partition stops for a moment when it moves, so it moves only if that evens out the loads enough. Partitions without
any load are spread evenly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import TopicPartition

Rates = Mapping[TopicPartition, float]
"""Loads in bytes a second."""

_VERSION: Final = 0
_IDLE: Final = 0.05
"""A partition without load weighs this share of the mean load."""

_WORTH: Final = 0.1
"""The busiest mirror may exceed the average load by this share before something moves."""

_MOST_MOVES: Final = 500
"""One plan makes at most this many moves, and the next one continues."""

_SMOOTH: Final = 0.5


class RateMeter:
    """A rate meter measures the load of each partition. `rates` are smoothed over several observations."""

    def __init__(self) -> None:
        self.rates: dict[TopicPartition, float] = {}  # replaced, never changed
        self._before: dict[TopicPartition, tuple[float, int]] = {}

    def observe(self, now: float, copied: Mapping[TopicPartition, int]) -> None:
        """Note how many bytes of each partition were copied by `now`, in monotonic seconds. Partitions that are not in
        `copied` are forgotten."""
        rates = {}
        for partition, size_bytes in copied.items():
            at, former = self._before.get(partition, (now, size_bytes))
            rate = max(0, size_bytes - former) / (now - at) if now > at else 0.0
            rates[partition] = _SMOOTH * rate + (1 - _SMOOTH) * self.rates.get(partition, rate)
        self.rates, self._before = rates, {partition: (now, size) for partition, size in copied.items()}


def spread(
    partitions: Iterable[TopicPartition],
    owned: Mapping[str, Collection[TopicPartition]],
    readers: Mapping[str, Collection[str]],
    rates: Rates,
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of each member. `owned` has the current ones, the best claim first, and `readers` each
    topic's subscribers."""
    everything = dict.fromkeys(partitions)
    mean = sum(rates.get(partition, 0.0) for partition in everything) / max(1, len(everything))
    weights = {partition: rates.get(partition, 0.0) + (mean * _IDLE or 1.0) for partition in everything}
    made: dict[str, list[TopicPartition]] = {}
    left = set(everything)
    for member, own in owned.items():
        made[member] = sorted(p for p in left.intersection(own) if member in readers[p.topic])
        left.difference_update(made[member])
    loads = {member: sum(weights[partition] for partition in own) for member, own in made.items()}
    for partition in sorted(left, key=lambda p: (-weights[p], p)):
        idlest = min(readers[partition.topic], key=lambda member: (loads[member], member))
        made[idlest].append(partition)
        loads[idlest] += weights[partition]
    for _ in range(_MOST_MOVES):
        if not _move_one(made, loads, readers, weights):
            break
    return made


def _move_one(
    made: Mapping[str, list[TopicPartition]],
    loads: dict[str, float],
    readers: Mapping[str, Collection[str]],
    weights: Rates,
) -> bool:
    """Move one partition from the busiest member to the idlest, or return False if it is not worth it."""
    busiest, idlest = max(loads, key=lambda m: (loads[m], m)), min(loads, key=lambda m: (loads[m], m))
    gap, worth = loads[busiest] - loads[idlest], _WORTH * sum(loads.values()) / len(loads)
    may = [p for p in made[busiest] if worth <= gap - weights[p] and idlest in readers[p.topic]]
    if gap < 2 * worth or not may:
        return False
    moved = min(may, key=lambda p: (abs(weights[p] - gap / 2), p))
    made[busiest].remove(moved)
    made[idlest].append(moved)
    loads[busiest] -= weights[moved]
    loads[idlest] += weights[moved]
    return True


def write_rates(rates: Rates) -> bytes:
    """Encode the rates that a member sends to its group's leader."""
    writer = Writer(flexible=False)
    writer.int16(_VERSION)
    for (topic, partition), rate in rates.items():
        writer.string(topic)
        writer.int32(partition)
        writer.int64(round(rate))
    return bytes(writer.buffer)


def read_rates(data: bytes) -> Rates:
    """Decode a member's rates, or return none if the data is invalid."""
    reader, rates = Reader(memoryview(data)), dict[TopicPartition, float]()
    try:
        if reader.int16() != _VERSION:
            return {}
        while reader.left:
            partition = TopicPartition(reader.plain_string() or "", reader.int32())
            rates[partition] = float(reader.int64())
    except MalformedError:
        return {}
    return rates
