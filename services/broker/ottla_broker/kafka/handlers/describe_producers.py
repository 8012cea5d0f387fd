"""DescribeProducers (key 61), version 0: what this broker's replicas know of their idempotent producers (KIP-664)."""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import text_of, unknown_topic
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.partition_requests.active_producers import ActiveProducer, active_producers
from ottla_broker.replication.replica import Replica
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import DescribeProducersRequest, DescribeProducersResponse
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_Topic: TypeAlias = DescribeProducersResponse.TopicResponse
_Partition: TypeAlias = DescribeProducersResponse.PartitionResponse
_Producer: TypeAlias = DescribeProducersResponse.ProducerState


async def handle(
    backend: Backend, request: DescribeProducersRequest, context: KafkaContext
) -> DescribeProducersResponse:
    requested, slice_ = dict[str, dict[int, None]](), Slice()
    for topic in request.topics:  # each partition once, however often it is named: its response may be large
        await slice_.rest()
        requested.setdefault(topic.name, {}).update(dict.fromkeys(topic.partition_indexes))
    denied = await context.access.denied(Operation.READ, ResourceType.TOPIC, requested)
    topics = []
    for name, numbers in requested.items():
        partitions = []
        for number in numbers:
            await slice_.rest()
            partitions.append(await _described(backend, name, number, denied.get(name)))
        topics.append(_Topic(name=name, partitions=partitions))
    return DescribeProducersResponse(topics=topics)


async def _described(backend: Backend, topic: str, number: int, denied: OttlaError | None) -> _Partition:
    try:
        if denied is not None:
            raise denied
        replica = _replica(backend, topic, number)
    except OttlaError as error:
        return _Partition(
            partition_index=number,
            error_code=error.code,
            error_message=text_of(error),
            active_producers=[],
        )
    producers = await active_producers(replica.log.producers)
    _, last_stable_offset, high_watermark = replica.offsets.positions
    return _Partition(
        partition_index=number,
        error_code=0,
        error_message=None,
        active_producers=await sliced(_producer, producers),
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
    )


def _replica(backend: Backend, topic: str, number: int) -> Replica:
    partition_id = backend.id_of(topic, number)
    if partition_id is None:
        raise unknown_topic(topic)
    return backend.replicas.table.find(partition_id)


def _producer(found: ActiveProducer) -> _Producer:
    return _Producer(
        producer_id=found.producer_id,
        producer_epoch=found.epoch,
        last_sequence=found.last_sequence,
        last_timestamp=found.last_timestamp_ms,
        coordinator_epoch=found.coordinator_epoch,
        current_txn_start_offset=found.first_offset,
    )


API: Final = control(
    DescribeProducersRequest,
    (0, 0),
    handle,
    needs=needs((Operation.READ, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "DescribeProducersResponse; KIP-664",
        error_codes.TOPIC | {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR},
        instead=error_codes.BY_NAME,
    ),
)
