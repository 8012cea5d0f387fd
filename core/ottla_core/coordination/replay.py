"""A load brings the log into a shard: of the records that are read, it applies the newest one of each key.

The log is compacted, so an older record of a key has no meaning. A group that commits every second writes its few keys
a hundred thousand times a day, and applying a record costs ten times as much as reading it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla_core.coordination.batches import StoredBatch, read_batches
from ottla_core.coordination.shard import Entry, ShardState
from ottla_core.records.fence import ShardFence

_AT_ONCE: Final = 1_000
"""How many records are applied without a pause for other tasks of the loop."""
_BATCHES_AT_ONCE: Final = 250
"""How many batches are read without a pause. One read of the log returns ten times as many small ones, such as
transactions write."""


class Replay:
    """Replays the log up to `end_offset`, where the owner's fence has to end. It holds the shard's keys and values."""

    __slots__ = ("_fence", "_newest", "_taken", "end_offset", "ends_with_fence", "next_offset")

    def __init__(self, fence: ShardFence, end_offset: int) -> None:
        self.end_offset: Final = end_offset
        self.next_offset = 0
        self.ends_with_fence = False
        self._fence: Final = fence
        self._newest: dict[bytes, bytes | None] = {}
        self._taken: Iterator[StoredBatch] = iter(())

    def take(self, data: bytes) -> None:
        """Take whole batches of the log, some of which may have been read before. `go_on` reads them."""
        self._taken = read_batches(data)

    def go_on(self, shard: ShardState) -> bool:
        """Read some of the batches that were taken or, once all are read, apply some records. Return whether more can
        be done. Raises CORRUPT_MESSAGE after the batches before the damage are read."""
        for number, batch in enumerate(self._taken, 1):
            if batch.next_offset > self.next_offset:
                self.add(batch, shard)
                self.next_offset = batch.next_offset
                self.ends_with_fence = batch.fence == self._fence and self.next_offset == self.end_offset
            if self.next_offset >= self.end_offset:
                self._taken = iter(())
                break
            if number == _BATCHES_AT_ONCE:
                return True
        return self.next_offset >= self.end_offset and self._apply_next(shard)

    def add(self, batch: StoredBatch, shard: ShardState) -> None:
        """Add the next batch of the log. Records of a transaction are applied at once, after the earlier records of
        their keys. From there on the order of the two does not matter."""
        self._newest.update(batch.pairs)
        for record in batch.of_transactions:
            if isinstance(record, Entry) and record.key in self._newest:
                shard.apply(Entry(record.key, self._newest.pop(record.key)))
            shard.apply(record)

    def _apply_next(self, shard: ShardState) -> bool:
        """Apply up to a thousand entries and drop them, because the shard has them then. Return whether more are
        left."""
        for _ in range(min(_AT_ONCE, len(self._newest))):
            shard.apply(Entry(*self._newest.popitem()))
        return bool(self._newest)
