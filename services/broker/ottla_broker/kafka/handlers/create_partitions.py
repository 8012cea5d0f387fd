"""CreatePartitions (key 37), versions 0 to 3: a topic grows to a count, with assignments or without (KIP-195).

Versions differ in encoding only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import (
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
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import CreatePartitionsRequest, CreatePartitionsResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Result: TypeAlias = CreatePartitionsResponse.CreatePartitionsTopicResult


async def handle(backend: Backend, request: CreatePartitionsRequest, context: KafkaContext) -> CreatePartitionsResponse:
    denied = await context.access.denied(Operation.ALTER, ResourceType.TOPIC, (t.name for t in request.topics))
    results = await fields_by_name(denied | await named_twice(topic.name for topic in request.topics))
    requested = [topic for topic in request.topics if topic.name not in results]
    try:
        if requested:
            results |= await _grown(backend, requested, request, context.caller.principal)
    except OttlaError as error:
        results |= dict.fromkeys((topic.name for topic in requested), error_fields(error))
    responses = await sliced(lambda entry: _Result(name=entry[0], **entry[1]), results.items())
    return CreatePartitionsResponse(results=responses)


async def _grown(
    backend: Backend,
    topics: Sequence[CreatePartitionsRequest.CreatePartitionsTopic],
    request: CreatePartitionsRequest,
    principal: str,
) -> dict[str, dict[str, Any]]:
    """Return the error of each topic, or none."""
    forwarded = pb.CreatePartitionsRequest(validate_only=request.validate_only)
    await sliced(forwarded.topics.append, await translated(backend, _increase, topics))
    response = await forward(
        backend,
        Controller.CREATE_PARTITIONS,
        forwarded,
        principal=principal,
        limit_s=limit_s(request.timeout_ms),
    )
    results = dict(await sliced(lambda topic: (topic.name, reported_fields(topic.error)), response.topics))
    if not request.validate_only:
        counts = {topic.name: topic.count for topic in topics if not results[topic.name]["error_code"]}
        await until_known(backend, lambda image: all(_count(image, name) >= n for name, n in counts.items()))
    return results


def _increase(topic: CreatePartitionsRequest.CreatePartitionsTopic) -> pb.PartitionIncrease:
    assignments = [pb.ReplicaList(replicas=assignment.broker_ids) for assignment in topic.assignments or ()]
    return pb.PartitionIncrease(name=topic.name, total_count=topic.count, assignments=assignments)


def _count(image: ClusterImage, name: str) -> int:
    topic = image.topics.get(name)
    return 0 if topic is None else topic.partition_count


API: Final = control(
    CreatePartitionsRequest,
    (0, 3),
    handle,
    needs=needs((Operation.ALTER, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "schema (v3); CreatePartitionsResponse; ReplicationControlManager; KIP-599",
        error_codes.CONTROLLER
        | error_codes.TOPIC
        | {
            ErrorCode.INVALID_PARTITIONS,
            ErrorCode.INVALID_REPLICATION_FACTOR,
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            ErrorCode.POLICY_VIOLATION,
        },
        error_codes.throttled(3),
        {**error_codes.LOST_CONTROLLER, **error_codes.BY_NAME},
    ),
    forwards=Controller.CREATE_PARTITIONS,
)
