"""Transactions as a clean has to know them: those that were aborted, and the markers that no longer end anything."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Final

from ottla_broker.machines.transactions import AbortedTransaction
from ottla_core.records.batch import BatchHeader


class CleanedTransactions:
    """`aborted` are all that overlap the cleaned part. `newest_batches` are the last offsets of batches that stay in
    any case."""

    def __init__(self, aborted: Iterable[AbortedTransaction], newest_batches: Collection[int]) -> None:
        self._aborted: Final[dict[int, list[tuple[int, int]]]] = defaultdict(list)
        for each in aborted:
            self._aborted[each.producer_id].append((each.first_offset, each.last_offset))
        self.newest_batches: Final = newest_batches
        self._seen: Final[set[int]] = set()

    def are_void(self, header: BatchHeader) -> bool:
        """Return whether the batch's records are those of an aborted transaction."""
        ranges = self._aborted.get(header.producer_id)
        if not ranges or not header.is_transactional or header.is_control:
            return False
        number = bisect_right(ranges, header.base_offset, key=lambda each: each[0]) - 1
        return number >= 0 and header.base_offset < ranges[number][1]

    def on_data(self, header: BatchHeader) -> None:
        """Note a batch that is still in the log, if only until this clean is done. The second pass calls it in the
        order of the batches."""
        if header.is_transactional:
            self._seen.add(header.producer_id)

    def is_spent(self, header: BatchHeader) -> bool:
        """Return whether nothing was left of the marker's transaction, and the marker is not the newest batch of its
        producer."""
        is_spent = header.producer_id not in self._seen and header.last_offset not in self.newest_batches
        self._seen.discard(header.producer_id)
        return is_spent
