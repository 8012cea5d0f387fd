"""DeleteTopics (key 20), versions 1 to 6: by name or by id.

v3 knows TOPIC_DELETION_DISABLED (KIP-322); v5 adds the error message (KIP-599); v6 ids, so that no other topic of that
name is deleted (KIP-516).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import unknown_topic, unknown_topic_id
from ottla_broker.kafka.forwarding.controller_calls import (
    error_fields,
    fields_by_name,
    forward,
    limit_s,
    named_twice,
    reported_fields,
    until_known,
)
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import DeleteTopicsRequest, DeleteTopicsResponse
from ottla_core.model import TopicId
from ottla_core.security.resource import ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Result: TypeAlias = DeleteTopicsResponse.DeletableTopicResult
_IDS_FROM: Final = 6
_NO_ID: Final = bytes(16)


async def handle(backend: Backend, request: DeleteTopicsRequest, context: KafkaContext) -> DeleteTopicsResponse:
    version = context.version
    names, ids = request.topic_names, []
    if version >= _IDS_FROM:
        names = [topic.name for topic in request.topics if topic.name is not None]
        by_id = (topic.topic_id for topic in request.topics if topic.name is None)
        ids = await sliced(lambda topic_id: uuid.UUID(bytes=topic_id), by_id)
    twice: dict[str | uuid.UUID, OttlaError] = {}
    twice |= await named_twice(names)
    twice |= await named_twice(ids)
    outcomes = [{**_named(each), **fields} for each, fields in (await fields_by_name(twice)).items()]
    refused = await _refused(backend, context.access, names, ids)
    outcomes += [{"name": None, **entry} for name, entry in refused.items() if name not in twice]
    rejected = twice.keys() | refused.keys()
    names = [name for name in names if name not in rejected]
    ids = [topic_id for topic_id in ids if topic_id not in rejected]
    try:
        _check_named(request.topics)
        if names or ids:
            outcomes += await _deleted(backend, names, ids, request, context)
    except OttlaError as error:
        fields = error_fields(error)
        outcomes += await sliced(lambda name: {**_named(name), **fields}, names)
        outcomes += await sliced(lambda topic_id: {**_named(topic_id), **fields}, ids)
    results = await sliced(lambda entry: _Result(**entry), outcomes)
    return DeleteTopicsResponse(responses=results)


async def _deleted(
    backend: Backend,
    names: Sequence[str],
    ids: Sequence[uuid.UUID],
    request: DeleteTopicsRequest,
    context: KafkaContext,
) -> list[dict[str, Any]]:
    """Return the fields of each topic's response."""
    forwarded = pb.DeleteTopicsRequest(names=names, topic_ids=await sliced(lambda topic_id: topic_id.bytes, ids))
    response = await forward(
        backend,
        Controller.DELETE_TOPICS,
        forwarded,
        principal=context.caller.principal,
        limit_s=limit_s(request.timeout_ms),
    )
    reported = await sliced(partial(_reported, version=context.version), response.topics)
    gone = {TopicId(fields["topic_id"]) for fields in reported if not fields["error_code"]}
    await until_known(backend, lambda image: gone.isdisjoint(image.topic_names))
    return reported


async def _refused(
    backend: Backend, access: Access, names: Sequence[str], ids: Sequence[uuid.UUID]
) -> dict[str | uuid.UUID, dict[str, Any]]:
    """Return the fields of the responses for topics that the client may not delete.

    Only a client that may describe a topic hears whether it exists, or what its name is. Ids are no secret.
    """
    if not access.is_limited or access.allows(Operation.DELETE):
        return {}
    image = backend.image
    of_ids = dict(await sliced(lambda each: (each, image.topic_by_id(TopicId(each.bytes))), ids))
    named = [*names, *(topic.name for topic in of_ids.values() if topic is not None)]
    denied = await access.denied(Operation.DELETE, ResourceType.TOPIC, named)
    hidden = await access.hidden(Operation.DESCRIBE, ResourceType.TOPIC, denied)
    refused: dict[str | uuid.UUID, dict[str, Any]] = {}
    time_slice = Slice()
    for name in names:
        await time_slice.rest()
        if name in denied:
            is_shown = name not in hidden and name not in image.topics
            refused[name] = {"name": name, **error_fields(unknown_topic(name) if is_shown else denied[name])}
    for topic_id, topic in of_ids.items():
        await time_slice.rest()
        if topic is None:
            refused[topic_id] = {"topic_id": topic_id.bytes, **error_fields(unknown_topic_id())}
        elif topic.name in denied:
            shown = None if topic.name in hidden else topic.name
            refused[topic_id] = {"topic_id": topic_id.bytes, "name": shown, **error_fields(denied[topic.name])}
    return refused


def _named(topic: str | uuid.UUID) -> dict[str, Any]:
    """Return the fields of a response that say which topic it is about."""
    return {"name": topic} if isinstance(topic, str) else {"name": None, "topic_id": topic.bytes}


def _check_named(topics: Iterable[DeleteTopicsRequest.DeleteTopicState]) -> None:
    if any((topic.name is None) == (topic.topic_id == _NO_ID) for topic in topics):
        raise OttlaError(
            ErrorCode.INVALID_REQUEST,
            "a topic to delete needs either a name or an id",
            hint="send exactly one of the two",
        )


def _reported(topic: pb.TopicDeleted, version: int) -> dict[str, Any]:
    no_name = None if version >= _IDS_FROM else ""
    return {
        "name": topic.name or no_name,
        "topic_id": topic.topic_id or _NO_ID,
        **reported_fields(topic.error),
    }


API: Final = control(
    DeleteTopicsRequest,
    (1, 6),
    handle,
    needs=needs(
        (Operation.DELETE, ResourceType.CLUSTER),
        (Operation.DELETE, ResourceType.TOPIC),
        (Operation.DESCRIBE, ResourceType.TOPIC),
    ),
    errors=error_codes.Errors(
        "schema (v3, v5, v6); DeleteTopicsResponse; KIP-516, KIP-599",
        error_codes.CONTROLLER | error_codes.TOPIC,
        {
            ErrorCode.TOPIC_DELETION_DISABLED: error_codes.Since(3, ErrorCode.INVALID_REQUEST),
            **error_codes.throttled(5),
            **error_codes.by_id(6),
        },
        error_codes.LOST_CONTROLLER,
    ),
    forwards=Controller.DELETE_TOPICS,
)
