"""Txn.ListTransactions is Kafka's ListTransactions, and Txn.DescribeTransactions its DescribeTransactions (KIP-664).

Brokers of ottla add coordinators and shards, the shards that a listing covers, whether a transaction is prepared, and
what has happened to an id, in private fields.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import Error, ShardNumbers, TxnProducer

_DURATION_FROM: Final = 1
_PATTERN_FROM: Final = 2
_ANY_DURATION: Final = -1


class ListTransactionsTranslation:
    """Translates a request for the transactional ids of one broker. Kafka can't filter by prefix, so the translation
    does."""

    api: Final[AnyApi] = LIST_TRANSACTIONS

    def __init__(self) -> None:
        self._prefix = ""

    def request(self, request: pb.ListTransactionsRequest, terms: Terms) -> ListTransactionsRequest:
        self._prefix = request.prefix
        if request.longer_than_ms and terms.version < _DURATION_FROM:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, "a broker before Kafka 3.8 can't filter by duration")
        if request.pattern and terms.version < _PATTERN_FROM:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, "a broker before Kafka 4.1 can't filter by pattern")
        return ListTransactionsRequest(
            state_filters=list(request.states),
            producer_id_filters=list(request.producer_ids),
            duration_filter=request.longer_than_ms or _ANY_DURATION,
            transactional_id_pattern=request.pattern or None,
        )

    def response(self, response: ListTransactionsResponse, terms: Terms) -> pb.ListTransactionsResponse:
        return pb.ListTransactionsResponse(
            error=Error(code=response.error_code),
            unknown_states=response.unknown_state_filters,
            transactions=[
                pb.ListedTransaction(
                    transactional_id=listed.transactional_id,
                    producer_id=listed.producer_id,
                    state=listed.transaction_state,
                    shard=listed.shard,
                    coordinator=listed.coordinator,
                )
                for listed in response.transaction_states
                if listed.transactional_id.startswith(self._prefix)
            ],
            shards=ShardNumbers(numbers=response.shards, total=response.shard_count),
        )


class DescribeTransactionsTranslation:
    """Translates a request for the last transaction of each of some ids."""

    api: Final[AnyApi] = DESCRIBE_TRANSACTIONS

    def request(self, request: pb.DescribeTransactionsRequest, terms: Terms) -> DescribeTransactionsRequest:
        return DescribeTransactionsRequest(transactional_ids=list(request.transactional_ids))

    def response(self, response: DescribeTransactionsResponse, terms: Terms) -> pb.DescribeTransactionsResponse:
        return pb.DescribeTransactionsResponse(transactions=map(_described, response.transaction_states))


def _described(found: DescribeTransactionsResponse.TransactionState) -> pb.TransactionDescription:
    return pb.TransactionDescription(
        error=Error(code=found.error_code, message=found.error_message),
        transactional_id=found.transactional_id,
        state=found.transaction_state,
        producer=TxnProducer(id=found.producer_id, epoch=found.producer_epoch),
        timeout_ms=max(0, found.transaction_timeout_ms),
        started_at_ms=found.transaction_start_time_ms,
        updated_at_ms=found.updated_at_ms,
        partitions=[
            pb.TxnPartition(topic=topic.topic, partition=number)
            for topic in found.topics
            for number in topic.partitions
        ],
        prepared=found.prepared,
        transaction_version=found.transaction_version,
        events=map(_event, found.events),
        shard=found.shard,
        coordinator=found.coordinator,
    )


def _event(event: DescribeTransactionsResponse.TransactionEvent) -> pb.TransactionEvent:
    return pb.TransactionEvent(
        at_ms=event.at_ms,
        kind=event.kind,
        producer=TxnProducer(id=event.producer_id, epoch=event.producer_epoch),
        client_id=event.client_id,
        client_host=event.client_host,
        cause=event.cause,
    )
