"""DescribeConfigs (key 32), versions 1 to 4: the controller's configs with Kafka's numbers (KIP-133, KIP-226).

A broker adds what only the settings of its process say (module process_configs).
Synonyms are the values that would hold next. v3 adds types and documentation (KIP-569).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ottla_broker.kafka import broker_loggers, config_numbers, error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.config_numbers import BROKER, BROKER_LOGGER, GROUP, LOGGER_SOURCE, SOURCES, TOPIC, TYPES
from ottla_broker.kafka.forwarding.controller_calls import (
    UNTIMED_S,
    error_fields,
    forward,
    named_twice,
    reported_fields,
)
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.configs.config_key import ConfigType
from ottla_core.configs.config_table import SYNONYMS
from ottla_core.configs.config_values import Source, find_broker_key
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import DescribeConfigsRequest, DescribeConfigsResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Result: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult
_Entry: TypeAlias = DescribeConfigsResponse.DescribeConfigsResourceResult
_Resource: TypeAlias = DescribeConfigsRequest.DescribeConfigsResource
_Synonym: TypeAlias = DescribeConfigsResponse.DescribeConfigsSynonym


class Value(NamedTuple):
    """A value that is set, or would be in force if nothing were set."""

    name: str
    text: str | None
    source: Source


async def handle(backend: Backend, request: DescribeConfigsRequest, context: KafkaContext) -> DescribeConfigsResponse:
    # Each has a large response.
    twice = await named_twice(map(config_numbers.type_and_name, request.resources))
    denied = await config_numbers.denied(context.access, Operation.DESCRIBE_CONFIGS, request.resources)
    resources = request.resources
    if denied:  # as in Kafka, they are last
        resources = sorted(resources, key=lambda resource: config_numbers.type_and_name(resource) in denied)
    local = await sliced(lambda r: _local_result(r, denied | twice, backend.node_id), resources)
    requested = [resource for resource, result in zip(resources, local, strict=True) if result is None]
    try:
        described, cluster = await describe(backend, requested, context.caller.principal) if requested else ((), {})
        respond = partial(
            _reported,
            own=backend.process_configs,
            cluster=cluster,
            request=request,
            is_ottlas=context.caller.is_ottlas,
        )
        described_results = iter(await sliced(lambda entry: respond(*entry), zip(requested, described, strict=True)))
    except OttlaError as error:
        fields = error_fields(error)
        described_results = iter(await sliced(lambda r: _result(r, **fields, configs=[]), requested))
    results = [next(described_results) if result is None else result for result in local]
    return DescribeConfigsResponse(results=results)


def _local_result(resource: _Resource, rejected: Mapping[tuple[int, str], OttlaError], node_id: int) -> _Result | None:
    """Describe rejected resources and this broker's loggers. Return None for the rest, which the controller
    describes."""
    error = rejected.get((resource.resource_type, resource.resource_name)) or _misplaced(resource, node_id)
    if error is not None:
        return _result(resource, **error_fields(error), configs=[])
    return _loggers(resource) if resource.resource_type == BROKER_LOGGER else None


def _keys(resource: _Resource) -> frozenset[str] | None:
    """Return the configs that are requested, or None for all."""
    return None if resource.configuration_keys is None else frozenset(resource.configuration_keys)


def _loggers(resource: _Resource) -> _Result:
    keys = _keys(resource)
    configs = [
        _Entry(
            name=name,
            value=level,
            read_only=False,
            config_source=LOGGER_SOURCE,
            is_sensitive=False,
            synonyms=[],
            config_type=0,
            documentation=None,
        )
        for name, level in broker_loggers.levels().items()
        if keys is None or name in keys
    ]
    return _result(resource, error_code=0, error_message=None, configs=configs)


def _misplaced(resource: _Resource, node_id: int) -> OttlaError | None:
    """Return why this broker does not describe a broker. Kafka's brokers describe only themselves, and clients ask the
    one they mean.

    The cluster-wide default has an empty name, and every broker describes it.
    """
    name = resource.resource_name
    if resource.resource_type == BROKER_LOGGER:
        return broker_loggers.misplaced(name, node_id)
    if resource.resource_type != BROKER or name in ("", str(node_id)):
        return None
    text = f"Unexpected broker id, expected {node_id} or empty string, but received {name[:80]}"
    return OttlaError(ErrorCode.INVALID_REQUEST, text, hint="send the request to that broker")


def _reported(
    resource: _Resource,
    described: pb.ConfigsDescribed,
    *,
    own: Mapping[str, pb.ConfigEntry],
    cluster: Mapping[str, str],
    request: DescribeConfigsRequest,
    is_ottlas: bool,
) -> _Result:
    keys = _keys(resource)
    known = {entry.name: entry for entry in described.entries}
    if resource.resource_type == BROKER and resource.resource_name and not described.error.code:
        known |= own  # A broker describes no broker but itself (`_misplaced`).
    entries = [e for e in known.values() if _is_requested(resource, e, keys, is_ottlas)]
    configs = [_entry(resource, e, cluster, request, is_ottlas) for e in entries]
    return _result(resource, **reported_fields(described.error), configs=configs)


async def describe(
    backend: Backend, resources: Sequence[config_numbers.NamedResource], principal: str
) -> tuple[Sequence[pb.ConfigsDescribed], Mapping[str, str]]:
    """Return the configs of each resource, and those that are set for the cluster, as of one moment."""
    request = pb.DescribeConfigsRequest()
    await sliced(lambda resource: request.resources.append(resource_of(resource)), resources)
    request.resources.add(type=pb.CONFIG_RESOURCE_BROKER, name="")
    response = await forward(backend, Controller.DESCRIBE_CONFIGS, request, principal=principal, limit_s=UNTIMED_S)
    *described, of_cluster = response.resources
    return described, {e.name: e.value for e in of_cluster.entries if Source(e.source) is Source.CLUSTER}


def resource_of(resource: config_numbers.NamedResource) -> pb.ConfigResource:
    """Return the resource for the controller. Its numbers are Kafka's, and it rejects those that it does not know."""
    kind = resource.resource_type
    return pb.ConfigResource(type=kind, name=resource.resource_name)  # type: ignore[arg-type]  # an enum's int


def synonyms(resource_type: int, entry: pb.ConfigEntry, cluster: Mapping[str, str]) -> Iterator[Value]:
    """Yield the values that are set for the config, the deciding one first, and then Kafka's default.

    `cluster` has the values that are set as the cluster-wide default. For a topic's config, broker configs stand in.
    """
    source = Source(entry.source)
    if source not in (Source.CLUSTER, Source.DEFAULT):
        yield Value(entry.name, _text(entry), source)
    names = _stand_ins(resource_type, entry.name)
    for name in names:
        if name in cluster:
            yield Value(name, None if entry.sensitive else cluster[name], Source.CLUSTER)
    for name in names:
        key = find_broker_key(name)
        if key is not None and key.default is not None:
            yield Value(name, key.default, Source.DEFAULT)


def _stand_ins(resource_type: int, name: str) -> list[str]:
    """Return the broker configs that count if the resource sets nothing."""
    if resource_type == TOPIC:
        return [synonym.name for synonym in SYNONYMS.get(name, ())]
    return [f"group.{name}"] if resource_type == GROUP else [name] if resource_type == BROKER else []


def _is_requested(resource: _Resource, entry: pb.ConfigEntry, keys: frozenset[str] | None, is_ottlas: bool) -> bool:
    """Return whether to describe the config. For the cluster-wide default, Kafka describes only configs that are set.
    ottla's clients get all of them."""
    is_of_cluster = resource.resource_type == BROKER and not resource.resource_name
    if is_of_cluster and not is_ottlas and Source(entry.source) is not Source.CLUSTER:
        return False
    return keys is None or entry.name in keys


def _result(resource: _Resource, **fields: Any) -> _Result:
    return _Result(resource_type=resource.resource_type, resource_name=resource.resource_name, **fields)


def _entry(
    resource: _Resource,
    entry: pb.ConfigEntry,
    cluster: Mapping[str, str],
    request: DescribeConfigsRequest,
    is_ottlas: bool,
) -> _Entry:
    rest = synonyms(resource.resource_type, entry, cluster) if request.include_synonyms else ()
    return _Entry(
        name=entry.name,
        value=_text(entry),
        read_only=entry.read_only,
        config_source=SOURCES[Source(entry.source)],
        is_sensitive=entry.sensitive,
        synonyms=[_Synonym(name=o.name, value=o.text, source=SOURCES[o.source]) for o in rest],
        config_type=TYPES[ConfigType(entry.type)],
        documentation=_documentation(entry, is_ottlas) if request.include_documentation else None,
        enforced=entry.enforced,
    )


def _documentation(entry: pb.ConfigEntry, is_ottlas: bool) -> str:
    """Clients of ottla find `enforced` in the response. For others the documentation says it."""
    if entry.enforced or is_ottlas:
        return entry.documentation
    return f"{entry.documentation} It has no effect in this release."


def _text(entry: pb.ConfigEntry) -> str | None:
    """Return the value, or None for a config that has no default or is hidden. The contract has no null, and has an
    empty value for it."""
    if entry.value or entry.sensitive:
        return entry.value or None
    key = find_broker_key(entry.name)
    return None if key is not None and key.default is None else entry.value


API: Final = control(
    DescribeConfigsRequest,
    (1, 4),
    handle,
    needs=needs(
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, ResourceType.GROUP),
        (Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER),
    ),
    errors=error_codes.Errors(
        "DescribeConfigsResponse; ConfigHelper", error_codes.CONFIG, instead=error_codes.LOST_CONTROLLER
    ),
    forwards=Controller.DESCRIBE_CONFIGS,
)
