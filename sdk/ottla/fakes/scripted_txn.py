"""The transactions of scripted brokers: Kafka's protocol in memory, for producers that end their own transactions.

Written from the protocol (KIP-98, 360, 890) and on purpose not from the coordinator's code. `time_out` lets a
transaction time out; by itself none does. In `version` 1, producers add partitions themselves, and an end does not
raise the epoch.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from ottla.fakes.scripted_group import ScriptedGroups
from ottla.fakes.scripted_log import ScriptedLog
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from ottla_core.model import TopicPartition
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2

Producer = tuple[int, int]
_LAST_EPOCH = 2**15 - 2
_NO_PRODUCER: Final = (-1, -1)
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
    commits: list[TxnOffsetCommitRequest] = field(default_factory=list)
    is_prepared: bool = False
    ended: list[tuple[Producer, bool]] = field(default_factory=list)
    events: list[DescribeTransactionsResponse.TransactionEvent] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return bool(self.partitions or self.commits or self.added or self.groups)


class ScriptedTransactions:
    """All transactional ids. To be called with the cluster's lock held."""

    version = TRANSACTIONS_V2
    served: Final = (
        InitProducerIdRequest,
        AddPartitionsToTxnRequest,
        AddOffsetsToTxnRequest,
        TxnOffsetCommitRequest,
        EndTxnRequest,
        DescribeTransactionsRequest,
    )

    def __init__(self, groups: ScriptedGroups, ids: Iterator[int]) -> None:
        self._groups = groups
        self._ids = ids
        self._times = itertools.count(1_700_000_000_000, 1000)
        self.by_id: dict[str, ScriptedTransaction] = {}
        groups.is_undecided = self._has_offsets

    def respond(self, request: Message, version: int) -> Message:
        """Return the coordinator's response to one of the requests that are `served`. Raises Kafka's errors.

        `version` is the version of transactions to which the version of the request belongs.
        """
        match request:
            case InitProducerIdRequest():
                return self._init(request)
            case AddPartitionsToTxnRequest():
                return self._add_partitions(request)
            case AddOffsetsToTxnRequest():
                return self._add_group(request)
            case TxnOffsetCommitRequest():
                return self._add_offsets(request, version)
            case EndTxnRequest():
                return self._end(request, version)
            case DescribeTransactionsRequest():
                states = [self._described(name) for name in request.transactional_ids]
                return DescribeTransactionsResponse(transaction_states=states)
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"scripted brokers don't support {type(request).__name__}")

    def add(
        self, transactional_id: str, producer: Producer, version: int, partition: TopicPartition, log: ScriptedLog
    ) -> None:
        """A broker adds the partition of a transactional batch, or verifies it. Raises Kafka's errors."""
        transaction = self._current(transactional_id, producer, ErrorCode.INVALID_PRODUCER_EPOCH)
        self._check_version(version)
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

    def prepare(self, transactional_id: str, producer: Producer) -> None:
        """Prepare the open transaction of a producer (KIP-939). Raises Kafka's errors."""
        transaction = self._current(transactional_id, producer, ErrorCode.PRODUCER_FENCED)
        if not transaction.is_open:
            raise OttlaError(ErrorCode.INVALID_TXN_STATE, "no transaction is open")
        transaction.is_prepared = True

    def _init(self, request: InitProducerIdRequest) -> InitProducerIdResponse:
        name = request.transactional_id or ""
        transaction = self.by_id.get(name)
        stated = request.producer_id, request.producer_epoch
        given = None if stated == _NO_PRODUCER else stated
        if transaction is None:
            transaction = self.by_id[name] = ScriptedTransaction((next(self._ids), -1))
        elif given is not None and given not in (transaction.producer, transaction.former):
            raise OttlaError(ErrorCode.PRODUCER_FENCED, f"the current producer is {transaction.producer}")
        elif given is not None and given == transaction.former:
            return _initialized(transaction)
        if transaction.is_prepared:
            raise OttlaError(ErrorCode.CONCURRENT_TRANSACTIONS, "the producer's transaction is prepared")
        self._finish(transaction, committed=False)
        transaction.former = given
        self._note(transaction, "initialized", "a client has initialized a newer producer")
        return _initialized(transaction)

    def _add_partitions(self, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse:
        producer = request.v3_and_below_producer_id, request.v3_and_below_producer_epoch
        self._check_version(TRANSACTIONS_V1)
        name = request.v3_and_below_transactional_id
        transaction = self._current(name, producer, ErrorCode.PRODUCER_FENCED)
        topics = request.v3_and_below_topics
        transaction.added |= {TopicPartition(topic.name, number) for topic in topics for number in topic.partitions}
        result = AddPartitionsToTxnResponse.AddPartitionsToTxnPartitionResult
        return AddPartitionsToTxnResponse(
            results_by_topic_v3_and_below=[
                AddPartitionsToTxnResponse.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[result(partition_index=number) for number in topic.partitions],
                )
                for topic in topics
            ]
        )

    def _add_group(self, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse:
        producer = request.producer_id, request.producer_epoch
        self._check_version(TRANSACTIONS_V1)
        self._current(request.transactional_id, producer, ErrorCode.PRODUCER_FENCED).groups.add(request.group_id)
        return AddOffsetsToTxnResponse()

    def _check_version(self, version: int) -> None:
        if version != self.version:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"transactions have version {self.version} here")

    def _end(self, request: EndTxnRequest, version: int) -> EndTxnResponse:
        transaction = self.by_id.get(request.transactional_id)
        producer = (request.producer_id, request.producer_epoch)
        self._check_version(version)
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

    def _end_response(self, transaction: ScriptedTransaction) -> EndTxnResponse:
        if self.version < TRANSACTIONS_V2:
            return EndTxnResponse()
        producer_id, epoch = transaction.producer
        return EndTxnResponse(producer_id=producer_id, producer_epoch=epoch)

    def _add_offsets(self, request: TxnOffsetCommitRequest, version: int) -> TxnOffsetCommitResponse:
        self._groups.check(request, is_settled=False)
        producer = (request.producer_id, request.producer_epoch)
        transaction = self._current(request.transactional_id, producer, ErrorCode.INVALID_PRODUCER_EPOCH)
        self._check_version(version)
        if self.version < TRANSACTIONS_V2 and request.group_id not in transaction.groups:
            raise OttlaError(ErrorCode.INVALID_TXN_STATE, f"{request.group_id} is not in the transaction")
        transaction.commits.append(request)
        return TxnOffsetCommitResponse(topics=self._groups.judge(request, TxnOffsetCommitResponse))

    def _has_offsets(self, group: str, partition: TopicPartition) -> bool:
        return any(
            commit.group_id == group and any(each == partition for each, _ in self._groups.offsets_of(commit))
            for transaction in self.by_id.values()
            for commit in transaction.commits
        )

    def _described(self, name: str) -> DescribeTransactionsResponse.TransactionState:
        described = DescribeTransactionsResponse.TransactionState(transactional_id=name)
        if (transaction := self.by_id.get(name)) is not None:
            described.events = list(transaction.events)
        return described

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
        for commit in transaction.commits if committed else ():
            self._groups.enter(commit, TxnOffsetCommitResponse)
        transaction.partitions, transaction.commits, transaction.is_prepared = {}, [], False
        transaction.added, transaction.groups = set(), set()
        if raises:
            transaction.producer = (producer_id, epoch + 1) if epoch < _LAST_EPOCH else (next(self._ids), 0)

    def _note(self, transaction: ScriptedTransaction, kind: str, cause: str) -> None:
        producer_id, epoch = transaction.producer
        transaction.events.append(
            DescribeTransactionsResponse.TransactionEvent(
                at_ms=next(self._times),
                kind=kind,
                producer_id=producer_id,
                producer_epoch=epoch,
                client_id="some-client",
                client_host="127.0.0.1",
                cause=cause,
            )
        )
        del transaction.events[:-_EVENTS]


def _initialized(transaction: ScriptedTransaction) -> InitProducerIdResponse:
    producer_id, epoch = transaction.producer
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)
