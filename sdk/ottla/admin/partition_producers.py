"""The exchanges that ask leaders what their partitions know of producers, and that end transactions there (KIP-664)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.admin.transaction_descriptions import time_of
from ottla.admin.transaction_info import ActiveProducer
from ottla.client.kafka.apis import DESCRIBE_PRODUCERS, WRITE_TXN_MARKERS
from ottla.client.kafka.exchange import Exchange, lacking, raise_failed
from ottla.errors import error_from_code
from ottla_core.kafka.messages import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from ottla_core.model import TopicPartition


class PartitionProducers(NamedTuple):
    """The producers that a leader knows in a partition, and how far readers may read.

    Kafka's brokers do not send these two offsets. Then both are -1.
    """

    producers: tuple[ActiveProducer, ...]
    high_watermark: int
    last_stable_offset: int


def description(topic: str, numbers: Sequence[int], *, open_only: bool) -> Exchange[dict[int, PartitionProducers]]:
    """Return the exchange that asks a leader for the producers of some partitions. With `open_only`, its result has
    only producers with an open transaction."""
    asked = DescribeProducersRequest.TopicRequest(name=topic, partition_indexes=list(numbers))

    def read(response: DescribeProducersResponse) -> dict[int, PartitionProducers]:
        found = {each.partition_index: each for of in response.topics if of.name == topic for each in of.partitions}
        return {number: _known(TopicPartition(topic, number), found.get(number), open_only) for number in numbers}

    return Exchange(DESCRIBE_PRODUCERS, lambda _: DescribeProducersRequest(topics=[asked]), read)


def _known(
    at: TopicPartition, found: DescribeProducersResponse.PartitionResponse | None, open_only: bool
) -> PartitionProducers:
    if found is None:
        raise lacking(DESCRIBE_PRODUCERS, at)
    raise_failed(found)
    producers = (
        ActiveProducer(
            producer.producer_id,
            producer.producer_epoch,
            producer.last_sequence,
            time_of(producer.last_timestamp),
            producer.coordinator_epoch,
            None if producer.current_txn_start_offset < 0 else producer.current_txn_start_offset,
        )
        for producer in found.active_producers
        if producer.current_txn_start_offset >= 0 or not open_only
    )
    return PartitionProducers(tuple(producers), found.high_watermark, found.last_stable_offset)


def abort_marker(at: TopicPartition, producer: ActiveProducer) -> Exchange[None]:
    """Return the exchange that writes an abort marker to a partition. The marker has the producer's own epoch, as
    before version 2 of transactions (KIP-890), and the coordinator epoch that the partition knows."""
    in_topic = WriteTxnMarkersRequest.WritableTxnMarkerTopic(name=at.topic, partition_indexes=[at.partition])
    marker = WriteTxnMarkersRequest.WritableTxnMarker(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        transaction_result=False,
        coordinator_epoch=max(0, producer.coordinator_epoch),
        topics=[in_topic],
    )

    def read(response: WriteTxnMarkersResponse) -> None:
        codes = {
            TopicPartition(topic.name, partition.partition_index): partition.error_code
            for written in response.markers
            for topic in written.topics
            for partition in topic.partitions
        }
        if at not in codes:
            raise lacking(WRITE_TXN_MARKERS, at)
        if codes[at]:
            raise error_from_code(codes[at], "")

    return Exchange(WRITE_TXN_MARKERS, lambda _: WriteTxnMarkersRequest(markers=[marker]), read)
