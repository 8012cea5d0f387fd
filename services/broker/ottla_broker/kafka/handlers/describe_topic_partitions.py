"""DescribeTopicPartitions (key 75), version 0: topics by name, a page of partitions at a time (KIP-966)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse
from ottla_core.model import INTERNAL_TOPICS, NO_LEADER, PartitionId, TopicId, check_topic_name
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_Topic: TypeAlias = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponseTopic
_Partition: TypeAlias = DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition
_Cursor: TypeAlias = DescribeTopicPartitionsResponse.Cursor

MAX_PARTITIONS: Final = 2000
"""The most partitions in one response, however many are requested: Kafka's max.request.partition.size.limit."""


class PartitionPage(NamedTuple):
    """Some partitions of a topic, from `start` to before `stop`."""

    name: str
    start: int
    stop: int


async def handle(
    backend: Backend, request: DescribeTopicPartitionsRequest, context: KafkaContext
) -> DescribeTopicPartitionsResponse:
    image, cursor = backend.image, request.cursor
    names = dict.fromkeys(topic.name for topic in request.topics)
    denied = await context.access.hidden(Operation.DESCRIBE, ResourceType.TOPIC, names or image.topics)
    first = ("", 0) if cursor is None else (cursor.topic_name, max(0, cursor.partition_index))
    shown = [name for name in names or image.topics if name not in denied]
    counts = dict(
        await sliced(lambda name: (name, image.topics[name].partition_count if name in image.topics else 0), shown)
    )
    limit = min(max(request.response_partition_limit, 1), MAX_PARTITIONS)
    slices, rest = await backend.threads.work(page, counts, first, limit)
    topics, time_slice = [], Slice()
    for entry in slices:
        topics.append(await _described(image, entry, context.access, time_slice))
        await time_slice.rest()
    topics += await sliced(_refused, sorted(name for name in denied if name in names), time_slice)
    next_cursor = None if rest is None else _Cursor(topic_name=rest[0], partition_index=rest[1])
    return DescribeTopicPartitionsResponse(topics=topics, next_cursor=next_cursor)


def page(
    counts: dict[str, int], first: tuple[str, int], limit: int
) -> tuple[Sequence[PartitionPage], tuple[str, int] | None]:
    """Return at most `limit` partitions from `first` (topic, partition) on, and where the next page begins, if there is
    one.

    `counts` has the number of partitions of each topic. A topic without any takes no room.
    """
    slices: list[PartitionPage] = []
    for name in sorted(name for name in counts if name >= first[0]):
        if limit == 0:
            return slices, (name, 0)
        start = first[1] if name == first[0] else 0
        stop = max(start, min(counts[name], start + limit))
        slices.append(PartitionPage(name, start, stop))
        if stop < counts[name]:
            return slices, (name, stop)
        limit -= stop - start
    return slices, None


async def _described(image: ClusterImage, requested: PartitionPage, access: Access, time_slice: Slice) -> _Topic:
    topic = image.topics.get(requested.name)
    partitions: list[_Partition] = []
    if topic is None:
        code, topic_id = _missing_code(requested.name), bytes(16)
    else:
        code, topic_id = ErrorCode.NONE, topic.id
        of_partition = partial(_partition, image, topic.id)
        partitions = await sliced(of_partition, range(requested.start, requested.stop), time_slice)
    return _Topic(
        error_code=int(code),
        name=requested.name,
        topic_id=topic_id,
        is_internal=requested.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=access.operations(ResourceType.TOPIC, requested.name),
    )


def _refused(name: str) -> _Topic:
    return _Topic(error_code=int(ErrorCode.TOPIC_AUTHORIZATION_FAILED), name=name, partitions=[])


def _missing_code(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except OttlaError as error:
        return ErrorCode(error.code)
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _partition(image: ClusterImage, topic_id: TopicId, number: int) -> _Partition:
    """Describe a partition. Without eligible replicas the lists are empty, because Java's client takes no null, which
    the schema allows."""
    partition = image.partitions[PartitionId(topic_id, number)]
    leader = image.brokers.get(partition.leader)
    has_leader = leader is not None and not leader.fenced  # otherwise no client could find it among the brokers
    return _Partition(
        error_code=int(ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE),
        partition_index=number,
        leader_id=partition.leader if has_leader else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=[r for r in partition.replicas if r not in image.brokers or image.brokers[r].fenced],
    )


API: Final = control(
    DescribeTopicPartitionsRequest,
    (0, 0),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "DescribeTopicPartitionsResponse; KIP-966",
        error_codes.TOPIC | {ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND},
    ),
)
