"""How a transaction ends in one log: a control batch of its producer, written once (rule 36)."""

from __future__ import annotations

from ottla_broker.machines.transactions import TransactionEnd
from ottla_broker.storage.log import AppendResult, Log
from ottla_core.records.batch import read_header
from ottla_core.records.control import seal_marker


def find_repeated_marker(log: Log, end: TransactionEnd) -> AppendResult | None:
    """Return the result for a marker that is in the log already, or None if it is to be written.

    Raises TRANSACTION_COORDINATOR_FENCED, INVALID_PRODUCER_EPOCH.
    """
    offset = log.producers.check_marker(end)
    return None if offset is None else AppendResult(offset, offset, -1, 0, 0, rolled=False, duplicate=True)


def append_marker(log: Log, end: TransactionEnd, leader_epoch: int, now_ms: int) -> AppendResult:
    """Write a marker for which `find_repeated_marker` has just found no repeat. Raises KAFKA_STORAGE_ERROR."""
    batch = seal_marker(end.producer_id, end.producer_epoch, end.marker, now_ms)
    return log.append_checked(batch, [read_header(batch)], leader_epoch, now_ms)
