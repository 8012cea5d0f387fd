"""What a reader of committed records leaves out: brokers leave it in, and name the aborted transactions (rule 38)."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop

from ottla_core.records.batch import BatchHeader
from ottla_core.records.control import decode_marker
from ottla_core.records.reader import read_records


class AbortedTransactions:
    """Those of one fetched block, whose batches go by in their order (KIP-98): (producer id, first offset) of each."""

    __slots__ = ("_ahead", "_open")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        self._ahead = [(first_offset, producer_id) for producer_id, first_offset in aborted]
        heapify(self._ahead)
        self._open: set[int] = set()

    def leaves_out(self, header: BatchHeader, batch: memoryview) -> bool:
        """Whether this batch is of one of them, which goes up to its producer's abort marker. Every batch goes by."""
        while self._ahead and self._ahead[0][0] <= header.last_offset:
            self._open.add(heappop(self._ahead)[1])
        if header.producer_id not in self._open:
            return False
        if header.is_control and _is_abort(batch):
            self._open.discard(header.producer_id)
        return header.is_transactional


def _is_abort(batch: memoryview) -> bool:
    markers = (decode_marker(key, value) for _, _, key, value, _ in read_records(batch))
    return any(marker is not None and not marker.committed for marker in markers)
