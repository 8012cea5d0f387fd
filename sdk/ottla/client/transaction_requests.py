"""The exchanges between a producer, or an operator, and the coordinator of a transactional id.

From some version of an API on, a broker concludes from a request that the producer's transactions have version 2
(KIP-890). A client may use such a version only if the cluster has finalized 2 as its feature `transaction.version`. All
requests of a transaction have to agree. A cluster may be upgraded while a transaction is open. So the producer gets the
version together with its epoch, and each of its requests suits that version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias, TypeVar

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import (
    ADD_OFFSETS_TO_TXN,
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_TRANSACTIONS,
    END_TXN,
    INIT_PRODUCER_ID,
    Api,
    Request,
    Response,
    coordinator_error,
)
from ottla.client.kafka.exchange import ByFeatures, Exchange, Features, Terms, lacking
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla.machines.transaction import Assigned, ProducerEpoch
from ottla_core.kafka.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla_core.model import TopicPartition
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2

T = TypeVar("T")
DescribedTransaction: TypeAlias = DescribeTransactionsResponse.TransactionState

_FEATURE: Final = "transaction.version"
_PRODUCER_FROM: Final = 3
"""From this version of InitProducerId on, the producer may say which id and epoch it has (KIP-360)."""


def suited(api: Api[Request, Response], transaction_version: int) -> Api[Request, Response]:
    """Return the API with only the versions that suit a producer's transactions."""
    return api.before(api.transactions_v2_from) if transaction_version == TRANSACTIONS_V1 else api


def initialization(transactional_id: str, timeout_ms: int, producer: ProducerEpoch | None = None) -> Exchange[Assigned]:
    """Return the exchange that asks for a new epoch. `timeout_ms` is the timeout of the producer's transactions.

    `producer` is the identity that the producer has so far. Brokers before Kafka 2.5 do not take it
    (UNSUPPORTED_VERSION).
    """

    def build(terms: Terms) -> InitProducerIdRequest:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        if producer is not None:
            if terms.version < _PRODUCER_FROM:
                reason = "a producer can't go on in another epoch with a broker before Kafka 2.5"
                raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, reason)
            request.producer_id, request.producer_epoch = producer.producer_id, producer.epoch
        return request

    def read(response: InitProducerIdResponse, features: Features) -> Assigned:
        is_newest = features.get(_FEATURE, 0) >= TRANSACTIONS_V2
        version = TRANSACTIONS_V2 if is_newest else TRANSACTIONS_V1
        return Assigned(ProducerEpoch(response.producer_id, response.producer_epoch), version)

    return Exchange(INIT_PRODUCER_ID, build, ByFeatures(read))


def addition_of_partitions(
    transactional_id: str, producer: ProducerEpoch, partitions: Sequence[TopicPartition]
) -> Exchange[None]:
    """Return the exchange that adds partitions to a transaction of version 1, all or none.

    Raises the error of a partition that prevented it. The error is `about` that partition if the producer may not write
    to the topic. Kafka repeats an error about the whole transaction for each partition.
    """
    topics = [
        AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
        for topic, numbers in grouped(partitions).items()
    ]

    def build(terms: Terms) -> AddPartitionsToTxnRequest:
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=producer.producer_id,
            v3_and_below_producer_epoch=producer.epoch,
            v3_and_below_topics=topics,
        )

    def read(response: AddPartitionsToTxnResponse) -> None:
        codes = {
            TopicPartition(topic.name, result.partition_index): result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        failed = [(at, code) for at in partitions if (code := codes.get(at))]
        # The partitions with OPERATION_NOT_ATTEMPTED only failed because of the others.
        failed.sort(key=lambda each: each[1] == ErrorCode.OPERATION_NOT_ATTEMPTED)
        for at, code in failed[:1]:
            is_of_topic = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
            raise error_from_code(coordinator_error(code), "", of=at if is_of_topic else None)
        for at in partitions:
            if at not in codes:
                raise lacking(ADD_PARTITIONS_TO_TXN, at)

    return Exchange(ADD_PARTITIONS_TO_TXN, build, read)


def addition_of_offsets(transactional_id: str, producer: ProducerEpoch, group: str) -> Exchange[None]:
    """Return the exchange that adds a group's offsets to a transaction of version 1."""
    request = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        group_id=group,
    )
    return Exchange(ADD_OFFSETS_TO_TXN, lambda _: request, lambda _: None)


def end(transactional_id: str, current: Assigned, *, committed: bool) -> Exchange[Assigned | None]:
    """Return the exchange that ends a transaction. Its response has the producer of the next transaction; None if the
    epoch was not raised, as in version 1."""
    request = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=current.producer.producer_id,
        producer_epoch=current.producer.epoch,
        committed=committed,
    )

    def read(response: EndTxnResponse) -> Assigned | None:
        if response.producer_id < 0:
            return None
        return Assigned(ProducerEpoch(response.producer_id, response.producer_epoch), current.version)

    return Exchange(suited(END_TXN, current.version), lambda _: request, read)


def description(transactional_ids: Sequence[str], read: Callable[[Sequence[DescribedTransaction]], T]) -> Exchange[T]:
    """Return the exchange that asks for the last transaction of each id. Each description has an error of its own.

    Brokers of ottla add whether a transaction is prepared, and what has happened to an id, in private fields.
    """
    request = DescribeTransactionsRequest(transactional_ids=list(transactional_ids))
    return Exchange(DESCRIBE_TRANSACTIONS, lambda _: request, lambda response: read(response.transaction_states))
