"""ListOffsets (key 2), versions 1 to 11: offsets by time, and the ends of a log (KIP-79).

v2 adds the isolation level (KIP-98); v4 leader epochs (KIP-320); v5 knows OFFSET_NOT_AVAILABLE (KIP-207); v10 adds a
timeout (KIP-1075). The offset of the largest timestamp has -3 in place of a time (KIP-734).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend, leading_by_name
from ottla_broker.kafka.forwarding.controller_calls import error_fields, named_twice
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire import fetch as fetch_wire
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.replication.leading import Leading
from ottla_broker.storage.reading import FoundOffset
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once
from ottla_core.kafka.messages import ListOffsetsRequest, ListOffsetsResponse
from ottla_core.model import EARLIEST_LOCAL_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP
from ottla_core.security.resource import ResourceType
from ottla_proto.operation import Operation

_Topic: TypeAlias = ListOffsetsResponse.ListOffsetsTopicResponse
_Partition: TypeAlias = ListOffsetsResponse.ListOffsetsPartitionResponse

_AT_ONCE: Final = 2
"""How many are looked up at once. There are as many threads for it: a request that fills the queue keeps all others
waiting."""
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_ISOLATION_FROM: Final = 2
_EPOCH_FROM: Final = 4


async def handle(backend: Backend, request: ListOffsetsRequest, context: KafkaContext) -> ListOffsetsResponse:
    """Respond to a request. A partition that is named twice is rejected, as in Kafka. Few are looked up at the same
    time."""
    version = context.version
    denied = await context.access.denied(Operation.DESCRIBE, ResourceType.TOPIC, (t.name for t in request.topics))
    requested = {
        (topic.name, partition.partition_index): partition
        for topic in sorted(request.topics, key=lambda topic: topic.name in denied)  # as in Kafka, denied ones are last
        for partition in topic.partitions
    }
    twice = await named_twice(
        (topic.name, entry.partition_index) for topic in request.topics for entry in topic.partitions
    )

    read_committed = version >= _ISOLATION_FROM and request.isolation_level == fetch_wire.READ_COMMITTED

    async def find(key: tuple[str, int]) -> _Partition:
        rejected = denied.get(key[0]) or twice.get(key)
        return await _find(backend, key[0], requested[key], version, rejected, read_committed=read_committed)

    topics: dict[str, list[_Partition]] = defaultdict(list)
    for (name, _), found in zip(requested, await few_at_once(find, list(requested), at_once=_AT_ONCE), strict=True):
        topics[name].append(found)
    return ListOffsetsResponse(topics=[_Topic(name=name, partitions=found) for name, found in topics.items()])


async def _find(
    backend: Backend,
    topic: str,
    requested: ListOffsetsRequest.ListOffsetsPartition,
    version: int,
    rejected: OttlaError | None,
    *,
    read_committed: bool,
) -> _Partition:
    number = requested.partition_index
    try:
        if rejected is not None:
            raise rejected
        leading = leading_by_name(backend, topic, number, requested.current_leader_epoch)
        found = await _offset_for(leading, requested.timestamp, read_committed=read_committed)
    except OttlaError as error:
        return _Partition(partition_index=number, **error_fields(error))
    if found is None:
        return _Partition(partition_index=number)
    epoch = leading.epoch if version >= _EPOCH_FROM else -1
    return _Partition(partition_index=number, timestamp=found.timestamp_ms, offset=found.offset, leader_epoch=epoch)


async def _offset_for(leading: Leading, timestamp_ms: int, *, read_committed: bool) -> FoundOffset | None:
    if timestamp_ms == EARLIEST_LOCAL_TIMESTAMP:  # nothing is tiered, so everything is local
        timestamp_ms = EARLIEST_TIMESTAMP
    if timestamp_ms in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp_ms < MAX_TIMESTAMP:
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"the special timestamp {timestamp_ms} is not supported")
    return await leading.offset_for_time(timestamp_ms, read_committed=read_committed)


API: Final = control(
    ListOffsetsRequest,
    (1, 11),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "schema (v5); KafkaApis, handleListOffsetRequest; KIP-207, KIP-320",
        error_codes.LEADER
        | {ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT},
        {**error_codes.epochs(4), ErrorCode.OFFSET_NOT_AVAILABLE: error_codes.Since(5, ErrorCode.LEADER_NOT_AVAILABLE)},
        error_codes.BY_NAME,
    ),
)
