"""One topic as a producer's destination: a queue for each partition, and the choice of a record's partition.

A partition that `send` names is used as it is. Otherwise the partitioner decides: "default" (by the key, or the
partition whose batch is being filled), "round_robin" or "random" (any partition that has a leader, whatever the key),
or a callable.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any, Final, Literal

from ottla.errors import ConfigError, ErrorCode, config_error
from ottla.machines.partitioner import KeyedPartitioner, SpreadingPartitioner, StickyPartitioner, in_turn
from ottla.machines.queues import PartitionQueue

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""(topic, key, value, number of partitions) → a partition; key and value are serialized, None for null."""

PartitionerLike = Literal["default", "round_robin", "random"] | Partitioner

PARTITIONERS: Final = ("default", "round_robin", "random")

_first_turns = itertools.count()
"""Producers of one process begin at different partitions."""


def check_partitioner(like: Any) -> PartitionerLike:
    """Return `like`; raise ConfigError unless it is a PartitionerLike."""
    if like not in PARTITIONERS and not callable(like):
        raise config_error(
            f"partitioner={like!r} is not valid",
            hint=f"use one of {', '.join(map(repr, PARTITIONERS))}, or a callable (topic, key, value, count) -> number",
        )
    checked: PartitionerLike = like
    return checked


class Target:
    """A topic to send to. `queues[n]` is partition n's. If the topic grows, another Target gets these queues and
    more."""

    __slots__ = ("_custom", "_keyed", "_spreading", "keyed", "keyless_anywhere", "queues", "sticky", "topic", "used_at")

    def __init__(self, topic: str, queues: list[PartitionQueue], partitioner: PartitionerLike, now: float) -> None:
        """`now` is monotonic seconds; `used_at` is the time at which the last batch was begun."""
        self.topic = topic
        self.used_at = now
        self.queues = queues
        first = next(_first_turns)
        self.sticky = StickyPartitioner(first)
        self._keyed = KeyedPartitioner(len(queues))
        self._spreading: SpreadingPartitioner | None = None
        if partitioner in ("round_robin", "random"):
            self._spreading = SpreadingPartitioner(in_turn(first) if partitioner == "round_robin" else _by_chance)
        self._custom = None if isinstance(partitioner, str) else partitioner
        self.keyed = partitioner == "default" and len(queues) > 1  # keys decide where records go
        self.keyless_anywhere = partitioner == "default"  # spares `send` a call that would return None

    def is_idle(self, since: float) -> bool:
        """Return whether no batch was begun since then, none is in flight, and no open transaction has sent any."""
        return self.used_at < since and all(queue.idle for queue in self.queues)

    def on_metadata(self, available: tuple[int, ...]) -> None:
        """Set the partitions that have a leader now."""
        self.sticky.on_metadata(available, len(self.queues))
        if self._spreading is not None:
            self._spreading.on_metadata(available, len(self.queues))

    def queue_for(self, partition: int | None, key: bytes | None, value: bytes | None) -> PartitionQueue | None:
        """Return the queue of the named partition, or of the partitioner's choice, by default the key's partition.

        None means that any batch that is being filled will do. Raises ConfigError if there is no such partition.
        """
        if partition is not None:
            return self.numbered(partition)
        if self._spreading is not None:
            return self.queues[self._spreading.partition()]
        if self._custom is not None:
            return self.numbered(self._custom(self.topic, key, value, len(self.queues)))
        return None if key is None else self.queues[self._keyed.partition(key)]

    def numbered(self, partition: int) -> PartitionQueue:
        """Return the queue of a partition by its number. Raises ConfigError if there is no such partition."""
        if isinstance(partition, int) and 0 <= partition < len(self.queues):
            return self.queues[partition]
        raise ConfigError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{self.topic} has no partition {partition!r}",
            hint=f"its partitions are 0 to {len(self.queues) - 1}",
        )


def _by_chance(count: int) -> int:
    return int(random.random() * count)  # noqa: S311 - it need not be unpredictable
