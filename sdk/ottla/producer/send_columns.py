"""Rows of bytes on their way out, a column each: for connectors, whose rows come so and by the million.

A row costs a third of what `send` takes: no serializer, no Delivery, and the lock once for many rows. What became of
them, `flush` reports.
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
"""A row with the queue of its partition; None where whichever batch is being filled will do."""

_ROWS_A_SLICE: Final = 500
"""A fraction of a millisecond: what waits for the producer's lock meanwhile is not felt."""


@dataclass(frozen=True, slots=True)
class ByteColumns:
    """Rows for one topic; columns of one length, or None for one that is null in every row.

    A partition that is null is chosen as `send` would.
    """

    values: Sequence[bytes | None]
    keys: Sequence[bytes | None] | None = None
    headers: Sequence[Sequence[Header]] | None = None
    partitions: Sequence[int | None] | None = None

    def slices(self, target: Target) -> Iterator[list[QueuedRow]]:
        """All rows in their order, some hundreds at a time. Raises ConfigError for a partition that is not there."""
        columns = self._queues(target), self.keys or repeat(None), self.values, self.headers or repeat(())
        rows = zip(*columns, strict=False)  # what repeats has no end
        while rows_of_slice := list(islice(rows, _ROWS_A_SLICE)):
            yield rows_of_slice

    def _queues(self, target: Target) -> Iterator[PartitionQueue | None]:
        if self.keys is None and self.partitions is None and target.keyless_anywhere:
            return repeat(None)
        return map(target.queue_for, self.partitions or repeat(None), self.keys or repeat(None), self.values)
