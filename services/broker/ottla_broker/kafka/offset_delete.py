"""OffsetDelete: an administrator takes committed offsets of topics that the group reads no more (KIP-496)."""

from __future__ import annotations

from typing import Final

from kafka.protocol.consumer import OffsetDeleteResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import Request
from ottla_broker.kafka.group_calls import call, code_of
from ottla_core.errors import OttlaError
from ottla_core.model import TopicPartition
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

_Topic: Final = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition: Final = _Topic.OffsetDeleteResponsePartition


async def answer(backend: Backend, asked: Message, request: Request) -> Message:
    version = request.version
    wanted = [
        pb.GroupPartition(topic=topic.name, partition=each.partition_index)
        for topic in asked.topics
        for each in topic.partitions
    ]
    try:
        reply = await call(
            backend,
            asked.group_id,
            Group.DELETE_OFFSETS,
            pb.DeleteOffsetsRequest(group=asked.group_id, partitions=wanted),
        )
        code = code_of(reply.error)
    except OttlaError as error:
        code = code_of(error)
    if code:
        return OffsetDeleteResponse(version=version, error_code=code, topics=[])
    codes = {TopicPartition(each.topic, each.partition): code_of(each.error) for each in reply.partitions}
    topics = [
        _Topic(
            version=version,
            name=topic.name,
            partitions=[
                _Partition(
                    version=version,
                    partition_index=each.partition_index,
                    error_code=codes.get(TopicPartition(topic.name, each.partition_index), 0),
                )
                for each in topic.partitions
            ],
        )
        for topic in asked.topics
    ]
    return OffsetDeleteResponse(version=version, error_code=0, topics=topics)
