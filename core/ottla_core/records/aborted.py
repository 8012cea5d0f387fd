"""Records that a reader of committed records skips: brokers send them, and name the aborted transactions (rule 38)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from ottla_core.records.batch import BatchHeader, framed, iter_headers


class AbortedTransactions:
    """The aborted transactions of a fetched block: (producer id, first offset). Batches come in order (KIP-98)."""

    __slots__ = ("_ahead", "_open")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapify(self._ahead)
        self._open: set[int] = set()

    def leaves_out(self, header: BatchHeader) -> bool:
        """Return whether this batch is of an aborted transaction, which lasts until its producer's next marker. It must
        be called for every batch."""
        while self._ahead and self._ahead[0][0] <= header.last_offset:
            self._open.add(heappop(self._ahead)[1])
        if header.producer_id not in self._open:
            return False
        if header.is_control:
            self._open.discard(header.producer_id)
        return header.is_transactional


def without_aborted(records: bytes, aborted: AbortedTransactions) -> bytes:
    """Return the batches without the records of aborted transactions: only headers stay, as after compaction."""
    return b"".join(
        framed(header._replace(record_count=0), b"")
        if aborted.leaves_out(header) and not header.is_control
        else records[at : at + header.size_bytes]
        for at, header in iter_headers(records)
    )
