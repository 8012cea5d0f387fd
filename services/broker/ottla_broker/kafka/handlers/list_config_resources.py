"""ListConfigResources (key 74), versions 0 to 1: what has configs, or may have some, by kind (KIP-1142).

v0 lists clients' metrics only; v1 the kinds that the request names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.config_numbers import BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP, TOPIC
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import ListConfigResourcesRequest, ListConfigResourcesResponse
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_Resource: TypeAlias = ListConfigResourcesResponse.ConfigResource


async def handle(
    backend: Backend, request: ListConfigResourcesRequest, context: KafkaContext
) -> ListConfigResourcesResponse:
    if (refused := context.access.refused(Operation.DESCRIBE_CONFIGS)) is not None:
        return ListConfigResourcesResponse(error_code=refused.code, config_resources=[])
    version, image = context.version, backend.image
    kinds = dict.fromkeys([CLIENT_METRICS] if version == 0 else request.resource_types or _NAMES)
    if kinds.keys() - _NAMES.keys():
        return ListConfigResourcesResponse(error_code=int(ErrorCode.UNSUPPORTED_VERSION), config_resources=[])
    named = ((kind, name) for kind in kinds for name in _NAMES[kind](image))
    resources = await sliced(lambda entry: _Resource(resource_type=entry[0], resource_name=entry[1]), named)
    return ListConfigResourcesResponse(error_code=0, config_resources=resources)


def _brokers(image: ClusterImage) -> Iterable[str]:
    return map(str, sorted(image.live_brokers()))


def _with_configs(scope: str) -> Callable[[ClusterImage], Iterable[str]]:
    return lambda image: sorted(name for of, name in image.configs if of == scope)


_NAMES: Final[Mapping[int, Callable[[ClusterImage], Iterable[str]]]] = {
    TOPIC: lambda image: sorted(image.topics),
    BROKER: _brokers,
    BROKER_LOGGER: _brokers,
    CLIENT_METRICS: _with_configs("client-metrics"),
    GROUP: _with_configs("group"),
}
"""The names of all resources of a kind. Groups and subscriptions have only those with configs, because others have no
place."""


API: Final = control(
    ListConfigResourcesRequest,
    (0, 1),
    handle,
    needs=needs((Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)),
    errors=error_codes.Errors("ListConfigResourcesResponse; KIP-1142"),
)
