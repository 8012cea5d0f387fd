"""Kafka's numbers for what configs belong to, for where their values come from, and for their types; and
who may see or alter them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from ottla_broker.kafka.authorization.access import Access
from ottla_core.configs.config_key import ConfigType
from ottla_core.configs.config_values import Source
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

TOPIC: Final = 2
BROKER: Final = 4
BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
GROUP: Final = 32

SOURCES: Final = {
    Source.TOPIC: 1,
    Source.BROKER: 2,
    Source.CLUSTER: 3,
    Source.PROCESS: 4,
    Source.DEFAULT: 5,
    Source.CLIENT_METRICS: 7,
    Source.GROUP: 8,
}
"""The numbers of DescribeConfigsResponse.ConfigSource."""

LOGGER_SOURCE: Final = 6

TYPES: Final = {
    ConfigType.BOOLEAN: 1,
    ConfigType.STRING: 2,
    ConfigType.INT: 3,
    ConfigType.SHORT: 4,
    ConfigType.LONG: 5,
    ConfigType.DOUBLE: 6,
    ConfigType.LIST: 7,
    ConfigType.CLASS: 8,
    ConfigType.PASSWORD: 9,
}
"""The numbers of DescribeConfigsResponse.ConfigType."""

_OF_CLUSTER: Final = (BROKER, BROKER_LOGGER, CLIENT_METRICS)
_RESOURCE_TYPES: Final = {TOPIC: ResourceType.TOPIC, GROUP: ResourceType.GROUP}


class NamedResource(Protocol):
    """A resource of a request that describes or alters configs."""

    @property
    def resource_type(self) -> int: ...
    @property
    def resource_name(self) -> str: ...


async def denied(
    access: Access, operation: Operation, resources: Iterable[NamedResource]
) -> dict[tuple[int, str], OttlaError]:
    """Return an error for each resource on whose configs the client may not do the operation, by its type and name."""
    named = dict.fromkeys(await sliced(type_and_name, resources))
    errors = await sliced(lambda each: _refused(access, operation, *each), named)
    return {each: error for each, error in zip(named, errors, strict=True) if error is not None}


def type_and_name(resource: NamedResource) -> tuple[int, str]:
    return resource.resource_type, resource.resource_name


def _refused(access: Access, operation: Operation, kind: int, name: str) -> OttlaError | None:
    """Return the error for one resource. A type that does not exist is rejected later."""
    if kind in _OF_CLUSTER:
        return access.refused(operation)
    resource_type = _RESOURCE_TYPES.get(kind)
    return None if resource_type is None else access.refused(operation, resource_type, name)
