"""AlterConfigs (key 33), versions 0 to 2, and IncrementalAlterConfigs (key 44), versions 0 to 1 (KIP-133, KIP-339).

AlterConfigs replaces all that is set, IncrementalAlterConfigs changes what it names. Versions differ in encoding only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from ottla_broker.kafka import broker_loggers, config_numbers, error_codes
from ottla_broker.kafka.authorization.needs import ALTER_CONFIGS
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.config_numbers import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ottla_broker.kafka.forwarding.controller_calls import (
    UNTIMED_S,
    error_fields,
    forward,
    named_twice,
    reported_fields,
    translated,
)
from ottla_broker.kafka.handlers.describe_configs import describe, resource_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.configs.config_values import Source
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla_core.rpc.status import raise_error
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

ResultT = TypeVar("ResultT")

_Replaced: TypeAlias = AlterConfigsRequest.AlterConfigsResource
_Changed: TypeAlias = IncrementalAlterConfigsRequest.AlterConfigsResource
ResourceT = TypeVar("ResourceT", _Replaced, _Changed)
_Planned: TypeAlias = "list[pb.ConfigsAltered | OttlaError]"

_DELETE: Final = 1
_OWN_SOURCES: Final = {TOPIC: Source.TOPIC, GROUP: Source.GROUP, CLIENT_METRICS: Source.CLIENT_METRICS}


async def incremental(
    backend: Backend, request: IncrementalAlterConfigsRequest, context: KafkaContext
) -> IncrementalAlterConfigsResponse:
    async def alter(resources: Sequence[_Changed]) -> list[dict[str, Any]]:
        planned = await translated(backend, _changes, resources)
        return await _altered(backend, planned, context.caller.principal, validate_only=request.validate_only)

    change_loggers = partial(_change_loggers, backend, validate_only=request.validate_only)
    result_type = IncrementalAlterConfigsResponse.AlterConfigsResourceResponse
    denied = await config_numbers.denied(context.access, Operation.ALTER_CONFIGS, request.resources)
    results = await _results(denied, request.resources, alter, change_loggers, result_type)
    return IncrementalAlterConfigsResponse(responses=results)


async def replacing(backend: Backend, request: AlterConfigsRequest, context: KafkaContext) -> AlterConfigsResponse:
    async def alter(resources: Sequence[_Replaced]) -> list[dict[str, Any]]:
        planned = await _replacements(backend, resources, context.caller.principal)
        return await _altered(backend, planned, context.caller.principal, validate_only=request.validate_only)

    result_type = AlterConfigsResponse.AlterConfigsResourceResponse
    replace_loggers = partial(_replace_loggers, backend)
    asked = (r for r in request.resources if r.resource_type != BROKER_LOGGER)  # those are rejected for everyone
    denied = await config_numbers.denied(context.access, Operation.ALTER_CONFIGS, asked)
    results = await _results(denied, request.resources, alter, replace_loggers, result_type)
    return AlterConfigsResponse(responses=results)


async def _results(
    denied: dict[tuple[int, str], OttlaError],
    resources: Sequence[ResourceT],
    alter: Callable[[Sequence[ResourceT]], Awaitable[list[dict[str, Any]]]],
    alter_loggers: Callable[[ResourceT], None],
    result_type: Callable[..., ResultT],
) -> list[ResultT]:
    """Return the result of each resource. This broker's own loggers are altered here, and all other resources by the
    controller."""
    rejected = denied | await named_twice(map(config_numbers.type_and_name, resources))
    stored = [r for r in resources if r.resource_type != BROKER_LOGGER]
    if rejected:
        stored = [r for r in stored if config_numbers.type_and_name(r) not in rejected]
    try:
        results = iter(await alter(stored) if stored else ())
    except OttlaError as error:
        results = iter([error_fields(error)] * len(stored))

    def respond(resource: ResourceT) -> ResultT:
        kind, name = resource.resource_type, resource.resource_name
        if error := rejected.get((kind, name)):
            result = error_fields(error)
        elif kind == BROKER_LOGGER:
            result = _outcome(alter_loggers, resource)
        else:
            result = next(results)
        return result_type(resource_type=kind, resource_name=name, **result)

    return await sliced(respond, resources)


async def _altered(backend: Backend, planned: _Planned, principal: str, *, validate_only: bool) -> list[dict[str, Any]]:
    """Carry out what is planned for each resource. Return the fields of its result."""
    forwarded = pb.AlterConfigsRequest(validate_only=validate_only)
    await sliced(forwarded.resources.append, (entry for entry in planned if not isinstance(entry, OttlaError)))
    response = await forward(backend, Controller.ALTER_CONFIGS, forwarded, principal=principal, limit_s=UNTIMED_S)
    results = iter(response.resources)
    return await sliced(
        lambda entry: error_fields(entry) if isinstance(entry, OttlaError) else _fields_of(next(results)), planned
    )


def _fields_of(result: pb.ConfigsAlterResult) -> dict[str, Any]:
    return {**reported_fields(result.error), "warnings": list(result.warnings)}


def _outcome(alter_loggers: Callable[[ResourceT], None], resource: ResourceT) -> dict[str, Any]:
    try:
        alter_loggers(resource)
    except OttlaError as error:
        return error_fields(error)
    return {"error_code": 0, "error_message": None}


def _change_loggers(backend: Backend, resource: _Changed, *, validate_only: bool) -> None:
    """Alter the loggers of this broker's own process, without the controller."""
    _check_place(backend, resource.resource_name)
    broker_loggers.alter([(c.name, c.config_operation, c.value) for c in resource.configs], dry=validate_only)


def _replace_loggers(backend: Backend, resource: _Replaced) -> None:
    _check_place(backend, resource.resource_name)
    text = "AlterConfigs is deprecated and does not support the resource type BROKER_LOGGER"
    raise OttlaError(ErrorCode.INVALID_REQUEST, text, hint="use IncrementalAlterConfigs")


def _check_place(backend: Backend, name: str) -> None:
    if (error := broker_loggers.misplaced(name, backend.node_id)) is not None:
        raise error


def _changes(resource: _Changed) -> pb.ConfigsAltered | OttlaError:
    for config in resource.configs:
        if config.value is None and config.config_operation != _DELETE:
            return _no_value(config.name)
    ops = [
        # Kafka's numbers are those of the contract, and the controller rejects those that it does not know.
        pb.ConfigOp(name=c.name, op=c.config_operation, value=c.value or "")  # type: ignore[arg-type]  # an enum's int
        for c in resource.configs
    ]
    return pb.ConfigsAltered(resource=resource_of(resource), ops=ops)


async def _replacements(backend: Backend, resources: Sequence[_Replaced], principal: str) -> _Planned:
    described, _ = await describe(backend, resources, principal)
    return await translated(backend, lambda entry: replacement(*entry), zip(resources, described, strict=True))


def replacement(resource: _Replaced, described: pb.ConfigsDescribed) -> pb.ConfigsAltered | OttlaError:
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


def _own_source(resource: _Replaced) -> Source:
    """Return where a value comes from that is set for this very resource."""
    if resource.resource_type != BROKER:
        return _OWN_SOURCES[resource.resource_type]
    return Source.BROKER if resource.resource_name else Source.CLUSTER


def _no_value(name: str) -> OttlaError:
    return OttlaError(ErrorCode.INVALID_REQUEST, f"{name[:80]} has no value", hint="set a value, or delete the config")


REPLACING: Final = control(
    AlterConfigsRequest,
    (0, 2),
    replacing,
    needs=ALTER_CONFIGS,
    errors=error_codes.Errors(
        "AlterConfigsResponse; ConfigurationControlManager", error_codes.CONFIG, instead=error_codes.LOST_CONTROLLER
    ),
    forwards=Controller.ALTER_CONFIGS,
)


INCREMENTAL: Final = control(
    IncrementalAlterConfigsRequest,
    (0, 1),
    incremental,
    needs=ALTER_CONFIGS,
    errors=error_codes.Errors(
        "IncrementalAlterConfigsResponse; ConfigurationControlManager",
        error_codes.CONFIG,
        instead=error_codes.LOST_CONTROLLER,
    ),
    forwards=Controller.ALTER_CONFIGS,
)
