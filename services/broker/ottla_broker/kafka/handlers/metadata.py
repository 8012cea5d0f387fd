"""Metadata (key 3), versions 0 to 13: brokers, topics and leaders, from the image at one revision.

v1 adds the controller, racks, and null for all topics; v4 whether topics may be created; v7 leader epochs (KIP-320);
v8 authorized operations (KIP-430), of the cluster until v10; v10 topic ids, which v12 may be asked by (KIP-516); v13 an
error code (KIP-1102).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from ottla_broker.kafka import auto_topics
from ottla_broker.kafka.addresses import KafkaEndpoint
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.frames import Caller, KafkaContext, Parts
from ottla_broker.kafka.metadata_wire import Terms, write_head, write_missing, write_tail
from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.model import TopicId, check_topic_name

T = TypeVar("T")

_LARGE: Final = 500
"""From this many named topics on, looking them up takes some milliseconds."""


async def handle(backend: Backend, request: MetadataRequest, context: KafkaContext) -> Parts:
    version, caller = context.version, context.caller
    topics: Parts
    if request.topics is None or (version == 0 and not request.topics):
        since = backend.image.topics_revision
        async with backend.topics.turn:
            image = backend.image
            count, encoded = await backend.topics.all(image, _terms(backend, image, request, context), since)
        topics = [encoded]
    else:
        image, named = await _named(backend, request, version)
        topics = [*await backend.topics.encode(image, named, _terms(backend, image, request, context))]
        count = len(topics)
    head = write_head(version, image, _endpoints(backend, image, caller), backend.node_id, count)
    return [head, *topics, write_tail(version, operations=bool(request.include_cluster_authorized_operations))]


def _endpoints(backend: Backend, image: ClusterImage, caller: Caller) -> dict[int, KafkaEndpoint]:
    """Return the endpoints of the brokers that are reported to a client, by broker id."""
    live = ((broker.id, backend.addresses.advertised(broker, caller)) for broker in image.live_brokers().values())
    return {broker_id: endpoint for broker_id, endpoint in live if endpoint is not None}


def _terms(backend: Backend, image: ClusterImage, request: MetadataRequest, context: KafkaContext) -> Terms:
    brokers = image.brokers.values()
    unreachable = (b.id for b in brokers if backend.addresses.advertised(b, context.caller) is None)
    operations = bool(request.include_topic_authorized_operations)
    return Terms(context.version, operations, frozenset(image.live_brokers()), frozenset(unreachable))


async def _named(backend: Backend, request: MetadataRequest, version: int) -> tuple[ClusterImage, list[Topic | bytes]]:
    """Return the topics by name or id, created if that is allowed. Many topics are looked up beside the loop."""
    work = backend.threads.work if len(request.topics or ()) > _LARGE else _at_once
    unknown = await work(auto_topics.to_create, backend.image, request, version)
    rejected = await auto_topics.create(backend, unknown) if unknown else {}
    image = backend.image
    return image, await work(_found, image, request, version, rejected)


async def _at_once(work: Callable[..., T], *arguments: Any) -> T:
    return work(*arguments)


def _found(
    image: ClusterImage, request: MetadataRequest, version: int, rejected: Mapping[str, ErrorCode]
) -> list[Topic | bytes]:
    """Return each topic once, as in Kafka, or the bytes that say that it is missing.

    `rejected` has topics that could not be created, with their errors.
    """
    found: list[Topic | bytes] = []
    for name, topic_id in dict.fromkeys((topic.name, topic.topic_id) for topic in request.topics or ()):
        if name is None:
            topic = image.topic_by_id(TopicId(topic_id))
            found.append(topic or write_missing(version, ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        else:
            topic = image.topics.get(name)
            found.append(topic or write_missing(version, rejected.get(name) or _missing_code(name), name, bytes(16)))
    return found


def _missing_code(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except OttlaError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
