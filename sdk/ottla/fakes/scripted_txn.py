"""The transactions of scripted brokers: Kafka's protocol in memory, for producers that end their own transactions.

Written from the protocol (KIP-98, 360, 890) and on purpose not from the coordinator's code. `time_out` lets a
transaction time out; by itself none does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from ottla.fakes.scripted_group import ScriptedGroups
from ottla.fakes.scripted_log import ScriptedLog
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_proto import group_pb2, txn_pb2
from ottla_proto.common_pb2 import TxnProducer

Producer = tuple[int, int]
_LAST_EPOCH = 2**15 - 2


@dataclass(slots=True)
class ScriptedTransaction:
    """A transactional id: its producer, the previous one, and the open transaction, if there is one."""

    producer: Producer
    former: Producer | None = None
    partitions: dict[TopicPartition, ScriptedLog] = field(default_factory=dict)
    offsets: list[group_pb2.CommitOffsetsRequest] = field(default_factory=list)
    is_prepared: bool = False
    ended: list[tuple[Producer, bool]] = field(default_factory=list)
    events: list[txn_pb2.TransactionEvent] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return bool(self.partitions or self.offsets)


class ScriptedTransactions:
    """All transactional ids. To be called with the cluster's lock held."""

    def __init__(self, groups: ScriptedGroups, ids: Iterator[int]) -> None:
        self._groups = groups
        self._ids = ids
        self._times = itertools.count(1_700_000_000_000, 1000)
        self.by_id: dict[str, ScriptedTransaction] = {}

    def respond(self, body: Message) -> Message | None:
        """Return the coordinator's response; None for a request that does not concern it."""
        handlers: dict[type, Callable[[Any], Message]] = {
            txn_pb2.InitProducerRequest: self._init,
            txn_pb2.PrepareRequest: self._prepare,
            txn_pb2.EndTxnRequest: self._end,
            txn_pb2.DescribeTransactionsRequest: self._describe,
        }
        if isinstance(body, group_pb2.CommitOffsetsRequest) and body.HasField("transaction"):
            return self._add_offsets(body)
        respond = handlers.get(type(body))
        return None if respond is None else respond(body)

    def add(self, transactional_id: str, producer: Producer, partition: TopicPartition, log: ScriptedLog) -> None:
        """A broker adds the partition of a transactional batch. Raises Kafka's errors."""
        self._current(transactional_id, producer, ErrorCode.INVALID_PRODUCER_EPOCH).partitions[partition] = log
        log.open.setdefault(producer[0], log.end)

    def time_out(self, transactional_id: str) -> None:
        """The coordinator aborts what is open, of its own accord."""
        transaction = self.by_id[transactional_id]
        former = transaction.producer
        self._finish(transaction, committed=False)
        transaction.former = former
        self._note(transaction, "timed-out", "transaction.timeout.ms is over")

    def _init(self, request: txn_pb2.InitProducerRequest) -> txn_pb2.InitProducerResponse:
        transaction = self.by_id.get(request.transactional_id)
        given = (request.producer.id, request.producer.epoch) if request.HasField("producer") else None
        if transaction is None:
            transaction = self.by_id[request.transactional_id] = ScriptedTransaction((next(self._ids), -1))
        elif given is not None and given not in (transaction.producer, transaction.former):
            raise OttlaError(ErrorCode.PRODUCER_FENCED, f"the current producer is {transaction.producer}")
        elif given is not None and given == transaction.former:
            return txn_pb2.InitProducerResponse(producer=_message(transaction.producer))
        if transaction.is_prepared:
            raise OttlaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the producer's transaction is prepared")
        self._finish(transaction, committed=False)
        transaction.former = given
        self._note(transaction, "initialized", "a client has initialized a newer producer")
        return txn_pb2.InitProducerResponse(producer=_message(transaction.producer))

    def _prepare(self, request: txn_pb2.PrepareRequest) -> txn_pb2.PrepareResponse:
        producer = (request.producer.id, request.producer.epoch)
        transaction = self._current(request.transactional_id, producer, ErrorCode.PRODUCER_FENCED)
        if not transaction.is_open:
            raise OttlaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open")
        transaction.is_prepared = True
        return txn_pb2.PrepareResponse()

    def _end(self, request: txn_pb2.EndTxnRequest) -> txn_pb2.EndTxnResponse:
        transaction = self.by_id.get(request.transactional_id)
        producer = (request.producer.id, request.producer.epoch)
        if transaction is not None and transaction.ended and transaction.ended[-1] == (producer, request.committed):
            return txn_pb2.EndTxnResponse(producer=_message(transaction.producer))  # a repeat
        transaction = self._current(request.transactional_id, producer, ErrorCode.PRODUCER_FENCED)
        if request.committed and not transaction.is_open:
            raise OttlaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open")
        self._finish(transaction, committed=request.committed)
        transaction.ended.append((producer, request.committed))
        self._note(transaction, "committed" if request.committed else "aborted", "")
        return txn_pb2.EndTxnResponse(producer=_message(transaction.producer))

    def _add_offsets(self, request: group_pb2.CommitOffsetsRequest) -> group_pb2.CommitOffsetsResponse:
        self._groups.check(request)
        producer = (request.transaction.producer.id, request.transaction.producer.epoch)
        transaction = self._current(request.transaction.transactional_id, producer, ErrorCode.INVALID_PRODUCER_EPOCH)
        transaction.offsets.append(request)
        return self._groups.judge(request)

    def _describe(self, request: txn_pb2.DescribeTransactionsRequest) -> txn_pb2.DescribeTransactionsResponse:
        response = txn_pb2.DescribeTransactionsResponse()
        for transactional_id in request.transactional_ids:
            events = self.by_id[transactional_id].events if transactional_id in self.by_id else ()
            response.transactions.add(transactional_id=transactional_id, events=events)
        return response

    def _current(self, transactional_id: str, producer: Producer, code: int) -> ScriptedTransaction:
        transaction = self.by_id.get(transactional_id)
        if transaction is None or transaction.producer[0] != producer[0]:
            raise OttlaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the transactional id has another producer")
        if transaction.producer != producer:
            raise OttlaError(code, f"the current epoch is {transaction.producer[1]}")
        return transaction

    def _finish(self, transaction: ScriptedTransaction, *, committed: bool) -> None:
        """Markers carry the raised epoch, and the next transaction begins in it."""
        producer_id, epoch = transaction.producer
        for log in transaction.partitions.values():
            log.end_transaction(producer_id, epoch + 1, committed=committed)
        for request in transaction.offsets if committed else ():
            self._groups.enter(request)
        transaction.partitions, transaction.offsets, transaction.is_prepared = {}, [], False
        transaction.producer = (producer_id, epoch + 1) if epoch < _LAST_EPOCH else (next(self._ids), 0)

    def _note(self, transaction: ScriptedTransaction, kind: str, cause: str) -> None:
        transaction.events.append(
            txn_pb2.TransactionEvent(
                at_ms=next(self._times),
                kind=kind,
                producer=_message(transaction.producer),
                client_id="some-client",
                client_host="127.0.0.1",
                cause=cause,
            )
        )


def _message(producer: Producer) -> TxnProducer:
    return TxnProducer(id=producer[0], epoch=producer[1])
