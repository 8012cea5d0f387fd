"""The rights that a client needs for a request. Each API lists its own. Its handler asks for exactly these rights, and
so do Kafka's brokers."""

from __future__ import annotations

from itertools import starmap
from typing import Final, NamedTuple

from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.errors import unknown_topic_id
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.model import TopicId
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_CLUSTER: Final = ResourceType.CLUSTER
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID


class Need(NamedTuple):
    """An operation on each resource of this type that the request names or the response describes."""

    operation: Operation
    resource_type: ResourceType


def needs(*needed: tuple[Operation, ResourceType]) -> frozenset[Need]:
    return frozenset(starmap(Need, needed))


NOTHING: Final = needs()
READ_GROUP: Final = needs((Operation.READ, _GROUP))
DESCRIBE_CLUSTER: Final = needs((Operation.DESCRIBE, _CLUSTER))
ALTER_CLUSTER: Final = needs((Operation.ALTER, _CLUSTER))
ALTER_CONFIGS: Final = needs(
    (Operation.ALTER_CONFIGS, _TOPIC), (Operation.ALTER_CONFIGS, _GROUP), (Operation.ALTER_CONFIGS, _CLUSTER)
)


def topic_refused(access: Access, image: ClusterImage, operation: Operation, topic: str | TopicId) -> OttlaError | None:
    """Return why the client may not do the operation on a topic that its request names by name or by id.

    An id that is unknown is no secret in Kafka. But it may belong to a topic that this broker does not know yet, so
    nothing is done with it.
    """
    if not isinstance(topic, str):
        known = image.topic_by_id(topic)
        if known is None:
            return unknown_topic_id()
        topic = known.name
    return access.refused(operation, _TOPIC, topic)
