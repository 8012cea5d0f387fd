"""What each request of a client needs: one table for Kafka's APIs, and one for the private methods.

The handlers ask for just that, and it is what Kafka's own brokers ask for. A broker does not start if an API or a
private method has no entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import starmap
from typing import Any, Final, NamedTuple

from ottla_broker.kafka.access import Access
from ottla_broker.kafka.errors import unknown_topic_id
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId
from ottla_core.security.resource import CLUSTER_NAME, ResourceType
from ottla_proto.client_calls import Client
from ottla_proto.contracts import Controller, Group, Method, Mirror, Txn
from ottla_proto.operation import Operation

_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_CLUSTER: Final = ResourceType.CLUSTER
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID


class Need(NamedTuple):
    """An operation on each resource of this type that the request names, or whose description the response has."""

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


_Names = Callable[[ClusterImage, Any], Iterable[str]]


class NamedNeed(NamedTuple):
    """A need of a private method, and the names of the resources in its request."""

    operation: Operation
    resource_type: ResourceType = _CLUSTER
    names: _Names = lambda image, request: (CLUSTER_NAME,)

    def check(self, access: Access, image: ClusterImage, request: Any) -> None:
        """Raise Kafka's authorization error unless the client may do the operation on all of them."""
        for name in self.names(image, request):
            access.check(self.operation, self.resource_type, name)


def _the_group(image: ClusterImage, request: Any) -> Iterable[str]:
    return (request.group,)


def _the_transactional_id(image: ClusterImage, request: Any) -> Iterable[str]:
    return (request.transactional_id,)


def _topics_of_offsets(image: ClusterImage, request: Any) -> Iterable[str]:
    return dict.fromkeys(offset.topic for offset in request.offsets)


def _topic_of_id(image: ClusterImage, request: Any) -> Iterable[str]:
    """Return no name for an unknown id, which is no secret in Kafka."""
    topic = image.topic_by_id(TopicId(request.topic_id))
    return () if topic is None else (topic.name,)


_DESCRIBE: Final = NamedNeed(Operation.DESCRIBE)
_ALTER: Final = NamedNeed(Operation.ALTER)
_DESCRIBE_GROUP: Final = NamedNeed(Operation.DESCRIBE, _GROUP, _the_group)
_WRITE_ID: Final = NamedNeed(Operation.WRITE, _TRANSACTIONAL_ID, _the_transactional_id)

_PRIVATE: Final[tuple[tuple[Method[Any, Any], tuple[NamedNeed, ...]], ...]] = (
    (
        Client.IMPORT_RECORDS,
        # It can raise the log start offset, as DeleteRecords does.
        (
            NamedNeed(Operation.WRITE, _TOPIC, _topic_of_id),
            NamedNeed(Operation.DELETE, _TOPIC, _topic_of_id),
        ),
    ),
    (Client.REPLICA_EPOCHS, (NamedNeed(Operation.DESCRIBE, _TOPIC, _topic_of_id),)),
    (Controller.DECLARE_RESTORED, (_ALTER,)),
    (
        Group.COMMIT_OFFSETS,
        (NamedNeed(Operation.READ, _GROUP, _the_group), NamedNeed(Operation.READ, _TOPIC, _topics_of_offsets)),
    ),
    (Group.EXPLAIN_GROUP, (_DESCRIBE_GROUP,)),
    (Group.LAG, (_DESCRIBE_GROUP,)),
    (Group.SHARDS, (_DESCRIBE,)),
    (Group.WRITE_TXN_MARKERS, (_ALTER,)),
    (Txn.PREPARE, (_WRITE_ID, NamedNeed(Operation.TWO_PHASE_COMMIT, _TRANSACTIONAL_ID, _the_transactional_id))),
    (Txn.FORGET, (_WRITE_ID,)),
    (Txn.SHARDS, (_DESCRIBE,)),
    (Mirror.MIRROR_STATUS, (_DESCRIBE,)),
    (Mirror.TRANSLATE_OFFSETS, (NamedNeed(Operation.DESCRIBE, _TOPIC, _topics_of_offsets),)),
    (Mirror.GROUP_POSITIONS, (_DESCRIBE_GROUP,)),
    (Mirror.PAUSE_FLOW, (_ALTER,)),
    (Mirror.FAILOVER, (_ALTER,)),
    (Mirror.FAILBACK, (_ALTER,)),
)

PRIVATE_NEEDS: Final[Mapping[str, tuple[NamedNeed, ...]]] = {method.path: needs for method, needs in _PRIVATE}
"""What each private method needs, by its path."""


def check_complete(private_methods: Iterable[str]) -> None:
    """Raise INVALID_CONFIG if a private method has no entry, because nobody would check its requests."""
    missing = [path for path in private_methods if path not in PRIVATE_NEEDS]
    if missing:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"it is not known what requests of {', '.join(missing)} need to be allowed",
            hint="add an entry to the table of ottla_broker.kafka.authorization",
        )
