"""Every resource that a response names is covered by a right of its API or method, or is left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from authorization_cells import DESCRIBE_GROUP, DESCRIBE_TOPIC
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from guarded import GROUP, TOPIC, GuardedBroker

from ottla_broker.kafka.api import Api
from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.private_methods import PRIVATE_METHODS, PrivateMethod
from ottla_core.errors import ErrorCode
from ottla_core.kafka.private_messages import OttlaCallRequest
from ottla_core.kafka.schema import Struct, schema_of
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2, mirror_pb2
from ottla_proto.contracts import Group, Method, Mirror

_ENTITIES = {
    "topicName": ResourceType.TOPIC,
    "groupId": ResourceType.GROUP,
    "transactionalId": ResourceType.TRANSACTIONAL_ID,
}
_TOPICS = {"topic", "copy"}
"""The fields of private responses that contain the name of a topic."""
_HIDDEN = "secret"


def entities(of: Struct) -> Iterator[str]:
    for field in of.fields:
        yield field.entity
        if field.struct is not None:
            yield from entities(field.struct)


def paths_of_topics(of: Descriptor | None, before: str = "") -> Iterator[str]:
    for field in of.fields if of else ():
        if field.name in _TOPICS:
            yield before + field.name
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            yield from paths_of_topics(field.message_type, f"{before}{field.name}.")


def is_checked(called: PrivateMethod) -> bool:
    """Whether the request needs a right on the topics that it names, or on the cluster."""
    return bool({ResourceType.CLUSTER, ResourceType.TOPIC} & {need.resource_type for need in called.needs})


@pytest.mark.parametrize("api", APIS.values(), ids=lambda api: api.name)
def test_an_api_has_a_right_for_each_kind_of_resource_that_its_response_names(api: Api) -> None:
    named = {_ENTITIES[entity] for entity in entities(schema_of(f"{api.name}Response").struct) if entity in _ENTITIES}
    checked = {need.resource_type for need in api.needs}
    assert named <= checked or ResourceType.CLUSTER in checked


@pytest.mark.parametrize("called", PRIVATE_METHODS.values(), ids=lambda called: called.method.name)
def test_a_private_response_shows_no_topic_unasked(called: PrivateMethod) -> None:
    named = set(paths_of_topics(called.method.response.DESCRIPTOR))
    shown = {f"{called.shows.elements}.{called.shows.topic}"} if called.shows else set()
    assert shown <= named
    assert named == shown or is_checked(called)


LAGS = group_pb2.LagResponse(partitions=[group_pb2.PartitionLag(topic=name) for name in (TOPIC, _HIDDEN, TOPIC)])
POSITIONS = mirror_pb2.GroupPositionsResponse(
    positions=[mirror_pb2.GroupPosition(copy=name) for name in (_HIDDEN, TOPIC)]
)
TRANSLATED = mirror_pb2.TranslateOffsetsResponse(
    offsets=[mirror_pb2.OffsetTranslated(copy=name, offset=7) for name in (_HIDDEN, TOPIC)]
)


async def answer(broker: GuardedBroker, method: Method[Any, Any], request: Message) -> Any:
    called = PRIVATE_METHODS[method.path]
    body = request.SerializeToString()
    response = await broker.ask(OttlaCallRequest(method=called.method.path, timeout_ms=1000, body=body), 0)
    return called.method.response.FromString(response.body)


@pytest.mark.story("private-response-names-hidden-topics")
async def test_a_response_leaves_out_topics_that_the_client_may_not_describe() -> None:
    broker = GuardedBroker(DESCRIBE_GROUP.acl(), DESCRIBE_TOPIC.acl())
    broker.answers = {Group.LAG.name: LAGS, Mirror.GROUP_POSITIONS.name: POSITIONS}
    lags = await answer(broker, Group.LAG, group_pb2.LagRequest(group=GROUP))
    assert [each.topic for each in lags.partitions] == [TOPIC, TOPIC]
    positions = await answer(broker, Mirror.GROUP_POSITIONS, mirror_pb2.GroupPositionsRequest(group=GROUP))
    assert [each.copy for each in positions.positions] == [TOPIC]


async def test_a_hidden_element_in_the_order_of_the_request_becomes_an_error() -> None:
    broker = GuardedBroker(DESCRIBE_TOPIC.acl())
    broker.answers = {Mirror.TRANSLATE_OFFSETS.name: TRANSLATED}
    offsets = [mirror_pb2.SourceOffset(topic=TOPIC)] * 2
    translated = await answer(broker, Mirror.TRANSLATE_OFFSETS, mirror_pb2.TranslateOffsetsRequest(offsets=offsets))
    hidden, shown = translated.offsets
    assert (hidden.copy, hidden.offset, hidden.error.code) == ("", 0, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert (shown.copy, shown.offset, shown.error.code) == (TOPIC, 7, 0)
