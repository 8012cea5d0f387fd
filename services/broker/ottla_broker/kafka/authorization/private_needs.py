"""The rights that a client needs for a private method, for what its request names and what its response names.

A response leaves out the topics that the client may not describe, as Kafka's responses do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from ottla_broker.kafka.authorization.access import Access
from ottla_core.cluster.image import ClusterImage
from ottla_core.event_loop.slices import sliced
from ottla_core.model import TopicId
from ottla_core.rpc.status import error_message
from ottla_core.security.resource import CLUSTER_NAME, ResourceType
from ottla_proto.operation import Operation

_TOPIC: Final = ResourceType.TOPIC
_GROUP: Final = ResourceType.GROUP
_CLUSTER: Final = ResourceType.CLUSTER
_TRANSACTIONAL_ID: Final = ResourceType.TRANSACTIONAL_ID

_Names = Callable[[ClusterImage, Any], Iterable[str]]


class NamedNeed(NamedTuple):
    """A need of a private method, and the names of the resources in its request."""

    operation: Operation
    resource_type: ResourceType = _CLUSTER
    names: _Names = lambda image, request: (CLUSTER_NAME,)

    def check(self, access: Access, image: ClusterImage, request: Any) -> None:
        """Raise Kafka's authorization error unless the client may do the operation on all these resources."""
        for name in self.names(image, request):
            access.check(self.operation, self.resource_type, name)


class ShownTopics(NamedTuple):
    """The topics that a response names: each element of a list has one.

    `is_ordered` says that the elements are in the order of the request's elements. Then a hidden element is replaced by
    an error. Otherwise it is left out.
    """

    elements: str
    topic: str
    is_ordered: bool = False

    async def hide(self, access: Access, response: Any) -> None:
        """Remove what the client may not describe from the response."""
        elements = getattr(response, self.elements)
        denied = await access.denied(Operation.DESCRIBE, _TOPIC, (getattr(each, self.topic) for each in elements))
        if not denied:
            return
        everything = list(elements)
        del elements[:]

        def keep(element: Any) -> None:
            refusal = denied.get(getattr(element, self.topic))
            if refusal is None:
                elements.append(element)
            elif self.is_ordered:
                elements.add(error=error_message(refusal))

        await sliced(keep, everything)


def the_group(image: ClusterImage, request: Any) -> Iterable[str]:
    return (request.group,)


def the_transactional_id(image: ClusterImage, request: Any) -> Iterable[str]:
    return (request.transactional_id,)


def topics_of_offsets(image: ClusterImage, request: Any) -> Iterable[str]:
    return dict.fromkeys(offset.topic for offset in request.offsets)


def topic_of_id(image: ClusterImage, request: Any) -> Iterable[str]:
    """Return the name of the topic, or none for an unknown id, which is no secret in Kafka."""
    topic = image.topic_by_id(TopicId(request.topic_id))
    return () if topic is None else (topic.name,)


DESCRIBE: Final = NamedNeed(Operation.DESCRIBE)
ALTER: Final = NamedNeed(Operation.ALTER)
DESCRIBE_GROUP: Final = NamedNeed(Operation.DESCRIBE, _GROUP, the_group)
READ_GROUP: Final = NamedNeed(Operation.READ, _GROUP, the_group)
WRITE_ID: Final = NamedNeed(Operation.WRITE, _TRANSACTIONAL_ID, the_transactional_id)
PREPARE_ID: Final = NamedNeed(Operation.TWO_PHASE_COMMIT, _TRANSACTIONAL_ID, the_transactional_id)


def of_topic(operation: Operation) -> NamedNeed:
    """Return the need of a request that names a topic by its id."""
    return NamedNeed(operation, _TOPIC, topic_of_id)


def of_offsets(operation: Operation) -> NamedNeed:
    """Return the need of a request that contains offsets of topics."""
    return NamedNeed(operation, _TOPIC, topics_of_offsets)
