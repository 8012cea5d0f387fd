"""What a log's batches say of its transactions, computed anew from the first to the last."""

from __future__ import annotations

from typing import NamedTuple

from batches import NOON
from produced import stored_bytes

from ottla_broker.machines.transactions import AbortedTransaction, EndedTransaction, TransactionEnd
from ottla_broker.storage.log import AppendResult, Log
from ottla_broker.storage.transactions.markers import append_marker, find_repeated_marker
from ottla_core.records.batch import iter_headers
from ottla_core.records.control import EndTransactionMarker, marker_of


class TransactionsTold(NamedTuple):
    open: dict[int, int]
    ended: list[EndedTransaction]
    aborted: list[AbortedTransaction]

    def last_stable_offset(self, high_watermark: int) -> int:
        unstable = [ended.first_offset for ended in self.ended if ended.marker_offset >= high_watermark]
        return min(high_watermark, *self.open.values(), *unstable, high_watermark)

    def overlapping(self, start: int, end: int) -> list[AbortedTransaction]:
        return [each for each in self.aborted if each.last_offset >= start and each.first_offset < end]


def transactions_told_by(log: Log) -> TransactionsTold:
    told = TransactionsTold({}, [], [])
    data = stored_bytes(log)
    for at, header in iter_headers(data):
        marker = marker_of(data[at : at + header.size_bytes]) if header.producer_id >= 0 else None
        if marker is None:
            if header.is_transactional and header.record_count:
                told.open.setdefault(header.producer_id, header.base_offset)
        elif (first := told.open.pop(header.producer_id, None)) is not None:
            told.ended.append(EndedTransaction(first, header.base_offset))
            if not marker.committed:
                stable = min(told.open.values(), default=header.base_offset + 1)
                told.aborted.append(AbortedTransaction(header.producer_id, first, header.base_offset, stable))
    return told


def end_of(
    producer_id: int, epoch: int, *, committed: bool = True, coordinator_epoch: int = 1, v2: bool = True
) -> TransactionEnd:
    return TransactionEnd(producer_id, epoch, EndTransactionMarker(committed, coordinator_epoch), v2)


def end_transaction(log: Log, end: TransactionEnd, leader_epoch: int = 1) -> AppendResult:
    return find_repeated_marker(log, end) or append_marker(log, end, leader_epoch, NOON)
