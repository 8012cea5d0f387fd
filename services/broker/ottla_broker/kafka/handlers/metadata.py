"""Metadata (key 3), versions 0 to 13: brokers, topics and leaders, from the image at one revision.

v1 adds the controller, racks, and null for all topics; v4 whether topics may be created; v7 leader epochs (KIP-320);
v8 authorized operations (KIP-430), of the cluster until v10; v10 topic ids, which v12 may be asked by (KIP-516); v13 an
error code (KIP-1102).
"""

from __future__ import annotations

import uuid
from collections.abc import Coroutine, Iterable, Mapping, Sequence, Set
from typing import Any, Final, NamedTuple

from kafka.protocol.metadata import MetadataResponse

from ottla_broker.kafka import auto_topics
from ottla_broker.kafka.addresses import controller_for
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_core.cluster.image import ClusterImage, Partition, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS, NO_LEADER, TopicId, check_topic_name

_Topic: Final = MetadataResponse.MetadataResponseTopic
_Partition: Final = _Topic.MetadataResponsePartition
_Broker: Final = MetadataResponse.MetadataResponseBroker

_LARGE: Final = 500
"""Topics or partitions: this many take some milliseconds."""
_LISTENER_NOT_FOUND_FROM: Final = 6
"""Older clients don't know the error."""

_NO_NAME_FROM: Final = 12
"""Before it a response has a name for every topic, an empty one for an unknown id, as Kafka's has."""

ALL_TOPIC_OPERATIONS: Final = frozenset({3, 4, 5, 6, 7, 8, 10, 11})
"""Kafka's numbers of what may be done with a topic: everything, until access control lists are served."""
ALL_CLUSTER_OPERATIONS: Final = frozenset({5, 7, 8, 9, 10, 11, 12})


class Reach(NamedTuple):
    """Ids of brokers that clients do not get: the client's listener does not lead there, or they are not back."""

    unreachable: Set[int]
    fenced: Set[int]


def handle(backend: Backend, request: Message, context: KafkaContext) -> Message | Coroutine[Any, Any, Message]:
    if _is_large(backend.image, request):
        return _beside_the_loop(backend, request, context)
    unknown = auto_topics.to_create(backend.image, request, context.version)
    if unknown:
        return _after_creation(backend, unknown, request, context)
    return _respond(backend.image, backend, request, context, {})


async def _after_creation(backend: Backend, names: Sequence[str], request: Message, context: KafkaContext) -> Message:
    rejected = await auto_topics.create(backend, names)
    return _respond(backend.image, backend, request, context, rejected)


async def _beside_the_loop(backend: Backend, request: Message, context: KafkaContext) -> Message:
    """The same, of many partitions: the image never changes, so any thread may read it."""
    unknown = await backend.threads.work(auto_topics.to_create, backend.image, request, context.version)
    rejected = await auto_topics.create(backend, unknown) if unknown else {}
    return await backend.threads.work(_respond, backend.image, backend, request, context, rejected)


def _is_large(image: ClusterImage, request: Message) -> bool:
    if request.topics is None:
        return len(image.partitions) > _LARGE
    if len(request.topics) + len(image.partitions) <= _LARGE:
        return False
    if len(request.topics) > _LARGE or any(topic.name is None for topic in request.topics):
        return True
    named = (image.topics.get(topic.name) for topic in request.topics)
    return sum(topic.partition_count for topic in named if topic is not None) > _LARGE


def _respond(
    image: ClusterImage, backend: Backend, request: Message, context: KafkaContext, rejected: Mapping[str, ErrorCode]
) -> Message:
    """`rejected`: topics that could not be created, and why."""
    version = context.version
    brokers = []
    unreachable, fenced = set(), set()
    for broker in image.brokers.values():
        address = backend.addresses.advertised(broker, context.caller)
        if address is None:
            unreachable.add(broker.id)
        elif broker.fenced:
            fenced.add(broker.id)
        else:
            rack = broker.rack or None
            brokers.append(_Broker(version=version, node_id=broker.id, host=address.host, port=address.port, rack=rack))
    reach = Reach(unreachable, fenced)
    topics = [_described(image, t, request, version, reach) for t in _requested(image, request, version, rejected)]
    operations = ALL_CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else None
    return MetadataResponse(
        version=version,
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=controller_for(backend.node_id, (b.node_id for b in brokers)),
        topics=topics,
        authorized_operations=operations,
    )


def _requested(
    image: ClusterImage, request: Message, version: int, rejected: Mapping[str, ErrorCode]
) -> Iterable[Topic | tuple[ErrorCode, str | None, bytes]]:
    """Each topic, or the error, the name and the id with which it was requested in vain; once, as in Kafka."""
    if request.topics is None or (version == 0 and not request.topics):
        yield from (image.topics[name] for name in sorted(image.topics))
        return
    for requested in {(topic.name, topic.topic_id): topic for topic in request.topics}.values():
        if requested.name is None:
            topic_id = requested.topic_id.bytes if requested.topic_id else bytes(16)
            yield image.topic_by_id(TopicId(topic_id)) or (ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        else:
            code = rejected.get(requested.name) or _missing_code(requested.name)
            yield image.topics.get(requested.name) or (code, requested.name, bytes(16))


def _missing_code(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except OttlaError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _described(
    image: ClusterImage,
    topic: Topic | tuple[ErrorCode, str | None, bytes],
    request: Message,
    version: int,
    reach: Reach,
) -> Message:
    if not isinstance(topic, Topic):
        code, name, topic_id = topic
        if name is None and version < _NO_NAME_FROM:
            name = ""
        return _Topic(version=version, error_code=int(code), name=name, topic_id=uuid.UUID(bytes=topic_id))
    return _Topic(
        version=version,
        error_code=0,
        name=topic.name,
        topic_id=uuid.UUID(bytes=topic.id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _Partition(version=version, **_partition(image, i.partition, p, version, reach))
            for i, p in image.partitions_of(topic)
        ],
        authorized_operations=ALL_TOPIC_OPERATIONS if request.include_topic_authorized_operations else None,
    )


def _partition(image: ClusterImage, number: int, partition: Partition, version: int, reach: Reach) -> dict[str, Any]:
    """The fields of a partition. Where the leader is not among the brokers that a client gets there is none, as
    in Kafka: one that is fenced, or that has no address for the client's listener.
    """
    code, leader = ErrorCode.NONE, partition.leader
    if leader == NO_LEADER or leader not in image.brokers or leader in reach.fenced:
        code, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
    elif leader in reach.unreachable:
        code = ErrorCode.LEADER_NOT_AVAILABLE if version < _LISTENER_NOT_FOUND_FROM else ErrorCode.LISTENER_NOT_FOUND
        leader = NO_LEADER
    return {
        "error_code": int(code),
        "partition_index": number,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": list(partition.isr),
        "offline_replicas": [r for r in partition.replicas if r not in image.brokers or image.brokers[r].fenced],
    }
