"""AlterConfigs (key 33), versions 0 to 2, and IncrementalAlterConfigs (key 44), versions 0 to 1 (KIP-133, KIP-339).

AlterConfigs replaces all that is set, IncrementalAlterConfigs changes what it names. Versions differ in encoding only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from kafka.protocol.admin import AlterConfigsResponse, IncrementalAlterConfigsResponse

from ottla_broker.kafka import broker_loggers
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.config_numbers import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ottla_broker.kafka.forwarding import UNTIMED_S, error_fields, forward, named_twice, reported_fields, translated
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.handlers.describe_configs import describe, resource_of
from ottla_core.configs.config_values import Source
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.rpc.status import raise_error
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_DELETE: Final = 1
_OWN_SOURCES: Final = {TOPIC: Source.TOPIC, GROUP: Source.GROUP, CLIENT_METRICS: Source.CLIENT_METRICS}


async def incremental(backend: Backend, request: Message, context: KafkaContext) -> Message:
    return await _respond(backend, request, context.version, IncrementalAlterConfigsResponse, replaces=False)


async def replacing(backend: Backend, request: Message, context: KafkaContext) -> Message:
    return await _respond(backend, request, context.version, AlterConfigsResponse, replaces=True)


async def _respond(backend: Backend, request: Message, version: int, response_type: Any, *, replaces: bool) -> Message:
    twice = named_twice((r.resource_type, r.resource_name) for r in request.resources)
    once = [r for r in request.resources if (r.resource_type, r.resource_name) not in twice]
    stored = [r for r in once if r.resource_type != BROKER_LOGGER]
    try:
        results = iter(await _altered(backend, request, stored, replaces=replaces) if stored else ())
    except OttlaError as error:
        results = iter([error_fields(error)] * len(stored))
    response = response_type.AlterConfigsResourceResponse

    def respond(resource: Message) -> Message:
        kind, name = resource.resource_type, resource.resource_name
        if error := twice.get((kind, name)):
            result = error_fields(error)
        elif kind == BROKER_LOGGER:
            result = _loggers_altered(backend, request, resource, replaces=replaces)
        else:
            result = next(results)
        return response(version=version, resource_type=kind, resource_name=name, **result)

    responses = await sliced(respond, request.resources)
    return response_type(version=version, responses=responses)


async def _altered(
    backend: Backend, request: Message, resources: Sequence[Message], *, replaces: bool
) -> list[dict[str, Any]]:
    """Carry out what is requested for each resource; the fields of its result."""
    planned = await (_replacements(backend, resources) if replaces else translated(backend, _changes, resources))
    altered = [entry for entry in planned if not isinstance(entry, OttlaError)]
    forwarded = pb.AlterConfigsRequest(resources=altered, validate_only=request.validate_only)
    response = await forward(backend, Controller.ALTER_CONFIGS, forwarded, limit_s=UNTIMED_S)
    results = iter(response.resources)
    return [
        error_fields(item) if isinstance(item, OttlaError) else reported_fields(next(results).error) for item in planned
    ]


def _loggers_altered(backend: Backend, request: Message, resource: Message, *, replaces: bool) -> dict[str, Any]:
    """This broker's own process is altered, without the controller."""
    error = broker_loggers.misplaced(resource.resource_name, backend.node_id)
    if error is None and replaces:
        text = "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
        error = OttlaError(ErrorCode.INVALID_REQUEST, text, hint="use IncrementalAlterConfigs")
    if error is not None:
        return error_fields(error)
    try:
        changes = [(c.name, c.config_operation, c.value) for c in resource.configs]
        broker_loggers.alter(changes, dry=request.validate_only)
    except OttlaError as failure:
        return error_fields(failure)
    return {"error_code": 0, "error_message": None}


def _changes(resource: Message) -> pb.ConfigsAltered | OttlaError:
    for config in resource.configs:
        if config.value is None and config.config_operation != _DELETE:
            return _no_value(config.name)
    ops = [pb.ConfigOp(name=c.name, op=c.config_operation, value=c.value or "") for c in resource.configs]
    return pb.ConfigsAltered(resource=resource_of(resource), ops=ops)


async def _replacements(backend: Backend, resources: Sequence[Message]) -> list[pb.ConfigsAltered | OttlaError]:
    described, _ = await describe(backend, resources)
    return await translated(backend, lambda entry: replacement(*entry), zip(resources, described, strict=True))


def replacement(resource: Message, described: pb.ConfigsDescribed) -> pb.ConfigsAltered | OttlaError:
    """Return the operations that set the request's configs and delete all others that are set for this resource."""
    try:
        raise_error(described.error)
    except OttlaError as error:
        return error
    for config in resource.configs:
        if config.value is None:
            return _no_value(config.name)
    requested = {config.name for config in resource.configs}
    own = _own_source(resource)
    gone = [e.name for e in described.entries if Source(e.source) is own and e.name not in requested]
    ops = [
        *(pb.ConfigOp(name=name, op=pb.CONFIG_OP_DELETE) for name in gone),
        *(pb.ConfigOp(name=c.name, op=pb.CONFIG_OP_SET, value=c.value) for c in resource.configs),
    ]
    return pb.ConfigsAltered(resource=resource_of(resource), ops=ops)


def _own_source(resource: Message) -> Source:
    """Where a value comes from that is set for this very resource."""
    if resource.resource_type != BROKER:
        return _OWN_SOURCES[resource.resource_type]
    return Source.BROKER if resource.resource_name else Source.CLUSTER


def _no_value(name: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_REQUEST, f"{name[:80]} has no value", hint="set a value, or delete the config")
