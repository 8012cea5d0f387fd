"""Topics that are created because a client has named them, if auto.create.topics.enable allows it.

Kafka (AutoTopicCreationManager) answers that there is no such topic, and creates it in the background, so clients warn
and ask again. Here the response waits a moment for the topic, which spares both.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import forward, until_known
from ottla_core.cluster.image import ClusterImage
from ottla_core.configs.config_values import resolve_broker
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.model import INTERNAL_TOPICS, check_topic_name
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_log = logging.getLogger(__name__)

_ALLOWED_FROM: Final = 4
"""Older versions of Metadata can't say whether the client allows it. It counts as allowed, as in Kafka."""
_AT_ONCE: Final = 100
"""How many topics are created for one request. The others are created when the client retries."""
_LIMIT_S: Final = 2.0
_DEFAULT: Final = -1  # the cluster's num.partitions and default.replication.factor


def to_create(image: ClusterImage, request: MetadataRequest, version: int) -> list[str]:
    """Return the topics that a Metadata request names, that do not exist, and that may be created for it."""
    if not request.topics or (version >= _ALLOWED_FROM and not request.allow_auto_topic_creation):
        return []
    unknown = [t.name for t in request.topics if t.name is not None and t.name not in image.topics]
    names = [name for name in dict.fromkeys(unknown) if _may_be_created(name)]
    return names[:_AT_ONCE] if names and _is_enabled(image) else []


async def create(backend: Backend, names: Sequence[str], principal: str) -> dict[str, ErrorCode]:
    """Have topics created for a client, with the cluster's defaults. Return the errors of those that can't be created
    even by a retry."""
    if not names:
        return {}
    topics = [pb.NewTopic(name=name, partitions=_DEFAULT, replication_factor=_DEFAULT) for name in names]
    request = pb.CreateTopicsRequest(topics=topics)
    try:
        response = await forward(backend, Controller.CREATE_TOPICS, request, principal=principal, limit_s=_LIMIT_S)
    except OttlaError as error:  # the client retries, and so does this broker
        _log.info("can't yet create the topics that a client requested (%d in all): %s", len(names), error)
        return {}
    known_soon = {t.name for t in response.topics if t.error.code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)}
    await until_known(backend, lambda image: all(name in image.topics for name in known_soon))
    rejected = [t for t in response.topics if t.name not in known_soon]
    for topic in rejected:
        _log.info("can't create the topic %s, which a client requested: %s", topic.name, topic.error.message)
    return {topic.name: ErrorCode(topic.error.code) for topic in rejected}


def _is_enabled(image: ClusterImage) -> bool:
    return resolve_broker(image.broker_configs(), {}, {}).boolean("auto.create.topics.enable")


def _may_be_created(name: str) -> bool:
    try:
        check_topic_name(name)
    except OttlaError:
        return False
    return name not in INTERNAL_TOPICS
