"""admin.configs: the configs of topics and brokers, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from ottla.admin.controller_channel import ControllerChannel
from ottla.admin.topics import as_many, warn
from ottla.client.kafka.apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from ottla.client.kafka.exchange import Exchange, raise_failed
from ottla.client.units import Duration, config_text
from ottla.errors import ErrorCode, config_error
from ottla_core.kafka.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

_Change: TypeAlias = IncrementalAlterConfigsRequest.AlterableConfig
_Described: TypeAlias = DescribeConfigsResponse.DescribeConfigsResult

_TOPIC: Final = 2
_BROKER: Final = 4
"""Kafka's ConfigResource.Type."""
_SET: Final = 0
_DELETE: Final = 1
"""Kafka's AlterConfigOp.OpType."""
_SOURCES: Final = MappingProxyType(
    {
        1: "DYNAMIC_TOPIC_CONFIG",
        2: "DYNAMIC_BROKER_CONFIG",
        3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
        4: "STATIC_BROKER_CONFIG",
        5: "DEFAULT_CONFIG",
        6: "DYNAMIC_BROKER_LOGGER_CONFIG",
        7: "DYNAMIC_CLIENT_METRICS_CONFIG",
        8: "DYNAMIC_GROUP_CONFIG",
    }
)
"""Kafka's DescribeConfigsResponse.ConfigSource."""
_TYPES: Final = MappingProxyType(
    {1: "boolean", 2: "string", 3: "int", 4: "short", 5: "long", 6: "double", 7: "list", 8: "class", 9: "password"}
)
"""Kafka's DescribeConfigsResponse.ConfigType."""
_UNKNOWN: Final = "UNKNOWN"
_TOPICS_A_CALL: Final = 50
"""Topics described in one call: each has dozens of configs, all with their documentation."""


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A config and its effective value.

    `source` says where the value comes from, in Kafka's terms (DYNAMIC_TOPIC_CONFIG, DEFAULT_CONFIG …). `enforced` is
    False if the config is stored but no service implements it yet. `type` is boolean, string, int, long, double or
    list.
    """

    name: str
    value: str
    source: str
    type: str
    read_only: bool
    enforced: bool
    documentation: str


class Configs:
    """Configs of a topic (`topic=`), of one broker (`broker=` its id), or of all brokers (neither)."""

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    def get(
        self, *, topic: str | None = None, broker: int | None = None, timeout: Duration | None = None
    ) -> dict[str, ConfigEntry]:
        """Return every config by name, defaults included. Raises UnknownTopicError."""
        deadline = self._channel.deadline(timeout)
        described = self._channel.exchange(description([_resource(topic, broker)]), deadline, broker=broker).response[0]
        raise_failed(described)
        return _entries(described)

    def of_topics(self, *names: str, timeout: Duration | None = None) -> dict[str, dict[str, ConfigEntry]]:
        """Return every config of many topics, by topic and name. A topic that does not exist is left out."""
        deadline = self._channel.deadline(timeout)
        found = {}
        for first in range(0, len(names), _TOPICS_A_CALL):
            page = names[first : first + _TOPICS_A_CALL]
            asked = description([_resource(name, None) for name in page])
            for described in self._channel.exchange(asked, deadline).response:
                if described.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise_failed(described)
                    found[described.resource_name] = _entries(described)
        return found

    def set(
        self,
        config: Mapping[str, object],
        *,
        topic: str | None = None,
        broker: int | None = None,
        dry_run: bool = False,
        timeout: Duration | None = None,
    ) -> None:
        """Set these configs, all or none, and leave the others unchanged. A dry run only checks the configs.

        Durations and sizes may be text: {"retention.ms": "7d"}. Raises ConfigError for an unknown name (and suggests
        similar names) or an invalid value, and UnknownTopicError. A config that has no effect in the cluster's release
        is logged as a warning.
        """
        changes = [_Change(name=name, config_operation=_SET, value=config_text(name, v)) for name, v in config.items()]
        self._alter(changes, topic, broker, dry_run, timeout)

    def unset(
        self,
        *names: str,
        topic: str | None = None,
        broker: int | None = None,
        dry_run: bool = False,
        timeout: Duration | None = None,
    ) -> None:
        """Remove these configs, all or none, so that their defaults apply. Raises like `set`."""
        changes = [_Change(name=name, config_operation=_DELETE, value=None) for name in names]
        self._alter(changes, topic, broker, dry_run, timeout)

    def _alter(
        self,
        changes: Sequence[_Change],
        topic: str | None,
        broker: int | None,
        dry_run: bool,
        timeout: Duration | None,
    ) -> None:
        deadline, (kind, name) = self._channel.deadline(timeout), _resource(topic, broker)
        asked = alteration(kind, name, changes, dry_run=dry_run)
        result = self._channel.exchange(asked, deadline, broker=broker).response
        raise_failed(result)
        warn("configs" if topic is None else f"topic {topic}", result.warnings)


def description(resources: Sequence[tuple[int, str]]) -> Exchange[Sequence[_Described]]:
    """Return the exchange that asks for all configs of these resources."""
    resource = DescribeConfigsRequest.DescribeConfigsResource
    request = DescribeConfigsRequest(
        resources=[
            resource(resource_type=kind, resource_name=name, configuration_keys=None) for kind, name in resources
        ],
        include_documentation=True,
    )
    return Exchange(DESCRIBE_CONFIGS, lambda _: request, lambda response: as_many(response.results, len(resources)))


def alteration(
    kind: int, name: str, changes: Sequence[_Change], *, dry_run: bool
) -> Exchange[IncrementalAlterConfigsResponse.AlterConfigsResourceResponse]:
    """Return the exchange that changes a resource's configs or, in a dry run, checks whether it could."""
    altered = IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=kind, resource_name=name, configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=dry_run)
    return Exchange(INCREMENTAL_ALTER_CONFIGS, lambda _: request, lambda response: response.responses[0])


def _entries(described: _Described) -> dict[str, ConfigEntry]:
    entries = (
        ConfigEntry(
            e.name,
            e.value or "",
            _SOURCES.get(e.config_source, _UNKNOWN),
            _TYPES.get(e.config_type, _UNKNOWN.lower()),
            e.read_only,
            # Brokers of ottla say whether a config is enforced, in a private field. Kafka enforces what it describes.
            e.enforced,
            e.documentation or "",
        )
        for e in described.configs
    )
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _resource(topic: str | None, broker: int | None) -> tuple[int, str]:
    """Return the type and the name of a resource."""
    if topic is not None and broker is not None:
        raise config_error(
            "topic= and broker= can't be combined", hint="pass one of them, or neither for the cluster's configs"
        )
    if topic is not None:
        return _TOPIC, topic
    return _BROKER, "" if broker is None else str(broker)
