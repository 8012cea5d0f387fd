"""OffsetDelete (key 47), version 0: takes committed offsets of topics that the group no longer reads (KIP-496).

Of partitions that exist: those of a deleted topic go with it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from kafka.protocol.consumer import OffsetDeleteResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.group_calls import call, code_of, group_partition, partitions_there
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_core.slices import sliced
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

_Topic: Final = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition: Final = _Topic.OffsetDeleteResponsePartition


async def answer(backend: Backend, asked: Message, request: KafkaContext) -> Message:
    version = request.version
    named = dict.fromkeys(TopicPartition(t.name, each.partition_index) for t in asked.topics for each in t.partitions)
    there = {topic.name: partitions_there(backend, topic.name) for topic in asked.topics}
    wanted = await sliced(group_partition, [each for each in named if each.partition in there[each.topic]])
    try:
        response = await call(
            backend,
            asked.group_id,
            Group.DELETE_OFFSETS,
            pb.DeleteOffsetsRequest(group=asked.group_id, partitions=wanted),
        )
        code = code_of(response.error)
    except OttlaError as error:
        code = code_of(error)
    if code:
        return OffsetDeleteResponse(version=version, error_code=code, topics=[])
    codes = {TopicPartition(each.topic, each.partition): code_of(each.error) for each in response.partitions}
    told: dict[str, list[Message]] = defaultdict(list)

    def tell(partition: TopicPartition) -> None:
        number, code = partition.partition, codes.get(partition, int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        told[partition.topic].append(_Partition(version=version, partition_index=number, error_code=code))

    await sliced(tell, named)
    topics = [_Topic(version=version, name=name, partitions=partitions) for name, partitions in told.items()]
    return OffsetDeleteResponse(version=version, error_code=0, topics=topics)
