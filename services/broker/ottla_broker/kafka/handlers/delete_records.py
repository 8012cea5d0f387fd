"""DeleteRecords (key 21), versions 0 to 2: this broker's partitions give up what lies before an offset (KIP-107).

-1 is the high watermark. Versions differ in encoding only.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend, leading_by_name
from ottla_broker.kafka.forwarding.controller_calls import error_fields, limit_s
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.partition_requests.delete_records import delete_records
from ottla_broker.replication.produce import check_client_may_write
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once
from ottla_core.kafka.messages import DeleteRecordsRequest, DeleteRecordsResponse
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_Topic: TypeAlias = DeleteRecordsResponse.DeleteRecordsTopicResult
_Partition: TypeAlias = DeleteRecordsResponse.DeleteRecordsPartitionResult

_AT_ONCE: Final = 100
"""How many partitions are handled at once. Each may wait for its followers until the time is over."""


async def handle(backend: Backend, request: DeleteRecordsRequest, context: KafkaContext) -> DeleteRecordsResponse:
    deadline = asyncio.get_running_loop().time() + limit_s(request.timeout_ms)
    denied = await context.access.denied(Operation.DELETE, ResourceType.TOPIC, (t.name for t in request.topics))
    requested = {
        (topic.name, partition.partition_index): partition for topic in request.topics for partition in topic.partitions
    }

    async def delete(key: tuple[str, int]) -> _Partition:
        return await _delete(backend, key[0], requested[key], deadline, denied.get(key[0]))

    topics: dict[str, list[_Partition]] = defaultdict(list)
    for (name, _), result in zip(requested, await few_at_once(delete, list(requested), at_once=_AT_ONCE), strict=True):
        topics[name].append(result)
    return DeleteRecordsResponse(
        topics=[_Topic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


async def _delete(
    backend: Backend,
    topic: str,
    requested: DeleteRecordsRequest.DeleteRecordsPartition,
    deadline: float,
    denied: OttlaError | None,
) -> _Partition:
    number = requested.partition_index
    try:
        if denied is not None:
            raise denied
        check_client_may_write(topic)  # even if there is no such topic yet
        leading = leading_by_name(backend, topic, number, -1)
        low_watermark = await delete_records(leading, requested.offset, deadline)
    except OttlaError as error:
        return _Partition(partition_index=number, low_watermark=-1, **error_fields(error))
    return _Partition(partition_index=number, low_watermark=low_watermark)


API: Final = control(
    DeleteRecordsRequest,
    (0, 2),
    handle,
    needs=needs((Operation.DELETE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "DeleteRecordsResponse; Partition, deleteRecordsOnLeader",
        error_codes.LEADER
        | {
            ErrorCode.OFFSET_OUT_OF_RANGE,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.KAFKA_STORAGE_ERROR,
        },
        instead={**error_codes.BY_NAME, ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ),
)
