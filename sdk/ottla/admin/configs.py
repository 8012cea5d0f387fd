"""admin.configs: the configs of topics and brokers, under Kafka's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ottla.admin.controller_channel import ControllerChannel
from ottla.admin.topics import raise_in_band, warn
from ottla.client.units import Duration, config_text
from ottla.errors import ErrorCode, config_error
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

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
        request = pb.DescribeConfigsRequest(resources=[_resource(topic, broker)])
        outcome = self._channel.call_controller(Controller.DESCRIBE_CONFIGS, request, deadline, broker=broker)
        described = outcome.response.resources[0]
        raise_in_band(described.error)
        return _entries(described)

    def of_topics(self, *names: str, timeout: Duration | None = None) -> dict[str, dict[str, ConfigEntry]]:
        """Return every config of many topics, by topic and name. A topic that does not exist is left out."""
        deadline = self._channel.deadline(timeout)
        found = {}
        for first in range(0, len(names), _TOPICS_A_CALL):
            page = names[first : first + _TOPICS_A_CALL]
            request = pb.DescribeConfigsRequest(resources=[_resource(name, None) for name in page])
            response = self._channel.call_controller(Controller.DESCRIBE_CONFIGS, request, deadline).response
            for described in response.resources:
                if described.error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise_in_band(described.error)
                    found[described.resource.name] = _entries(described)
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
        ops = [pb.ConfigOp(name=name, op=pb.CONFIG_OP_SET, value=config_text(name, v)) for name, v in config.items()]
        self._alter(ops, topic, broker, dry_run, timeout)

    def unset(
        self,
        *names: str,
        topic: str | None = None,
        broker: int | None = None,
        dry_run: bool = False,
        timeout: Duration | None = None,
    ) -> None:
        """Remove these configs, all or none, so that their defaults apply. Raises like `set`."""
        ops = [pb.ConfigOp(name=name, op=pb.CONFIG_OP_DELETE) for name in names]
        self._alter(ops, topic, broker, dry_run, timeout)

    def _alter(
        self,
        ops: list[pb.ConfigOp],
        topic: str | None,
        broker: int | None,
        dry_run: bool,
        timeout: Duration | None,
    ) -> None:
        deadline, resource = self._channel.deadline(timeout), _resource(topic, broker)
        request = pb.AlterConfigsRequest(
            resources=[pb.ConfigsAltered(resource=resource, ops=ops)], validate_only=dry_run
        )
        outcome = self._channel.call_controller(Controller.ALTER_CONFIGS, request, deadline, broker=broker)
        result = outcome.response.resources[0]
        raise_in_band(result.error)
        warn("configs" if topic is None else f"topic {topic}", result.warnings)


def _entries(described: pb.ConfigsDescribed) -> dict[str, ConfigEntry]:
    entries = (
        ConfigEntry(e.name, e.value, e.source, e.type, e.read_only, e.enforced, e.documentation)
        for e in described.entries
    )
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


def _resource(topic: str | None, broker: int | None) -> pb.ConfigResource:
    if topic is not None and broker is not None:
        raise config_error(
            "topic= and broker= can't be combined", hint="pass one of them, or neither for the cluster's configs"
        )
    if topic is not None:
        return pb.ConfigResource(type=pb.CONFIG_RESOURCE_TOPIC, name=topic)
    return pb.ConfigResource(type=pb.CONFIG_RESOURCE_BROKER, name="" if broker is None else str(broker))
