"""The transactions of scripted brokers: Kafka's protocol in memory, for producers that end their own transactions.

Written from the protocol (KIP-98, 360, 890) and on purpose not from the coordinator's code. `time_out` lets a
transaction time out; by itself none does. In `version` 1, producers add partitions themselves, and an end does not
raise the epoch.
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
from ottla_core.transactions import TRANSACTIONS_V2
from ottla_proto import client_pb2 as pb
from ottla_proto import group_pb2, txn_pb2
from ottla_proto.common_pb2 import Error, TxnProducer

Producer = tuple[int, int]
_LAST_EPOCH = 2**15 - 2
_EVENTS = 8
"""How many events of a transactional id are kept."""


@dataclass(slots=True)
class ScriptedTransaction:
    """A transactional id: its producer, the previous one, and the open transaction, if there is one."""

    producer: Producer
    former: Producer | None = None
    partitions: dict[TopicPartition, ScriptedLog] = field(default_factory=dict)
    added: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    offsets: list[group_pb2.CommitOffsetsRequest] = field(default_factory=list)
    is_prepared: bool = False
    ended: list[tuple[Producer, bool]] = field(default_factory=list)
    events: list[txn_pb2.TransactionEvent] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return bool(self.partitions or self.offsets or self.added or self.groups)


class ScriptedTransactions:
    """All transactional ids. To be called with the cluster's lock held."""

    version = TRANSACTIONS_V2

    def __init__(self, groups: ScriptedGroups, ids: Iterator[int]) -> None:
        self._groups = groups
        self._ids = ids
        self._times = itertools.count(1_700_000_000_000, 1000)
        self.by_id: dict[str, ScriptedTransaction] = {}
        groups.is_undecided = self._has_offsets

    def respond(self, body: Message) -> Message | None:
        """Return the coordinator's response; None for a request that does not concern it."""
        handlers: dict[type, Callable[[Any], Message]] = {
            txn_pb2.InitProducerRequest: self._init,
            txn_pb2.AddPartitionsRequest: self._add_partitions,
            txn_pb2.AddOffsetsRequest: self._add_group,
            txn_pb2.PrepareRequest: self._prepare,
            txn_pb2.EndTxnRequest: self._end,
            txn_pb2.DescribeTransactionsRequest: self._describe,
        }
        if isinstance(body, group_pb2.CommitOffsetsRequest) and body.HasField("transaction"):
            return self._add_offsets(body)
        respond = handlers.get(type(body))
        return None if respond is None else respond(body)

    def add(self, request: pb.ProduceRequest, producer: Producer, partition: TopicPartition, log: ScriptedLog) -> None:
        """A broker adds the partition of a transactional batch, or verifies it. Raises Kafka's errors."""
        transaction = self._current(request.transactional_id, producer, ErrorCode.INVALID_PRODUCER_EPOCH)
        self._check_version(request.transaction_version)
        if self.version < TRANSACTIONS_V2 and partition not in transaction.added:
            raise OttlaError(ErrorCode.INVALID_TXN_STATE, f"{partition} is not in the transaction")
        transaction.partitions[partition] = log
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
            return self._initialized(transaction)
        if transaction.is_prepared:
            raise OttlaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the producer's transaction is prepared")
        self._finish(transaction, committed=False)
        transaction.former = given
        self._note(transaction, "initialized", "a client has initialized a newer producer")
        return self._initialized(transaction)

    def _initialized(self, transaction: ScriptedTransaction) -> txn_pb2.InitProducerResponse:
        version = self.version if self.version < TRANSACTIONS_V2 else 0
        return txn_pb2.InitProducerResponse(producer=_message(transaction.producer), transaction_version=version)

    def _add_partitions(self, request: txn_pb2.AddPartitionsRequest) -> txn_pb2.AddPartitionsResponse:
        (addition,) = request.transactions
        producer = addition.producer.id, addition.producer.epoch
        self._check_version(addition.transaction_version)
        transaction = self._current(addition.transactional_id, producer, ErrorCode.PRODUCER_FENCED)
        transaction.added |= {TopicPartition(p.topic, p.partition) for p in addition.partitions}
        results = [Error() for _ in addition.partitions]
        return txn_pb2.AddPartitionsResponse(transactions=[txn_pb2.PartitionsAdded(partitions=results)])

    def _add_group(self, request: txn_pb2.AddOffsetsRequest) -> txn_pb2.AddOffsetsResponse:
        producer = request.producer.id, request.producer.epoch
        self._check_version(request.transaction_version)
        self._current(request.transactional_id, producer, ErrorCode.PRODUCER_FENCED).groups.add(request.group)
        return txn_pb2.AddOffsetsResponse()

    def _check_version(self, version: int) -> None:
        if (version or TRANSACTIONS_V2) != self.version:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"transactions have version {self.version} here")

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
        self._check_version(request.transaction_version)
        if transaction is not None and transaction.ended and transaction.ended[-1] == (producer, request.committed):
            return self._end_response(transaction)  # a repeat
        transaction = self._current(request.transactional_id, producer, ErrorCode.PRODUCER_FENCED)
        if not transaction.is_open and (request.committed or self.version < TRANSACTIONS_V2):
            raise OttlaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open")
        self._finish(transaction, committed=request.committed, raises=self.version >= TRANSACTIONS_V2)
        if self.version >= TRANSACTIONS_V2:
            transaction.former = producer
        transaction.ended.append((producer, request.committed))
        self._note(transaction, "committed" if request.committed else "aborted", "")
        return self._end_response(transaction)

    def _end_response(self, transaction: ScriptedTransaction) -> txn_pb2.EndTxnResponse:
        if self.version < TRANSACTIONS_V2:
            return txn_pb2.EndTxnResponse()
        return txn_pb2.EndTxnResponse(producer=_message(transaction.producer))

    def _add_offsets(self, request: group_pb2.CommitOffsetsRequest) -> group_pb2.CommitOffsetsResponse:
        self._groups.check(request)
        producer = (request.transaction.producer.id, request.transaction.producer.epoch)
        transaction = self._current(request.transaction.transactional_id, producer, ErrorCode.INVALID_PRODUCER_EPOCH)
        self._check_version(request.transaction.transaction_version)
        if self.version < TRANSACTIONS_V2 and request.group not in transaction.groups:
            raise OttlaError(ErrorCode.INVALID_TXN_STATE, f"{request.group} is not in the transaction")
        transaction.offsets.append(request)
        return self._groups.judge(request)

    def _has_offsets(self, group: str, partition: TopicPartition) -> bool:
        return any(
            request.group == group and (offset.topic, offset.partition) == partition
            for transaction in self.by_id.values()
            for request in transaction.offsets
            for offset in request.offsets
        )

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

    def _finish(self, transaction: ScriptedTransaction, *, committed: bool, raises: bool = True) -> None:
        """Markers carry the raised epoch, and the next transaction begins in it."""
        producer_id, epoch = transaction.producer
        for log in transaction.partitions.values():
            log.end_transaction(producer_id, epoch + raises, committed=committed)
        for request in transaction.offsets if committed else ():
            self._groups.enter(request)
        transaction.partitions, transaction.offsets, transaction.is_prepared = {}, [], False
        transaction.added, transaction.groups = set(), set()
        if raises:
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
        del transaction.events[:-_EVENTS]


def _message(producer: Producer) -> TxnProducer:
    return TxnProducer(id=producer[0], epoch=producer[1])
