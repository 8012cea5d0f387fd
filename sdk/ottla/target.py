"""One topic as a producer's destination: a queue a partition, and how a record's partition is chosen."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ottla.errors import ConfigError, ErrorCode
from ottla.machines.batches import PartitionQueue
from ottla.machines.partitioner import KeyedPartitioner, StickyPartitioner

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""(topic, key, value, number of partitions) → a partition; key and value are serialized, None for null."""

_first_turns = itertools.count()
"""Producers of one process begin at different partitions."""


class Target:
    """`queues[n]` is partition n's. A topic that grows gets another Target with the same queues and more."""

    __slots__ = ("_keyed", "_partitioner", "keyless_anywhere", "queues", "sticky", "topic")

    def __init__(self, topic: str, queues: list[PartitionQueue], partitioner: Partitioner | None) -> None:
        self.topic = topic
        self.queues = queues
        self.sticky = StickyPartitioner(next(_first_turns))
        self._keyed = KeyedPartitioner(len(queues))
        self._partitioner = partitioner
        self.keyless_anywhere = partitioner is None  # spares `send` a call where it is sure to be answered by None

    def queue_for(self, partition: int | None, key: bytes | None, value: bytes | None) -> PartitionQueue | None:
        """The partition asked for, the user's choice, the key's; None where whichever batch is being filled will do.

        Raises ConfigError where there is no such partition.
        """
        if partition is not None:
            return self._numbered(partition)
        if self._partitioner is not None:
            return self._numbered(self._partitioner(self.topic, key, value, len(self.queues)))
        return None if key is None else self.queues[self._keyed.partition(key)]

    def _numbered(self, partition: int) -> PartitionQueue:
        if isinstance(partition, int) and 0 <= partition < len(self.queues):
            return self.queues[partition]
        raise ConfigError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{self.topic} has no partition {partition!r}",
            hint=f"its partitions are 0 to {len(self.queues) - 1}",
        )
