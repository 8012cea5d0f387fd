"""The calls of a transactional producer to the coordinator of its transactional id.

Txn.InitProducer is Kafka's InitProducerId, Txn.AddPartitions its AddPartitionsToTxn, Txn.AddOffsets its
AddOffsetsToTxn, and Txn.EndTxn its EndTxn.

Coordinators before Kafka 2.7 send INVALID_PRODUCER_EPOCH where later ones send PRODUCER_FENCED (KIP-588). So the former
becomes the latter here, as in Kafka's client. From the leader of a partition INVALID_PRODUCER_EPOCH has another
meaning, and stays as it is.
"""

from __future__ import annotations

from typing import Final

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, INIT_PRODUCER_ID, AnyApi
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.transaction_version import transaction_version
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from ottla_proto import txn_pb2 as pb
from ottla_proto.common_pb2 import Error, TxnProducer

_PRODUCER_FROM: Final = 3
"""From this version of InitProducerId on, the producer may say which id and epoch it has (KIP-360)."""
_RAISES_FROM: Final = 5
"""From this version of EndTxn on, the response has the producer of the next transaction (KIP-890)."""


class InitProducerTranslation:
    """Translates a request for a new epoch of a transactional id."""

    api: Final[AnyApi] = INIT_PRODUCER_ID

    def request(self, request: pb.InitProducerRequest, terms: Terms) -> InitProducerIdRequest:
        if request.two_phase_commit or request.keep_prepared:
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, "no version of Kafka's InitProducerId has two-phase commit")
        if not request.HasField("producer"):
            return InitProducerIdRequest(
                transactional_id=request.transactional_id, transaction_timeout_ms=request.timeout_ms
            )
        if terms.version < _PRODUCER_FROM:
            reason = "a producer can't go on in another epoch with a broker before Kafka 2.5"
            raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, reason)
        return InitProducerIdRequest(
            transactional_id=request.transactional_id,
            transaction_timeout_ms=request.timeout_ms,
            producer_id=request.producer.id,
            producer_epoch=request.producer.epoch,
        )

    def response(self, response: InitProducerIdResponse, terms: Terms) -> pb.InitProducerResponse:
        if response.error_code:
            return pb.InitProducerResponse(error=coordinator_error(response.error_code, response.error_message))
        producer = TxnProducer(id=response.producer_id, epoch=response.producer_epoch)
        return pb.InitProducerResponse(producer=producer, transaction_version=transaction_version(terms.features))


class AddPartitionsTranslation:
    """Translates the addition of partitions to a transaction of version 1."""

    api: Final[AnyApi] = ADD_PARTITIONS_TO_TXN

    def __init__(self) -> None:
        self._partitions: list[tuple[str, int]] = []

    def request(self, request: pb.AddPartitionsRequest, terms: Terms) -> AddPartitionsToTxnRequest:
        (added,) = request.transactions
        self._partitions = [(partition.topic, partition.partition) for partition in added.partitions]
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=added.transactional_id,
            v3_and_below_producer_id=added.producer.id,
            v3_and_below_producer_epoch=added.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                for topic, numbers in grouped(self._partitions).items()
            ],
        )

    def response(self, response: AddPartitionsToTxnResponse, terms: Terms) -> pb.AddPartitionsResponse:
        codes = {
            (topic.name, result.partition_index): result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        lost = int(ErrorCode.UNKNOWN_SERVER_ERROR)
        errors = [coordinator_error(codes.get(partition, lost)) for partition in self._partitions]
        return pb.AddPartitionsResponse(transactions=[pb.PartitionsAdded(partitions=errors)])


class AddOffsetsTranslation:
    """Translates the addition of a group's offsets to a transaction of version 1."""

    api: Final[AnyApi] = ADD_OFFSETS_TO_TXN

    def request(self, request: pb.AddOffsetsRequest, terms: Terms) -> AddOffsetsToTxnRequest:
        return AddOffsetsToTxnRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer.id,
            producer_epoch=request.producer.epoch,
            group_id=request.group,
        )

    def response(self, response: AddOffsetsToTxnResponse, terms: Terms) -> pb.AddOffsetsResponse:
        return pb.AddOffsetsResponse(error=coordinator_error(response.error_code))


class EndTxnTranslation:
    """Translates the end of a transaction. Version 1 leaves the epoch as it is, so its response has no producer."""

    api: Final[AnyApi] = END_TXN

    def request(self, request: pb.EndTxnRequest, terms: Terms) -> EndTxnRequest:
        return EndTxnRequest(
            transactional_id=request.transactional_id,
            producer_id=request.producer.id,
            producer_epoch=request.producer.epoch,
            committed=request.committed,
        )

    def response(self, response: EndTxnResponse, terms: Terms) -> pb.EndTxnResponse:
        if response.error_code:
            return pb.EndTxnResponse(error=coordinator_error(response.error_code, response.error_message))
        if terms.version < _RAISES_FROM or response.producer_id < 0:
            return pb.EndTxnResponse()
        return pb.EndTxnResponse(producer=TxnProducer(id=response.producer_id, epoch=response.producer_epoch))


def coordinator_error(code: int, message: str | None = None) -> Error:
    """Return a coordinator's error about a transaction."""
    return error_of(ErrorCode.PRODUCER_FENCED if code == ErrorCode.INVALID_PRODUCER_EPOCH else code, message)
