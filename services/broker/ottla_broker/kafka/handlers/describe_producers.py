"""DescribeProducers (key 61), version 0: what this broker's replicas know of their idempotent producers (KIP-664)."""

from __future__ import annotations

from typing import Final

from kafka.protocol.admin import DescribeProducersResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.errors import code_by_name, text_of, unknown_topic
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.machines.producers import ProducerState
from ottla_broker.replication.replica import Replica
from ottla_core.errors import OttlaError
from ottla_core.slices import Slice, sliced

_Topic: Final = DescribeProducersResponse.TopicResponse
_Partition: Final = _Topic.PartitionResponse
_Producer: Final = _Partition.ProducerState


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    version = context.version
    requested: dict[str, dict[int, None]] = {}
    for topic in request.topics:  # each partition once, however often it is named: its response may be large
        requested.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    topics, slice_ = [], Slice()
    for name, numbers in requested.items():
        partitions = []
        for number in numbers:
            await slice_.rest()
            partitions.append(await _described(backend, name, version, number))
        topics.append(_Topic(version=version, name=name, partitions=partitions))
    return DescribeProducersResponse(version=version, topics=topics)


async def _described(backend: Backend, topic: str, version: int, number: int) -> Message:
    """Followers know them as well as the leader does."""
    try:
        replica = _replica(backend, topic, number)
    except OttlaError as error:
        return _Partition(
            version=version,
            partition_index=number,
            error_code=code_by_name(error),
            error_message=text_of(error),
            active_producers=[],
        )
    producers = replica.log.producers

    def respond(producer_id: int) -> Message | None:
        known = producers.get(producer_id)
        return None if known is None else _producer(producer_id, known, version)

    entries = await sliced(respond, list(producers.entries()))
    return _Partition(
        version=version,
        partition_index=number,
        error_code=0,
        error_message=None,
        active_producers=[entry for entry in entries if entry is not None],
    )


def _replica(backend: Backend, topic: str, number: int) -> Replica:
    partition_id = backend.id_of(topic, number)
    if partition_id is None:
        raise unknown_topic(topic)
    return backend.replicas.find(partition_id)


def _producer(producer_id: int, producer: ProducerState, version: int) -> Message:
    """One that has only raised its epoch has no batch."""
    last = producer.batches[-1] if producer.batches else None
    return _Producer(
        version=version,
        producer_id=producer_id,
        producer_epoch=producer.epoch,
        last_sequence=-1 if last is None else last.last_sequence,
        last_timestamp=-1 if last is None else last.timestamp_ms,
        coordinator_epoch=producer.coordinator_epoch,
        current_txn_start_offset=producer.transaction_offset,
    )
