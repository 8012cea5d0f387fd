"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where an epoch ended (KIP-320, rule 67).

A consumer sees by it that a log was truncated. v3 adds the replica id.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend, leading_by_name
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_Topic: TypeAlias = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Partition: TypeAlias = OffsetForLeaderEpochResponse.EpochEndOffset
_Requested: TypeAlias = OffsetForLeaderEpochRequest.OffsetForLeaderPartition


async def handle(
    backend: Backend, request: OffsetForLeaderEpochRequest, context: KafkaContext
) -> OffsetForLeaderEpochResponse:
    access, denied = context.access, dict[str, OttlaError]()
    if not access.allows(Operation.CLUSTER_ACTION):
        denied = await access.denied(Operation.DESCRIBE, ResourceType.TOPIC, (topic.topic for topic in request.topics))
    topics, slice_ = [], Slice()
    for topic in sorted(request.topics, key=lambda topic: topic.topic in denied):  # denied ones come last, as in Kafka
        end = partial(_end, backend, topic.topic, denied.get(topic.topic))
        topics.append(_Topic(topic=topic.topic, partitions=await sliced(end, topic.partitions, slice_)))
    return OffsetForLeaderEpochResponse(topics=topics)


def _end(backend: Backend, topic: str, denied: OttlaError | None, requested: _Requested) -> _Partition:
    number = requested.partition
    try:
        if denied is not None:
            raise denied
        log = leading_by_name(backend, topic, number, requested.current_leader_epoch).log
    except OttlaError as error:
        return _Partition(error_code=error.code, partition=number, leader_epoch=-1, end_offset=-1)
    end = log.epochs.end_offset_for(requested.leader_epoch, log.log_end_offset)
    return _Partition(error_code=0, partition=number, leader_epoch=end.epoch, end_offset=end.start_offset)


API: Final = control(
    OffsetForLeaderEpochRequest,
    (2, 4),
    handle,
    # Either right is enough.
    needs=needs((Operation.CLUSTER_ACTION, ResourceType.CLUSTER), (Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "OffsetsForLeaderEpochResponse; KIP-320",
        error_codes.LEADER
        | {
            ErrorCode.FENCED_LEADER_EPOCH,
            ErrorCode.UNKNOWN_LEADER_EPOCH,
            ErrorCode.KAFKA_STORAGE_ERROR,
            ErrorCode.OFFSET_NOT_AVAILABLE,
        },
        instead=error_codes.BY_NAME,
    ),
)
