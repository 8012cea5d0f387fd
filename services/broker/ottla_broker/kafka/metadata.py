"""Metadata: brokers, topics and leaders, from the image at one revision."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final

from kafka.protocol.metadata import MetadataResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import Request
from ottla_core.cluster.image import ClusterImage, Partition, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import INTERNAL_TOPICS, NO_LEADER, TopicId, check_topic_name

_Topic: Final = MetadataResponse.MetadataResponseTopic
_Partition: Final = _Topic.MetadataResponsePartition
_Broker: Final = MetadataResponse.MetadataResponseBroker

ALL_TOPIC_OPERATIONS: Final = frozenset({3, 4, 5, 6, 7, 8, 10, 11})
"""Kafka's numbers of what may be done with a topic: everything, until access control lists are served."""
ALL_CLUSTER_OPERATIONS: Final = frozenset({5, 7, 8, 9, 10, 11, 12})


def answer(backend: Backend, asked: Message, request: Request) -> Message:
    image, version = backend.image, request.version
    brokers = []
    for broker in image.live_brokers().values():
        told = backend.addresses.told(broker, request.caller.dialled_host)
        if told is not None:
            rack = broker.rack or None
            brokers.append(_Broker(version=version, node_id=broker.id, host=told.host, port=told.port, rack=rack))
    topics = [_described(image, t, asked, version) for t in _wanted(image, asked, version)]
    operations = ALL_CLUSTER_OPERATIONS if asked.include_cluster_authorized_operations else None
    return MetadataResponse(
        version=version,
        brokers=brokers,
        cluster_id=image.cluster_id,
        controller_id=backend.node_id,  # any broker passes on what is the controller's
        topics=topics,
        authorized_operations=operations,
    )


def _wanted(image: ClusterImage, asked: Message, version: int) -> Iterable[Topic | tuple[ErrorCode, str | None, bytes]]:
    """Each topic, or the error, the name and the id with which it was asked for in vain."""
    if asked.topics is None or (version == 0 and not asked.topics):
        yield from (image.topics[name] for name in sorted(image.topics))
        return
    for wanted in asked.topics:
        if wanted.name is None:
            topic_id = wanted.topic_id.bytes if wanted.topic_id else bytes(16)
            yield image.topic_by_id(TopicId(topic_id)) or (ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
        else:
            yield image.topics.get(wanted.name) or (_why_not(wanted.name), wanted.name, bytes(16))


def _why_not(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except OttlaError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _described(
    image: ClusterImage, topic: Topic | tuple[ErrorCode, str | None, bytes], asked: Message, version: int
) -> Message:
    if not isinstance(topic, Topic):
        code, name, topic_id = topic
        return _Topic(version=version, error_code=int(code), name=name, topic_id=uuid.UUID(bytes=topic_id))
    return _Topic(
        version=version,
        error_code=0,
        name=topic.name,
        topic_id=uuid.UUID(bytes=topic.id),
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[
            _Partition(version=version, **describe_partition(image, i.partition, p))
            for i, p in image.partitions_of(topic)
        ],
        authorized_operations=ALL_TOPIC_OPERATIONS if asked.include_topic_authorized_operations else None,
    )


def describe_partition(image: ClusterImage, number: int, partition: Partition) -> dict[str, Any]:
    """The fields that every description of a partition has."""
    has_leader = partition.leader != NO_LEADER and partition.leader in image.brokers
    return {
        "error_code": int(ErrorCode.NONE if has_leader else ErrorCode.LEADER_NOT_AVAILABLE),
        "partition_index": number,
        "leader_id": partition.leader if has_leader else NO_LEADER,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": list(partition.isr),
        "offline_replicas": [r for r in partition.replicas if r not in image.brokers or image.brokers[r].fenced],
    }
