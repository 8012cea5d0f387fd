"""How operators ask what partitions know of their producers, and end transactions there (KIP-664).

Broker.DescribeProducers is Kafka's DescribeProducers, and Broker.WriteTxnMarkers its WriteTxnMarkers. Brokers of
ottla add the high watermark and the last stable offset, in private fields.
"""

from __future__ import annotations

from typing import Final

from ottla.client.grouping import grouped
from ottla.client.kafka.apis import DESCRIBE_PRODUCERS, WRITE_TXN_MARKERS, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode
from ottla_core.kafka.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla_proto import broker_pb2 as pb
from ottla_proto import client_pb2
from ottla_proto.common_pb2 import Error, TxnProducer

_LOST: Final = int(ErrorCode.UNKNOWN_SERVER_ERROR)
"""The error of a partition that the response leaves out."""

_Named = tuple[str, int]


class DescribeProducersTranslation:
    """Translates a request for the producers of partitions that a broker leads."""

    api: Final[AnyApi] = DESCRIBE_PRODUCERS

    def __init__(self) -> None:
        self._partitions: list[_Named] = []
        self._open_only = False

    def request(self, request: client_pb2.DescribeProducersRequest, terms: Terms) -> DescribeProducersRequest:
        self._open_only = request.open_only
        self._partitions = [_named(partition, terms) for partition in request.partitions]
        return DescribeProducersRequest(
            topics=[
                DescribeProducersRequest.TopicRequest(name=name, partition_indexes=numbers)
                for name, numbers in grouped(self._partitions).items()
            ]
        )

    def response(self, response: DescribeProducersResponse, terms: Terms) -> client_pb2.DescribeProducersResponse:
        found = {
            (topic.name, partition.partition_index): partition
            for topic in response.topics
            for partition in topic.partitions
        }
        return client_pb2.DescribeProducersResponse(
            partitions=[self._known(found.get(each)) for each in self._partitions]
        )

    def _known(self, found: DescribeProducersResponse.PartitionResponse | None) -> client_pb2.PartitionProducers:
        if found is None:
            return client_pb2.PartitionProducers(error=Error(code=_LOST))
        return client_pb2.PartitionProducers(
            error=Error(code=found.error_code, message=found.error_message or ""),
            high_watermark=found.high_watermark,
            last_stable_offset=found.last_stable_offset,
            producers=[
                client_pb2.ActiveProducer(
                    producer=TxnProducer(id=producer.producer_id, epoch=producer.producer_epoch),
                    last_sequence=producer.last_sequence,
                    last_timestamp_ms=producer.last_timestamp,
                    coordinator_epoch=producer.coordinator_epoch,
                    first_offset=producer.current_txn_start_offset,
                )
                for producer in found.active_producers
                if producer.current_txn_start_offset >= 0 or not self._open_only
            ],
        )


class WriteTxnMarkersTranslation:
    """Translates markers for partitions that a broker leads."""

    api: Final[AnyApi] = WRITE_TXN_MARKERS

    def __init__(self) -> None:
        self._markers: list[tuple[int, list[_Named]]] = []

    def request(self, request: pb.WriteTxnMarkersRequest, terms: Terms) -> WriteTxnMarkersRequest:
        self._markers = [
            (each.marker.producer.id, [_named(partition, terms) for partition in each.partitions])
            for each in request.markers
        ]
        return WriteTxnMarkersRequest(
            markers=[
                WriteTxnMarkersRequest.WritableTxnMarker(
                    producer_id=each.marker.producer.id,
                    producer_epoch=each.marker.producer.epoch,
                    transaction_result=each.marker.committed,
                    coordinator_epoch=each.marker.coordinator_epoch,
                    transaction_version=each.marker.transaction_version,
                    topics=[
                        WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=name, partition_indexes=numbers)
                        for name, numbers in grouped(partitions).items()
                    ],
                )
                for each, (_, partitions) in zip(request.markers, self._markers, strict=True)
            ]
        )

    def response(self, response: WriteTxnMarkersResponse, terms: Terms) -> pb.WriteTxnMarkersResponse:
        codes = {
            (marker.producer_id, (topic.name, partition.partition_index)): partition.error_code
            for marker in response.markers
            for topic in marker.topics
            for partition in topic.partitions
        }
        return pb.WriteTxnMarkersResponse(
            markers=[
                pb.MarkerWritten(partitions=[Error(code=codes.get((producer_id, each), _LOST)) for each in partitions])
                for producer_id, partitions in self._markers
            ]
        )


def _named(partition: pb.PartitionOfLog, terms: Terms) -> _Named:
    return terms.names.name_of(partition.topic_id), partition.partition
