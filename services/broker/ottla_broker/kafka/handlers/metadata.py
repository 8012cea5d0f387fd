"""Metadata (key 3), versions 0 to 13: brokers, topics and leaders, from the image at one revision.

v1 adds the controller, racks, and null for all topics; v4 whether topics may be created; v7 leader epochs (KIP-320);
v8 authorized operations (KIP-430), of the cluster until v10; v10 topic ids, which v12 may be asked by (KIP-516); v13 an
error code (KIP-1102).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from ottla_broker.kafka.authorization.access import EVERYTHING
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding import auto_topics
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire import metadata as metadata_wire
from ottla_broker.kafka.wire.frames import Caller, KafkaContext, Parts
from ottla_broker.kafka.wire.metadata import (
    Terms,
    cluster_operations,
    topic_operations,
    write_head,
    write_missing,
    write_tail,
)
from ottla_core.cluster.image import ClusterImage, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.model import TopicId, check_topic_name
from ottla_core.security.resource import ResourceType
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

T = TypeVar("T")

_LARGE: Final = 500
"""From this many named topics on, looking them up takes some milliseconds."""


async def handle(backend: Backend, request: MetadataRequest, context: KafkaContext) -> Parts:
    version, access = context.version, context.access
    topics: Parts
    if request.topics is None or (version == 0 and not request.topics):
        if access.is_limited:
            return await _listed(backend, request, context)
        since = backend.image.topics_revision
        async with backend.topics.turn:
            image = backend.image
            count, encoded = await backend.topics.all(image, _terms(backend, image, request, context), since)
        topics = [encoded]
    else:
        image, named = await _named(backend, request, context)
        topics = [*await _encoded(backend, image, named, request, context)]
        count = len(topics)
    return _whole(backend, image, request, context, count, topics)


async def _listed(backend: Backend, request: MetadataRequest, context: KafkaContext) -> Parts:
    """Respond with all the topics that the client may describe."""
    image = backend.image
    hidden = await context.access.hidden(Operation.DESCRIBE, ResourceType.TOPIC, image.topics)
    shown = [topic for topic in image.topics.values() if topic.name not in hidden]
    topics: Parts = [*await _encoded(backend, image, shown, request, context)]
    return _whole(backend, image, request, context, len(shown), topics)


async def _encoded(
    backend: Backend,
    image: ClusterImage,
    topics: Sequence[Topic | bytes],
    request: MetadataRequest,
    context: KafkaContext,
) -> list[bytes]:
    """Return each topic's bytes, with the client's own operations on it if they are requested."""
    access, terms = context.access, _terms(backend, image, request, context)
    if not access.is_limited or not request.include_topic_authorized_operations:
        return await backend.topics.encode(image, topics, terms)
    encoded: list[bytes] = []
    slice_ = Slice()
    for topic in topics:
        await slice_.rest()
        operations = topic_operations(access, topic.name, requested=True) if isinstance(topic, Topic) else 0
        encoded += await backend.topics.encode(image, [topic], terms._replace(operations=operations))
    return encoded


def _whole(
    backend: Backend,
    image: ClusterImage,
    request: MetadataRequest,
    context: KafkaContext,
    count: int,
    topics: Parts,
) -> Parts:
    head = write_head(context.version, image, _endpoints(backend, image, context.caller), backend.node_id, count)
    requested = bool(request.include_cluster_authorized_operations)
    operations = cluster_operations(context.access, requested=requested)
    return [head, *topics, write_tail(context.version, operations=operations)]


def _endpoints(backend: Backend, image: ClusterImage, caller: Caller) -> dict[int, HostPort]:
    """Return the endpoints of the brokers that are reported to a client, by broker id."""
    live = ((broker.id, backend.addresses.advertised(broker, caller)) for broker in image.live_brokers().values())
    return {broker_id: endpoint for broker_id, endpoint in live if endpoint is not None}


def _terms(backend: Backend, image: ClusterImage, request: MetadataRequest, context: KafkaContext) -> Terms:
    brokers = image.brokers.values()
    unreachable = (b.id for b in brokers if backend.addresses.advertised(b, context.caller) is None)
    operations = topic_operations(EVERYTHING, "", requested=bool(request.include_topic_authorized_operations))
    return Terms(context.version, operations, frozenset(image.live_brokers()), frozenset(unreachable))


async def _named(
    backend: Backend, request: MetadataRequest, context: KafkaContext
) -> tuple[ClusterImage, list[Topic | bytes]]:
    """Return the topics by name or id, created if that is allowed. Many topics are looked up beside the loop."""
    version, access, image = context.version, context.access, backend.image
    hidden = await access.hidden(Operation.DESCRIBE, ResourceType.TOPIC, _names(image, request))
    work = backend.threads.work if len(request.topics or ()) > _LARGE else _at_once
    unknown = [n for n in await work(auto_topics.to_create, image, request, version) if n not in hidden]
    rejected: dict[str, ErrorCode] = {}
    if unknown:
        denied = (
            {}
            if access.allows(Operation.CREATE)
            else await access.denied(Operation.CREATE, ResourceType.TOPIC, unknown)
        )
        rejected = await auto_topics.create(
            backend, [name for name in unknown if name not in denied], context.caller.principal
        )
        rejected |= dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        image = backend.image
        hidden = await access.hidden(Operation.DESCRIBE, ResourceType.TOPIC, _names(image, request))
    return image, await work(_found, image, request, version, rejected, hidden)


def _names(image: ClusterImage, request: MetadataRequest) -> Iterator[str]:
    """Yield the names of the requested topics. An id that is unknown has none."""
    for requested in request.topics or ():
        topic = image.topic_by_id(TopicId(requested.topic_id)) if requested.name is None else None
        name = requested.name if topic is None else topic.name
        if name is not None:
            yield name


async def _at_once(work: Callable[..., T], *arguments: Any) -> T:
    return work(*arguments)


def _found(
    image: ClusterImage,
    request: MetadataRequest,
    version: int,
    rejected: Mapping[str, ErrorCode],
    hidden: Collection[str],
) -> list[Topic | bytes]:
    """Return each topic once, as in Kafka, or the bytes that say that it is missing.

    `rejected` has topics that could not be created, with their errors, and `hidden` those that the client may not
    describe, whether they exist or not. They come last, as in Kafka.
    """
    found: list[Topic | bytes] = []
    denied: list[Topic | bytes] = []
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    for name, topic_id in dict.fromkeys((topic.name, topic.topic_id) for topic in request.topics or ()):
        if name is None:
            topic = image.topic_by_id(TopicId(topic_id))
            if topic is not None and topic.name in hidden:
                denied.append(write_missing(version, refused, None, topic_id))
                continue
            found.append(topic or write_missing(version, ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id))
        elif name in hidden:
            denied.append(write_missing(version, refused, name, bytes(16)))
        else:
            topic = image.topics.get(name)
            found.append(topic or write_missing(version, rejected.get(name) or _missing_code(name), name, bytes(16)))
    return found + denied


def _missing_code(name: str) -> ErrorCode:
    try:
        check_topic_name(name)
    except OttlaError:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


API: Final = control(
    MetadataRequest,
    (0, 13),
    handle,
    needs=needs(
        (Operation.DESCRIBE, ResourceType.TOPIC),
        (Operation.CREATE, ResourceType.CLUSTER),  # or on the topic, for topics that the request creates
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.DESCRIBE, ResourceType.CLUSTER),  # for the cluster's authorized operations
    ),
    errors=metadata_wire.ERRORS,
    forwards=Controller.CREATE_TOPICS,  # for topics that it creates
)
