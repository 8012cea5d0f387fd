"""CreateTopics (key 19), versions 2 to 7: each topic has its own result.

v4 lets counts be -1, the defaults (KIP-464); v5 responds with the topic's configs and counts (KIP-525); v7 with its
id (KIP-516).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.config_numbers import SOURCES
from ottla_broker.kafka.forwarding.controller_calls import (
    ambiguous,
    error_fields,
    fields_by_name,
    forward,
    limit_s,
    named_twice,
    reported_fields,
    translated,
    until_known,
)
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.cluster.image import ClusterImage
from ottla_core.configs.config_table import TOPIC_CONFIGS
from ottla_core.configs.config_values import resolve
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import CreateTopicsRequest, CreateTopicsResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Topic: TypeAlias = CreateTopicsResponse.CreatableTopicResult
_Config: TypeAlias = CreateTopicsResponse.CreatableTopicConfigs

_CONFIGS_FROM: Final = 5


async def handle(backend: Backend, request: CreateTopicsRequest, context: KafkaContext) -> CreateTopicsResponse:
    access, names = context.access, dict.fromkeys(t.name for t in request.topics)
    denied = {} if access.allows(Operation.CREATE) else await access.denied(Operation.CREATE, ResourceType.TOPIC, names)
    results = await fields_by_name(denied | await named_twice(topic.name for topic in request.topics))
    requested = [topic for topic in request.topics if topic.name not in results]
    try:
        if requested:
            hidden = await access.denied(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, (t.name for t in requested))
            results |= await _created(backend, requested, request, context, hidden)
    except OttlaError as error:
        results |= dict.fromkeys((topic.name for topic in requested), error_fields(error))
    named = sorted(names, key=denied.__contains__)  # denied ones come last, as in Kafka
    topics = await sliced(lambda name: _Topic(name=name, **results[name]), named)
    return CreateTopicsResponse(topics=topics)


async def _created(
    backend: Backend,
    topics: Sequence[CreateTopicsRequest.CreatableTopic],
    request: CreateTopicsRequest,
    context: KafkaContext,
    hidden: Mapping[str, OttlaError],
) -> dict[str, dict[str, Any]]:
    """Return the fields of each topic's response. `hidden` has the topics whose configs the client may not see."""
    results: dict[str, dict[str, Any]] = {}
    forwarded, slice_ = pb.CreateTopicsRequest(validate_only=request.validate_only), Slice()
    for topic, new in zip(topics, await translated(backend, _new_topic, topics), strict=True):
        await slice_.rest()
        if isinstance(new, OttlaError):
            results[topic.name] = error_fields(new)
        else:
            forwarded.topics.append(new)
    response = await forward(
        backend,
        Controller.CREATE_TOPICS,
        forwarded,
        principal=context.caller.principal,
        limit_s=limit_s(request.timeout_ms),
    )
    for requested, made in zip(forwarded.topics, response.topics, strict=True):
        await slice_.rest()
        results[made.name] = {**reported_fields(made.error), "warnings": list(made.warnings)}
        if made.error.code:
            continue
        results[made.name]["topic_id"] = bytes(16) if request.validate_only else made.topic_id
        if made.name in hidden:
            results[made.name]["topic_config_error_code"] = hidden[made.name].code
        elif context.version >= _CONFIGS_FROM:
            results[made.name] |= {
                "num_partitions": made.partitions,
                "replication_factor": made.replication_factor,
                "configs": configs_of(backend.image, requested.configs),
            }
    if not request.validate_only:
        existing = [name for name, result in results.items() if not result["error_code"]]
        await until_known(backend, lambda image: all(name in image.topics for name in existing))
    return results


def _new_topic(topic: CreateTopicsRequest.CreatableTopic) -> pb.NewTopic | OttlaError:
    """Return the topic for the controller to create, or the reason why it can't be created."""
    for error in ambiguous(Counter(config.name for config in topic.configs)).values():
        return error
    unset = [config.name for config in topic.configs if config.value is None]
    if unset:
        return OttlaError(
            ErrorCode.INVALID_CONFIG, f"{unset[0][:80]} has no value", hint="leave the config out, or set a value"
        )
    return pb.NewTopic(
        name=topic.name,
        partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        configs={config.name: config.value or "" for config in topic.configs},
        assignments=[
            pb.ReplicaAssignment(partition=a.partition_index, replicas=a.broker_ids) for a in topic.assignments
        ],
    )


def configs_of(image: ClusterImage, configs: Mapping[str, str]) -> list[_Config]:
    """Return the effective configs of a topic that was created with these configs, which are legal."""
    canonical = {name: TOPIC_CONFIGS[name].parse(text) for name, text in configs.items()}
    cluster = image.broker_configs()
    return [
        _Config(
            name=entry.key.name,
            value=entry.text,
            read_only=False,
            config_source=SOURCES[entry.source],
            is_sensitive=False,
        )
        for entry in resolve(canonical, cluster, {}).entries.values()
    ]


API: Final = control(
    CreateTopicsRequest,
    (2, 7),
    handle,
    needs=needs(
        (Operation.CREATE, ResourceType.CLUSTER),  # or on the topic
        (Operation.CREATE, ResourceType.TOPIC),
        (Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC),  # for the configs in the response
    ),
    errors=error_codes.Errors(
        "schema (v6); CreateTopicsResponse; ReplicationControlManager; KIP-599",
        error_codes.CONTROLLER
        | {
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.TOPIC_ALREADY_EXISTS,
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.POLICY_VIOLATION,
        },
        error_codes.throttled(6),
        error_codes.LOST_CONTROLLER,
    ),
    forwards=Controller.CREATE_TOPICS,
)
