"""Fetch on the wire, read and written by hand: batches go from the file to the socket as they are.

    request, 4 to 18:  replica int32 (to 14), max wait ms int32, min bytes int32, max bytes int32, isolation int8,
        session id int32, session epoch int32 (7), [topic name (to 12) or id (13), [partition int32, leader epoch
        int32 (9), offset int64, last fetched epoch int32 (12), log start int64 (5), max bytes int32]],
        [forgotten: topic name or id, [partition int32]] (7), rack (11), tags: replica state (15)
    answer:  throttle ms int32, error int16, session id int32 (7), [topic name or id, [partition int32, error int16,
        high watermark int64, last stable offset int64, log start int64 (5), [aborted transactions], preferred
        replica int32 (11), records, tags: current leader (12)]], tags: endpoints (16)

Numbers in brackets are the first versions that have the field. From 12 on everything is in its compact spelling.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.wire.fetch_request import (
    CONSUMER,
    FINAL_EPOCH,
    NO_SESSION,
    FetchRequest,
    FetchResponsePartition,
    RequestedPartition,
    TopicKey,
)
from ottla_broker.kafka.wire.frames import Parts
from ottla_broker.kafka.wire.leaders import CHANGED, NewLeaders
from ottla_broker.replication.fetch import FetchResult
from ottla_core.errors import ErrorCode
from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import TopicId

MOST_PARTITIONS: Final = 20_000
"""The most partitions of one request, which begins in one turn of the loop, and whose response is written in one."""
_LOG_START_FROM: Final = 5
_SESSION_FROM: Final = 7
_LEADER_EPOCH_FROM: Final = 9
RACK_FROM: Final = 11
_LEADER_FROM: Final = 12
TOPIC_ID_FROM: Final = 13
_REPLICA_STATE_FROM: Final = 15
_ENDPOINTS_FROM: Final = 16

_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_TERMS: Final = struct.Struct(">iiib")
_SESSION: Final = struct.Struct(">ii")
_PARTITION: Final = struct.Struct(">ihqq")
_ABORTED: Final = struct.Struct(">qq")
_REPLICA_STATE_TAG: Final = 1
_LEADER_TAG: Final = 1
_TOPIC_MIN_BYTES: Final = 2
_PARTITION_MIN_BYTES: Final = 16
READ_COMMITTED: Final = 1
_COPIED_BYTES: Final = 4096
"""Records up to this size are copied behind the fields before them, because a piece of their own would cost more."""

_API: Final = "Fetch"
ERRORS: Final = error_codes.Errors(
    "schema (v6, v13); KafkaApis, maybeDownConvertStorageError; KIP-227, KIP-320, KIP-392, KIP-516",
    error_codes.LEADER
    | {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE},
    {
        ErrorCode.KAFKA_STORAGE_ERROR: error_codes.Since(6, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND: error_codes.Since(7, ErrorCode.INVALID_REQUEST),
        ErrorCode.INVALID_FETCH_SESSION_EPOCH: error_codes.Since(7, ErrorCode.INVALID_REQUEST),
        **error_codes.epochs(9),
        ErrorCode.OFFSET_NOT_AVAILABLE: error_codes.Since(11, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        **error_codes.by_id(13),
        ErrorCode.INCONSISTENT_TOPIC_ID: error_codes.Since(13, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR: error_codes.Since(7, ErrorCode.INVALID_REQUEST),
    },
    # The error of a batch that no response can hold. Consumers raise it to the application, which may seek past it.
    {ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.CORRUPT_MESSAGE},
)


def _layout(version: int) -> struct.Struct:
    """Return the layout of a partition of the request, up to its tags."""
    epoch = "i" if version >= _LEADER_EPOCH_FROM else ""
    last_epoch = "i" if version >= _LEADER_FROM else ""
    log_start = "q" if version >= _LOG_START_FROM else ""
    return struct.Struct(f">i{epoch}q{last_epoch}{log_start}i")


_LAYOUTS: Final = [_layout(version) for version in range(19)]


def read(reader: Reader, version: int) -> FetchRequest:
    """Read a fetch request. Raises MalformedError."""
    replica_id = reader.int32() if version < _REPLICA_STATE_FROM else CONSUMER
    max_wait_ms, min_bytes, max_bytes, isolation = reader.unpack(_TERMS)
    session_id, session_epoch = reader.unpack(_SESSION) if version >= _SESSION_FROM else (NO_SESSION, FINAL_EPOCH)
    partitions: list[RequestedPartition] = []
    layout, has_epoch = _LAYOUTS[version], version >= _LEADER_EPOCH_FROM
    for _ in range(_few(reader, _TOPIC_MIN_BYTES)):
        topic = _read_topic(reader, version)
        for _ in range(_few(reader, _PARTITION_MIN_BYTES, len(partitions))):
            fields = reader.unpack(layout)
            reader.pass_tags()
            epoch, offset = (fields[1], fields[2]) if has_epoch else (-1, fields[1])
            partitions.append(RequestedPartition(topic, fields[0], epoch, offset, fields[-1]))
        reader.pass_tags()
    forgotten = _read_forgotten(reader, version) if version >= _SESSION_FROM else []
    rack = (reader.string() or "") if version >= RACK_FROM else ""
    state = reader.tag(_REPLICA_STATE_TAG)
    if version >= _REPLICA_STATE_FROM and state is not None:
        replica_id = Reader(state).int32()
    return FetchRequest(
        replica_id, max_wait_ms, min_bytes, max_bytes, isolation, session_id, session_epoch, partitions, forgotten, rack
    )


def _read_topic(reader: Reader, version: int) -> TopicKey:
    if version >= TOPIC_ID_FROM:
        return TopicId(bytes(reader.take(16)))
    name = reader.string()
    if name is None:
        raise MalformedError("a topic has no name")
    return name


def _read_forgotten(reader: Reader, version: int) -> list[tuple[TopicKey, int]]:
    forgotten: list[tuple[TopicKey, int]] = []
    for _ in range(_few(reader, _TOPIC_MIN_BYTES)):
        topic = _read_topic(reader, version)
        forgotten += [(topic, reader.int32()) for _ in range(_few(reader, _INT32.size, len(forgotten)))]
        reader.pass_tags()
    return forgotten


def _few(reader: Reader, element_min_bytes: int, before: int = 0) -> int:
    """Return how many elements follow. With those `before`, they must be few."""
    return reader.few(element_min_bytes, MOST_PARTITIONS, "a fetch of", before=before)


def write(
    version: int,
    parts: Sequence[FetchResponsePartition],
    leaders: NewLeaders,
    *,
    isolation: int,
    session_id: int = NO_SESSION,
    error_code: int = 0,
) -> Parts:
    """Return the body of the response. Records are pieces of their own."""
    writer = Writer(flexible=version >= _LEADER_FROM)
    pieces: Parts = []
    writer.int32(0)  # throttle
    if version >= _SESSION_FROM:
        writer.int16(ERRORS.sent(_API, version, error_code))
        writer.int32(session_id)
    topics = _by_topic(parts)
    writer.array(len(topics))
    for topic, of_topic in topics:
        if isinstance(topic, str):
            writer.string(topic)
        else:
            writer.buffer += topic
        writer.array(len(of_topic))
        for request, fetched in of_topic:
            _write_partition(writer, version, request, fetched, isolation)
            if len(fetched.records) > _COPIED_BYTES:
                pieces += (writer.buffer, fetched.records)
                writer.buffer = bytearray()
            else:
                writer.buffer += fetched.records
            _write_tags(writer, version, fetched, leaders)
        writer.tags()
    writer.tags(leaders.endpoints() if version >= _ENDPOINTS_FROM else None)
    return [*pieces, writer.buffer]


def _by_topic(parts: Sequence[FetchResponsePartition]) -> list[tuple[TopicKey, list[FetchResponsePartition]]]:
    """Return the partitions in order, with neighbours of one topic together."""
    topics: list[tuple[TopicKey, list[FetchResponsePartition]]] = []
    for part in parts:
        if not topics or topics[-1][0] != part.requested.topic:
            topics.append((part.requested.topic, []))
        topics[-1][1].append(part)
    return topics


def _write_partition(
    writer: Writer, version: int, request: RequestedPartition, fetched: FetchResult, isolation: int
) -> None:
    """Write a partition up to the length of its records."""
    code = 0 if fetched.error is None else ERRORS.sent(_API, version, fetched.error.code)
    writer.pack(_PARTITION, request.number, code, fetched.high_watermark, fetched.last_stable_offset)
    if version >= _LOG_START_FROM:
        writer.pack(_INT64, fetched.log_start_offset)
    is_committed = isolation == READ_COMMITTED
    writer.array(len(fetched.aborted) if is_committed else -1)
    for aborted in fetched.aborted if is_committed else ():
        writer.pack(_ABORTED, aborted.producer_id, aborted.first_offset)
        writer.tags()
    if version >= RACK_FROM:
        writer.int32(-1 if fetched.preferred_replica is None else fetched.preferred_replica)
    writer.bytes_length(len(fetched.records))


def _write_tags(writer: Writer, version: int, fetched: FetchResult, leaders: NewLeaders) -> None:
    leader = None
    if version >= _LEADER_FROM and fetched.error is not None and fetched.error.code in CHANGED:
        leader = leaders.of(fetched.id)
    writer.tags(None if leader is None else {_LEADER_TAG: leader})
