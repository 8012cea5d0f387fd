"""Chooses the brokers that hold a partition's replicas (feature 113; racks as in KIP-36).

Replicas are placed one partition after another. The leader is the broker that leads fewest of the topic's partitions,
so leaders differ by at most one. Each further replica goes to a rack that the partition does not use yet, there to the
broker with fewest of the topic's replicas, and among those to the one that follows this leader least often. The first
follower, which leads next, is the broker that has been first follower least often, so a leader's load spreads over all
others when it dies. Equal choices go round robin from `start`, which moves from topic to topic. Counting the replicas
of the whole cluster instead would send everything new to the newest broker.

Racks count only if every live broker has one (KIP-36's safe mode).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.plural import counted

Replicas = tuple[int, ...]
"""Broker ids, the preferred leader first."""


def assign_replicas(
    racks: Mapping[int, str], count: int, replication_factor: int, *, start: int, existing: Sequence[Replicas] = ()
) -> list[Replicas]:
    """Return the replicas of `count` further partitions of a topic that has the `existing` ones.

    `racks` has the live brokers ("" is no rack). Raises INVALID_REPLICATION_FACTOR if there are not enough of them.
    """
    if not 1 <= replication_factor <= len(racks):
        raise OttlaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"replication factor {replication_factor} is not possible: the number of live brokers is {len(racks)}",
            hint="use 1 or more, and start more brokers if necessary" if len(racks) else "start a broker",
        )
    spread = _Spread(racks, start, existing)
    return [spread.replicas_of(len(existing) + n, replication_factor) for n in range(count)]


def start_of(racks: Mapping[int, str], existing: Sequence[Replicas]) -> int:
    """Return the start from which the `existing` partitions were placed, so that later ones go on where they end."""
    brokers = sorted(racks)
    return brokers.index(existing[0][0]) if existing[0][0] in racks else 0


class _Spread:
    """The distribution of a topic's replicas so far."""

    def __init__(self, racks: Mapping[int, str], start: int, existing: Sequence[Replicas]) -> None:
        racks_known = all(racks.values())
        self._rack: dict[int, object] = {b: racks[b] if racks_known else b for b in sorted(racks)}
        self._start = start
        self._leaders: Counter[int] = Counter()
        self._replicas: Counter[int] = Counter()
        self._pairs: Counter[tuple[int, int]] = Counter()
        self._heirs: Counter[tuple[int, ...]] = Counter()
        """It counts by leader and first follower."""
        for replicas in existing:
            self._add(replicas)

    def replicas_of(self, number: int, replication_factor: int) -> Replicas:
        first = self._start + number
        slice_ = {b: (n - first) % len(self._rack) for n, b in enumerate(self._rack)}
        leader = min(self._rack, key=lambda b: (self._leaders[b], self._replicas[b], slice_[b]))
        chosen = [leader]
        while len(chosen) < replication_factor:
            used = Counter(self._rack[b] for b in chosen)
            left = [b for b in self._rack if b not in chosen]
            chosen.append(
                min(left, key=lambda b: (used[self._rack[b]], self._replicas[b], self._pairs[leader, b], slice_[b]))
            )
        chosen[1:] = sorted(chosen[1:], key=lambda b: self._heirs[leader, b])
        self._add(chosen)
        return tuple(chosen)

    def _add(self, replicas: Sequence[int]) -> None:
        self._leaders[replicas[0]] += 1
        self._replicas.update(replicas)
        self._pairs.update((replicas[0], follower) for follower in replicas[1:])
        self._heirs[tuple(replicas[:2])] += 1


def check_assignments(assignments: Sequence[tuple[int, Replicas]], registered: Mapping[int, bool]) -> list[Replicas]:
    """Return explicit replicas, one list for each partition from 0 on, in the order of the partitions.

    `registered` has every registered broker, and whether it is live. Raises INVALID_REPLICA_ASSIGNMENT.
    """
    by_partition = dict(assignments)
    if len(by_partition) < len(assignments) or sorted(by_partition) != list(range(len(assignments))):
        raise _invalid_assignment(
            "partitions must be numbered from 0 on, each once", "give one list of replicas per partition"
        )
    ordered = [by_partition[n] for n in range(len(assignments))]
    for partition, replicas in enumerate(ordered):
        _check_replicas(partition, replicas, registered)
        if len(replicas) != len(ordered[0]):
            raise _invalid_assignment(
                f"partition {partition} has {counted(len(replicas), 'replica')} and partition 0 has {len(ordered[0])}",
                "give all partitions the same number",
            )
    return ordered


def _check_replicas(partition: int, replicas: Replicas, registered: Mapping[int, bool]) -> None:
    if not replicas or len(set(replicas)) < len(replicas):
        raise _invalid_assignment(
            f"partition {partition} has replicas {list(replicas)}", "give at least one, each broker once"
        )
    unknown = [b for b in replicas if b not in registered]
    if unknown:
        raise _invalid_assignment(
            f"partition {partition} names broker {unknown[0]}, which is not registered",
            f"registered are {sorted(registered)}",
        )
    if not any(registered[b] for b in replicas):
        raise _invalid_assignment(
            f"no broker of partition {partition} is live", "name a live broker for each partition"
        )


def _invalid_assignment(description: str, hint: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, description, hint=hint)
