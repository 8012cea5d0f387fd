"""ListOffsets: offsets by time, and the ends of a log."""

from __future__ import annotations

import asyncio
from typing import Final

from kafka.protocol.consumer import ListOffsetsResponse

from ottla_broker.kafka.backend import Backend, replica_by_name
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.errors import code_by_name
from ottla_broker.kafka.frames import Request
from ottla_broker.replica import Replica
from ottla_broker.storage.reading import FoundOffset
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import EARLIEST_TIMESTAMP, MAX_TIMESTAMP

_Topic: Final = ListOffsetsResponse.ListOffsetsTopicResponse
_Partition: Final = _Topic.ListOffsetsPartitionResponse

_EARLIEST_LOCAL: Final = -4
_LATEST_TIERED: Final = -5
_EARLIEST_PENDING_UPLOAD: Final = -6
_NOT_AVAILABLE_FROM: Final = 5
"""Before it, clients knew LEADER_NOT_AVAILABLE for a leader that is new (KIP-207)."""


async def answer(backend: Backend, asked: Message, request: Request) -> Message:
    version = request.version
    topics = []
    for topic in asked.topics:
        found = await asyncio.gather(*(_find(backend, topic.name, wanted, version) for wanted in topic.partitions))
        topics.append(_Topic(version=version, name=topic.name, partitions=found))
    return ListOffsetsResponse(version=version, topics=topics)


async def _find(backend: Backend, topic: str, wanted: Message, version: int) -> Message:
    answered = {"version": version, "partition_index": wanted.partition_index, "error_code": 0}
    answered |= {"timestamp": -1, "offset": -1, "leader_epoch": -1}
    try:
        replica = replica_by_name(backend, topic, wanted.partition_index, wanted.current_leader_epoch)
        found = await _offset_for(replica, wanted.timestamp)
    except OttlaError as error:
        return _Partition(**answered | {"error_code": _code(error, version)})
    if found is not None:
        epoch = replica.leader_epoch
        answered |= {"timestamp": found.timestamp_ms, "offset": found.offset, "leader_epoch": epoch}
    return _Partition(**answered)


async def _offset_for(replica: Replica, timestamp_ms: int) -> FoundOffset | None:
    if timestamp_ms == _EARLIEST_LOCAL:  # nothing is tiered: all there is is local
        timestamp_ms = EARLIEST_TIMESTAMP
    if timestamp_ms in (_LATEST_TIERED, _EARLIEST_PENDING_UPLOAD):
        return None
    if timestamp_ms < MAX_TIMESTAMP:
        raise OttlaError(ErrorCode.UNSUPPORTED_VERSION, f"timestamp {timestamp_ms} stands for nothing")
    return await replica.offset_for_time(timestamp_ms)


def _code(error: OttlaError, version: int) -> int:
    if error.code == ErrorCode.OFFSET_NOT_AVAILABLE and version < _NOT_AVAILABLE_FROM:
        return int(ErrorCode.LEADER_NOT_AVAILABLE)
    return code_by_name(error)
