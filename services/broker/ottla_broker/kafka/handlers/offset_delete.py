"""OffsetDelete (key 47), version 0: takes committed offsets of topics that the group no longer reads (KIP-496).

Of partitions that exist: those of a deleted topic go with it.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.group_calls import call, existing_partitions, group_partition
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import OffsetDeleteRequest, OffsetDeleteResponse
from ottla_core.model import TopicPartition
from ottla_core.rpc.parts import in_parts
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Topic: TypeAlias = OffsetDeleteResponse.OffsetDeleteResponseTopic
_Partition: TypeAlias = OffsetDeleteResponse.OffsetDeleteResponsePartition


async def handle(backend: Backend, request: OffsetDeleteRequest, context: KafkaContext) -> OffsetDeleteResponse:
    access = context.access
    if (refused := access.refused(Operation.DELETE, ResourceType.GROUP, request.group_id)) is not None:
        return OffsetDeleteResponse(error_code=refused.code, topics=[])
    denied = await access.denied(Operation.READ, ResourceType.TOPIC, (topic.name for topic in request.topics))
    named = dict.fromkeys(TopicPartition(t.name, item.partition_index) for t in request.topics for item in t.partitions)
    existing = {topic.name: existing_partitions(backend, topic.name) for topic in request.topics}
    requested = await sliced(
        group_partition,
        [p for p in named if p.topic not in denied and p.partition in existing[p.topic]],
    )
    codes: dict[TopicPartition, int] = {}
    for partitions in in_parts(requested):
        part = pb.DeleteOffsetsRequest(group=request.group_id, partitions=partitions)
        try:
            response = await call(backend, request.group_id, Group.DELETE_OFFSETS, part)
            code = response.error.code
        except OttlaError as error:
            code = error.code
        if code:
            return OffsetDeleteResponse(error_code=code, topics=[])
        codes |= {TopicPartition(entry.topic, entry.partition): entry.error.code for entry in response.partitions}
    by_topic: dict[str, list[_Partition]] = defaultdict(list)

    def respond(partition: TopicPartition) -> None:
        missing = denied[partition.topic].code if partition.topic in denied else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        result = _Partition(partition_index=partition.partition, error_code=codes.get(partition, int(missing)))
        by_topic[partition.topic].append(result)

    await sliced(respond, named)
    topics = [_Topic(name=name, partitions=partitions) for name, partitions in by_topic.items()]
    return OffsetDeleteResponse(error_code=0, topics=topics)


API: Final = control(
    OffsetDeleteRequest,
    (0, 0),
    handle,
    needs=needs((Operation.DELETE, ResourceType.GROUP), (Operation.READ, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "OffsetDeleteResponse; KIP-496",
        error_codes.GROUP
        | error_codes.TOPIC
        | {ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP},
        instead=error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.DELETE_OFFSETS,
)
