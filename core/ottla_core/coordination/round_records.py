"""A round writes batches in the order of its decisions, and in each batch only the last record of a key.

Several decisions of one round may write the same key, as the additions to a transaction do, each with everything that
the key holds by then. A compacted log keeps only the last of them, and so does the round before it is written. It
replaces a record only within its batch: a leader that fails may keep only the first batches of a round, and a record
that was left out of those because of a later batch would be missing from the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ottla_core.coordination.batches import record_limit
from ottla_core.coordination.shard import Entry, Marker, Record, TransactionProducer


class RoundRecords:
    """Consecutive entries of one producer, or of none, go into one batch. Each marker is a batch of its own."""

    __slots__ = ("_batch", "_before", "_producer")

    def __init__(self) -> None:
        self._before: Final[list[Record]] = []
        self._batch: dict[bytes, Entry] = {}  # the last batch, by key
        self._producer: TransactionProducer | None = None  # the producer of the last batch's entries

    def __len__(self) -> int:
        return len(self._before) + len(self._batch)

    def __iter__(self) -> Iterator[Record]:
        yield from self._before
        yield from self._batch.values()

    def replaced_bytes(self, records: Sequence[Record]) -> int:
        """Return how much room is free again once `records`, which make one batch, have replaced what they can."""
        if not self._batch:
            return 0
        keys = {record.key for record in records if isinstance(record, Entry) and record.producer == self._producer}
        return sum(record_limit(self._batch[key]) for key in keys & self._batch.keys())

    def add(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, Marker):
                self._close_batch(None)
                self._before.append(record)
                continue
            if record.producer != self._producer:
                self._close_batch(record.producer)
            self._batch.pop(record.key, None)
            self._batch[record.key] = record

    def _close_batch(self, producer: TransactionProducer | None) -> None:
        self._before.extend(self._batch.values())
        self._batch, self._producer = {}, producer
