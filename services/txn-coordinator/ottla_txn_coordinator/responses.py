"""Transactions as their contract shows them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ottla_core.coordination.shard import TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnProducer
from ottla_txn_coordinator.machines.history import HistoryEvent
from ottla_txn_coordinator.machines.records import NEVER_MS, TransactionRecord
from ottla_txn_coordinator.machines.states import TransactionState

_STATES: Final = {state.value.lower(): state for state in TransactionState}


def described(
    transactional_id: str,
    record: TransactionRecord,
    left: Iterable[TopicPartition] | None,
    events: Iterable[HistoryEvent],
) -> pb.TransactionDescription:
    """`left` are the partitions without a marker, of a transaction that ends."""
    partitions = sorted(record.partitions) if left is None else left
    return pb.TransactionDescription(
        transactional_id=transactional_id,
        state=record.state.value,
        producer=producer_message(record.producer),
        timeout_ms=record.timeout_ms,
        started_at_ms=record.started_at_ms,
        updated_at_ms=record.updated_at_ms,
        partitions=[pb.TxnPartition(topic=p.topic, partition=p.partition) for p in partitions],
        prepared=record.prepared,
        transaction_version=record.version,
        events=[
            pb.TransactionEvent(
                at_ms=event.at_ms,
                kind=event.kind.value,
                producer=producer_message(event.producer),
                client_id=event.caller.client_id,
                client_host=event.caller.client_host,
                cause=event.cause,
            )
            for event in events
        ],
    )


def producer_message(producer: TransactionProducer) -> TxnProducer:
    return TxnProducer(id=producer.id, epoch=producer.epoch)


class Filter:
    """Which transactions are to be listed. Raises UNSUPPORTED_VERSION for a pattern: RE2 is not there, and any other
    matcher of expressions can be made to hold the loop for hours."""

    def __init__(self, request: pb.ListTransactionsRequest) -> None:
        if request.pattern:
            raise OttlaError(
                ErrorCode.UNSUPPORTED_VERSION, "transactions are not listed by a pattern", hint="list them by a prefix"
            )
        self.unknown_states: Final = [name for name in request.states if name.lower() not in _STATES]
        self._states: Final = {_STATES.get(name.lower()) for name in request.states}
        self._producer_ids: Final = frozenset(request.producer_ids)
        self._longer_than_ms: Final = request.longer_than_ms
        self._prefix: Final = request.prefix

    def __call__(self, transactional_id: str, record: TransactionRecord, now_ms: int) -> bool:
        if self._longer_than_ms:
            is_open = record.started_at_ms != NEVER_MS
            if not is_open or now_ms - record.started_at_ms <= self._longer_than_ms:
                return False
        return (
            (not self._states or record.state in self._states)
            and (not self._producer_ids or record.producer.id in self._producer_ids)
            and transactional_id.startswith(self._prefix)
        )
