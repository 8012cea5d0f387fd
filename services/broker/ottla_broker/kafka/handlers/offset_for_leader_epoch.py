"""OffsetForLeaderEpoch (key 23), versions 2 to 4: where an epoch ended (KIP-320, rule 67).

A consumer sees by it that a log was truncated. v3 adds the replica id.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kafka.protocol.consumer import OffsetForLeaderEpochResponse

from ottla_broker.kafka.backend import Backend, leading_by_name
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice, sliced

_Topic: Final = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
_Partition: Final = _Topic.EpochEndOffset


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    version = context.version
    topics, slice_ = [], Slice()
    for topic in request.topics:
        end = partial(_end, backend, topic.topic, version)
        topics.append(
            _Topic(version=version, topic=topic.topic, partitions=await sliced(end, topic.partitions, slice_))
        )
    return OffsetForLeaderEpochResponse(version=version, topics=topics)


def _end(backend: Backend, topic: str, version: int, requested: Message) -> Message:
    number = requested.partition
    try:
        log = leading_by_name(backend, topic, number, requested.current_leader_epoch).log
    except OttlaError as error:
        return _Partition(version=version, error_code=error.code, partition=number, leader_epoch=-1, end_offset=-1)
    end = log.epochs.end_offset_for(requested.leader_epoch, log.log_end_offset)
    return _Partition(
        version=version, error_code=0, partition=number, leader_epoch=end.epoch, end_offset=end.start_offset
    )
