"""Transactions in the form of their contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import re2

from ottla_core.coordination.shard import TransactionProducer
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import TxnProducer
from ottla_txn_coordinator.machines.errors import shown
from ottla_txn_coordinator.machines.history import HistoryEvent
from ottla_txn_coordinator.machines.records import LONGEST_NAME_BYTES, TransactionRecord
from ottla_txn_coordinator.machines.states import OPEN, TransactionState

_STATES: Final = {state.value.lower(): state for state in TransactionState}

_PATTERN_BYTES: Final = 1 << 16
"""The memory for a compiled pattern. The time of one match grows with the pattern's size and the id's length."""

LONG_ID: Final = 255
"""An id with more characters than this may hold its thread for up to 2 s in a match, and a shorter one for 1 ms."""


def described(
    transactional_id: str,
    record: TransactionRecord,
    left: Iterable[TopicPartition] | None,
    events: Iterable[HistoryEvent],
) -> pb.TransactionDescription:
    """Describe a transaction. `left` are the partitions without a marker, if the transaction ends."""
    partitions = sorted(record.partitions) if left is None else left
    return pb.TransactionDescription(
        transactional_id=transactional_id,
        state=record.state.value,
        producer=producer_message(record.holder),
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
    """Tells which transactions are to be listed. Raises INVALID_REGULAR_EXPRESSION for a pattern that is not valid."""

    def __init__(self, request: pb.ListTransactionsRequest) -> None:
        self._pattern: Final = _compiled(request.pattern) if request.pattern else None
        self.unknown_states: Final = [name for name in request.states if name.lower() not in _STATES]
        self._states: Final = {_STATES.get(name.lower()) for name in request.states}
        self._producer_ids: Final = frozenset(request.producer_ids)
        self._longer_than_ms: Final = request.longer_than_ms
        self._prefix: Final = request.prefix

    def __call__(self, transactional_id: str, record: TransactionRecord, now_ms: int) -> bool:
        is_short = record.state not in OPEN or now_ms - record.started_at_ms <= self._longer_than_ms
        if self._longer_than_ms and is_short:
            return False
        return (
            (not self._states or record.state in self._states)
            and (not self._producer_ids or record.producer.id in self._producer_ids)
            and transactional_id.startswith(self._prefix)
            and (self._pattern is None or self._pattern.fullmatch(transactional_id.encode()) is not None)
        )


def _compiled(pattern: str) -> Any:
    """Compile a pattern with RE2, whose time is linear in the id. Other matchers can be made to hold the loop for
    hours."""
    if len(pattern) > LONGEST_NAME_BYTES:
        raise _no_expression(pattern, f"it is longer than any id, {LONGEST_NAME_BYTES} bytes")
    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = _PATTERN_BYTES, True, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        raise _no_expression(pattern, error.args[0].decode()) from error


def _no_expression(pattern: str, cause: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"{shown(pattern)} is not a usable pattern: {cause}",
        hint="use a short expression in RE2 syntax that matches the whole id",
    )
