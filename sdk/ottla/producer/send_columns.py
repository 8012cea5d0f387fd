"""Rows of bytes to be sent, as columns: for connectors, whose rows come as columns and by the million.

A row costs a third of a `send`: no serializer, no Delivery, and the lock only once for many rows. `flush` reports the
outcomes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Final, TypeAlias

from ottla.machines.queues import PartitionQueue
from ottla.producer.target import Target
from ottla_core.records.record import Header

QueuedRow: TypeAlias = tuple[PartitionQueue | None, bytes | None, bytes | None, Sequence[Header]]
"""A row with the queue of its partition, or None if any batch that is being filled will do."""

_ROWS_A_SLICE: Final = 500
"""They take a fraction of a millisecond, so other threads hardly wait for the producer's lock."""


@dataclass(frozen=True, slots=True)
class ByteColumns:
    """Rows for one topic, as columns of equal length, or None for a column that is null in every row.

    If a row's partition is null, it is chosen as `send` would.
    """

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Sequence[Header]] | None = None
    partitions: Sequence[int | None] | None = None

    def slices(self, target: Target) -> Iterator[list[QueuedRow]]:
        """Yield all rows in order, some hundreds at a time. Raises ConfigError for a partition that does not exist."""
        columns = self._queues(target), self.keys or repeat(None), self.values, self.headers or repeat(())
        rows = zip(*columns, strict=False)  # repeated values have no end
        while rows_of_slice := list(islice(rows, _ROWS_A_SLICE)):
            yield rows_of_slice

    def _queues(self, target: Target) -> Iterator[PartitionQueue | None]:
        if self.keys is None and self.partitions is None and target.keyless_anywhere:
            return repeat(None)
        return map(target.queue_for, self.partitions or repeat(None), self.keys or repeat(None), self.values)
