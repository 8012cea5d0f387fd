"""Controller.DescribeConfigs is Kafka's API of the same name, and AlterConfigs is IncrementalAlterConfigs.

Brokers of ottla add warnings, and whether a config is enforced, in private fields. Kafka enforces what it describes, so
all of its configs count as enforced.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS, Api
from ottla.client.kafka.translations.errors import error_of, error_of_all
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from ottla_proto import controller_pb2 as pb

_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG",
    8: "DYNAMIC_GROUP_CONFIG",
}
"""DescribeConfigsResponse.ConfigSource of Kafka."""
_TYPES: Final = {
    1: "boolean",
    2: "string",
    3: "int",
    4: "short",
    5: "long",
    6: "double",
    7: "list",
    8: "class",
    9: "password",
}
"""DescribeConfigsResponse.ConfigType of Kafka."""
_UNKNOWN: Final = "UNKNOWN"


class DescribeConfigsTranslation:
    """Translates a request for the configs of resources."""

    api: Final[Api] = DESCRIBE_CONFIGS

    def request(self, request: pb.DescribeConfigsRequest, terms: Terms) -> DescribeConfigsRequest:
        resource = DescribeConfigsRequest.DescribeConfigsResource
        return DescribeConfigsRequest(
            resources=[
                resource(resource_type=each.type, resource_name=each.name, configuration_keys=None)
                for each in request.resources
            ],
            include_documentation=True,
        )

    def response(self, response: DescribeConfigsResponse, terms: Terms) -> pb.DescribeConfigsResponse:
        described = pb.DescribeConfigsResponse()
        for result in response.results:
            described.resources.add(
                resource=_resource(result.resource_type, result.resource_name),
                error=error_of(result.error_code, result.error_message),
                entries=map(_entry, result.configs),
            )
        described.error.CopyFrom(error_of_all(resource.error for resource in described.resources))
        return described


class AlterConfigsTranslation:
    """Translates operations on configs."""

    api: Final[Api] = INCREMENTAL_ALTER_CONFIGS

    def request(self, request: pb.AlterConfigsRequest, terms: Terms) -> IncrementalAlterConfigsRequest:
        resource = IncrementalAlterConfigsRequest.AlterConfigsResource
        return IncrementalAlterConfigsRequest(
            resources=[
                resource(
                    resource_type=each.resource.type,
                    resource_name=each.resource.name,
                    configs=[_operation(op) for op in each.ops],
                )
                for each in request.resources
            ],
            validate_only=request.validate_only,
        )

    def response(self, response: IncrementalAlterConfigsResponse, terms: Terms) -> pb.AlterConfigsResponse:
        altered = pb.AlterConfigsResponse()
        for result in response.responses:
            resource = _resource(result.resource_type, result.resource_name)
            error = error_of(result.error_code, result.error_message)
            altered.resources.add(resource=resource, error=error, warnings=result.warnings)
        altered.error.CopyFrom(error_of_all(resource.error for resource in altered.resources))
        return altered


def _operation(op: pb.ConfigOp) -> IncrementalAlterConfigsRequest.AlterableConfig:
    value = None if op.op == pb.CONFIG_OP_DELETE else op.value
    # The contract's numbers are Kafka's.
    return IncrementalAlterConfigsRequest.AlterableConfig(name=op.name, config_operation=op.op, value=value)


def _resource(kind: int, name: str) -> pb.ConfigResource:
    return pb.ConfigResource(type=kind, name=name)  # type: ignore[arg-type]  # the contract's numbers are Kafka's


def _entry(config: DescribeConfigsResponse.DescribeConfigsResourceResult) -> pb.ConfigEntry:
    return pb.ConfigEntry(
        name=config.name,
        value=config.value or "",
        source=_SOURCES.get(config.config_source, _UNKNOWN),
        type=_TYPES.get(config.config_type, _UNKNOWN.lower()),
        read_only=config.read_only,
        enforced=config.enforced,
        documentation=config.documentation or "",
        sensitive=config.is_sensitive,
    )
