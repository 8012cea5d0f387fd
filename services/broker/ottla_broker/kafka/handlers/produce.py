"""Produce (key 0), versions 3 to 13: batches to the leaders of their partitions, as they are.

    request:   transactional id (nullable), acks int16, timeout ms int32, [topic, [partition int32, records]]
    response:  [topic, [partition int32, error int16, base offset int64, append time int64, log start int64 (v5),
               [record errors] (v8), message (v8), tags: current leader (v10)]], throttle ms int32,
               tags: endpoints (v10)

v3 adds the transactional id (KIP-98); v8 record errors (KIP-467); v10 new leaders (KIP-951); from v12 on the broker
adds the partitions to the transaction (KIP-890); v13 has the id of a topic instead of its name (KIP-516). From v9 on
all fields are compact. Read and written by hand.
"""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.api import Api
from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.authorization.needs import needs, topic_refused
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import text_of, unknown_topic
from ottla_broker.kafka.forwarding.controller_calls import ambiguous
from ottla_broker.kafka.network.connection import CloseConnectionError, HandlerResult
from ottla_broker.kafka.wire.frames import Caller, KafkaContext, Parts
from ottla_broker.kafka.wire.leaders import CHANGED, NewLeaders
from ottla_broker.machines.bad_records import BadRecordsError
from ottla_broker.replication.produce import Produce, ProducedTransaction, ProduceResult, check_acks, without_traces
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import ProduceRequest
from ottla_core.kafka_formats.kafka_uuid import spelled
from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import PartitionId, TopicId
from ottla_core.security.resource import ResourceType
from ottla_core.transactions import TRANSACTIONS_V1, TRANSACTIONS_V2
from ottla_proto.operation import Operation

MOST_PARTITIONS: Final = 5_000
"""The most partitions of one request. All of them are put in order before another request is served."""
_REQUEST: Final = "a produce to"
_LOG_START_FROM: Final = 5
_MESSAGE_FROM: Final = 8
_LEADER_FROM: Final = 10
_ADDS_FROM: Final = 12
_IDS_FROM: Final = 13
_ID_BYTES: Final = 16

_ACKS_TIMEOUT: Final = struct.Struct(">hi")
_RESULT: Final = struct.Struct(">ihqq")
_INT64: Final = struct.Struct(">q")
_NO_TOPIC: Final = TopicId(bytes(16))
_NONE_DENIED: Final[Mapping[str | TopicId, OttlaError]] = {}
_ATTRIBUTES_AT: Final = 22
"""The place of the lower byte of a batch's attributes."""
_TRANSACTIONAL: Final = 0x10
_PARTITION_MIN_BYTES: Final = 5  # its number and a length
_TOPIC_MIN_BYTES: Final = 2


_Named: TypeAlias = str | TopicId
"""A topic by its name or, in versions with ids, by its id."""
_Results = list[tuple[_Named, list[ProduceResult]]]
_Topics = list[tuple[_Named, list[tuple[int, memoryview | bytes]]]]


class _Context(NamedTuple):
    """The parts of the request that the response needs. The frame, up to 100 MiB, is not kept until the
    acknowledgements come."""

    version: int
    flexible: bool
    caller: Caller
    acks: int


def handle(backend: Backend, context: KafkaContext) -> HandlerResult:
    """Begin a produce. When this returns, all batches have their places in their partitions' order, and most of them
    are appended. The result may still wait for the rest, or for acknowledgements."""
    transactional_id, acks, timeout_ms, topics = _read(context.body, context.version)
    transaction = None
    if transactional_id is not None:
        version = TRANSACTIONS_V2 if context.version >= _ADDS_FROM else TRANSACTIONS_V1
        transaction = ProducedTransaction(transactional_id, version, backend.verifier)
    produce, twice = Produce(backend.replicas.table.find, acks, transaction), _named_twice(topics)
    denied = _denied(backend, context.access, transactional_id, topics) if context.access.is_limited else _NONE_DENIED
    results = [
        (
            topic,
            [
                _append(backend, produce, topic, number, records, acks, denied.get(topic) or twice.get((topic, number)))
                for number, records in partitions
            ],
        )
        for topic, partitions in topics
    ]
    kept = _Context(context.version, context.body.flexible, context.caller, acks)
    if (placed := produce.placed()) is not None:
        context.caller.room.pend(produce.pending_bytes, placed)
    if produce.waits:
        return _when_acknowledged(backend, produce, kept, results, timeout_ms)
    return _finish(backend, kept, results)


def _named_twice(topics: _Topics) -> Mapping[tuple[_Named, int], OttlaError]:
    """Return an error for each partition that is named twice, which no client does. Nothing of either is appended."""
    if len(topics) == 1 and len(topics[0][1]) == 1:
        return {}  # most requests have one partition
    return ambiguous(Counter((topic, number) for topic, partitions in topics for number, _ in partitions))


def _denied(
    backend: Backend, access: Access, transactional_id: str | None, topics: _Topics
) -> Mapping[_Named, OttlaError]:
    """Return an error for each topic that the client may not write to.

    As in Kafka, that is every topic if a batch is transactional and the client may not use the transactional id.
    """
    image, denied, is_transactional = backend.image, dict[_Named, OttlaError](), False
    for topic, partitions in topics:
        refused = topic_refused(access, image, Operation.WRITE, topic)
        if refused is not None:
            denied[topic] = refused
        for _, records in partitions:  # the first batch of each, as in Kafka
            is_transactional |= len(records) > _ATTRIBUTES_AT and bool(records[_ATTRIBUTES_AT] & _TRANSACTIONAL)
    if is_transactional:
        refused = _no_transactional_id()
        if transactional_id is not None:
            refused = access.refused(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        if refused is not None:
            return dict.fromkeys((topic for topic, _ in topics), refused)
    return denied


def _no_transactional_id() -> OttlaError:
    return OttlaError(
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        "a batch is transactional, and the request has no transactional id",
        hint="set transactional.id",
    )


def _shown(topic: _Named) -> str:
    return topic if isinstance(topic, str) else spelled(topic)


def _read(reader: Reader, version: int) -> tuple[str | None, int, int, _Topics]:
    """Read the transactional id, acks, timeout, and each topic's partitions with their batches. All of it is read
    before anything is appended."""
    transactional_id = reader.string()
    acks, timeout_ms = reader.unpack(_ACKS_TIMEOUT)
    topics: _Topics = []
    count = 0
    for _ in range(reader.few(_TOPIC_MIN_BYTES, MOST_PARTITIONS, _REQUEST)):
        topic = TopicId(bytes(reader.take(_ID_BYTES))) if version >= _IDS_FROM else reader.string()
        if topic is None:
            raise MalformedError("a topic has no name")
        partitions: list[tuple[int, memoryview | bytes]] = []
        for _ in range(reader.few(_PARTITION_MIN_BYTES, MOST_PARTITIONS, _REQUEST, before=count)):
            number, records = reader.int32(), reader.bytes_()
            reader.pass_tags()
            partitions.append((number, b"" if records is None else records))
        reader.pass_tags()
        topics.append((topic, partitions))
        count += len(partitions)
    reader.pass_tags()
    return transactional_id, acks, timeout_ms, topics


def _append(
    backend: Backend,
    produce: Produce,
    topic: _Named,
    number: int,
    records: memoryview | bytes,
    acks: int,
    rejected: OttlaError | None,
) -> ProduceResult:
    partition_id = backend.id_of(topic, number) if isinstance(topic, str) else PartitionId(topic, number)
    try:
        if rejected is not None:
            raise rejected
        check_acks(acks)
        if partition_id is None:
            raise unknown_topic(_shown(topic))
    except OttlaError as error:
        return ProduceResult(partition_id or PartitionId(_NO_TOPIC, number), error=without_traces(error))
    return produce.append(partition_id, records)


async def _when_acknowledged(
    backend: Backend, produce: Produce, context: _Context, results: _Results, timeout_ms: int
) -> Parts | None:
    try:
        async with asyncio.timeout(max(0, timeout_ms) / 1000):
            await produce.acknowledged()
    except TimeoutError:
        produce.time_out(timeout_ms)
    return _finish(backend, context, results)


def _finish(backend: Backend, context: _Context, results: _Results) -> Parts | None:
    if context.acks == 0:
        _check_silence(results)
        return None
    return _encoded(backend, context, results)


def _check_silence(results: _Results) -> None:
    """Raise CloseConnectionError if a produce with acks=0 failed. It gets no response, so only the end of the
    connection makes the client refresh its metadata (rule 66)."""
    for topic, partitions in results:
        for partition in partitions:
            if partition.error is not None:
                name = f"{_shown(topic)}-{partition.id.partition}"
                raise CloseConnectionError(f"a produce request with acks=0 to {name} failed: {partition.error}")


def _write_record_errors(writer: Writer, error: OttlaError | None) -> None:
    """Write the records for which the whole batch was rejected. A client sends the others again (KIP-467)."""
    bad = error.records if isinstance(error, BadRecordsError) else ()
    writer.array(len(bad))
    for record in bad:
        writer.int32(record.number)
        writer.string(record.reason)
        writer.tags()


def _encoded(backend: Backend, context: _Context, results: _Results) -> Parts:
    version = context.version
    writer, leaders = Writer(flexible=context.flexible), NewLeaders(backend, context.caller)
    writer.array(len(results))
    for topic, partitions in results:
        if isinstance(topic, str):
            writer.string(topic)
        else:
            writer.buffer += topic
        writer.array(len(partitions))
        for partition in partitions:
            error = partition.error
            code = 0 if error is None else API.errors.sent(API.name, version, error.code)
            writer.pack(_RESULT, partition.id.partition, code, partition.base_offset, partition.log_append_time_ms)
            if version >= _LOG_START_FROM:
                writer.pack(_INT64, partition.log_start_offset)
            if version >= _MESSAGE_FROM:
                _write_record_errors(writer, error)
                writer.string(None if error is None else text_of(error))
            leader = None
            if version >= _LEADER_FROM and error is not None and error.code in CHANGED:
                leader = leaders.of(partition.id)
            writer.tags(None if leader is None else {0: leader})
        writer.tags()
    writer.int32(0)  # throttle
    writer.tags(leaders.endpoints() if version >= _LEADER_FROM else None)
    return [writer.buffer]


API: Final = Api(
    ProduceRequest,
    (3, 13),
    handle,
    needs=needs((Operation.WRITE, ResourceType.TOPIC), (Operation.WRITE, ResourceType.TRANSACTIONAL_ID)),
    errors=error_codes.Errors(
        "schema (v4, v11); ReplicaManager, handleProduceAppend; AddPartitionsToTxnManager; KIP-890, KIP-951",
        error_codes.TOPIC
        | {
            ErrorCode.CORRUPT_MESSAGE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.REQUEST_TIMED_OUT,
            ErrorCode.MESSAGE_TOO_LARGE,
            ErrorCode.RECORD_LIST_TOO_LARGE,
            ErrorCode.NOT_ENOUGH_REPLICAS,
            ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
            ErrorCode.INVALID_REQUIRED_ACKS,
            ErrorCode.INVALID_TIMESTAMP,
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            ErrorCode.POLICY_VIOLATION,
            ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
            ErrorCode.DUPLICATE_SEQUENCE_NUMBER,
            ErrorCode.UNKNOWN_PRODUCER_ID,
            ErrorCode.INVALID_PRODUCER_EPOCH,
            ErrorCode.INVALID_TXN_STATE,
            ErrorCode.INVALID_PRODUCER_ID_MAPPING,
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_RECORD,
        },
        {
            ErrorCode.KAFKA_STORAGE_ERROR: error_codes.Since(4, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            ErrorCode.CONCURRENT_TRANSACTIONS: error_codes.Since(12, ErrorCode.NOT_ENOUGH_REPLICAS),
            **error_codes.abortable(11),
            **error_codes.by_id(13),
        },
        {**error_codes.VERIFYING, ErrorCode.FENCED_LEADER_EPOCH: ErrorCode.NOT_LEADER_OR_FOLLOWER},
    ),
    advertised_from=0,
    most_elements=MOST_PARTITIONS,
)
