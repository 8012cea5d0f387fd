"""The records of `__transaction_state`, in Kafka's own format, so that Kafka's tools read the topic.

A key is version 0 and the transactional id. Values are written in version 1, which is flexible, and also read in
version 0. Two tagged fields are ottla's own. Their numbers are far above Kafka's, and Kafka's readers pass over them. A
record of another kind is kept in the log and left alone. It is `None` here. Source: TransactionLogKey/Value.json of
Apache Kafka.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from ottla_core.coordination.shard import TransactionProducer
from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import TopicPartition
from ottla_txn_coordinator.machines.states import TransactionState

LONGEST_NAME_BYTES: Final = 2**15 - 1
"""The limit for a transactional id and for a topic's name, as UTF-8."""

MOST_PARTITIONS: Final = 40_000
"""The most partitions of one transaction. Even with a different topic for each, a reader still accepts the record."""

END_ROOM_BYTES: Final = 256
"""The room that an addition leaves for the end of its transaction: more than all tags of a record take. The end writes
the partitions of the last addition again, with tags that the addition did not have."""

LARGEST_ADDITION_BYTES: Final = 1_000_000 - END_ROOM_BYTES
"""The largest batch that an addition to a transaction may become."""

LARGEST_BATCH_BYTES: Final = 1_000_000 + END_ROOM_BYTES
"""The largest batch of a round. It is below message.max.bytes of the internal topics.

Former releases left no room for the end, so this is larger than what they could fill: such a transaction ends, too."""

NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
UNCLAIMED: Final = -2
"""As a former epoch, it means that an InitProducer has raised the present epoch to fence its holder, and that the next
one takes it."""
NEVER_MS: Final = -1

_KEY_VERSION: Final = 0
_VERSION: Final = 1
_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION, _NEXT_EPOCH = 0, 1, 2, 3
_PREPARED, _FORMER_EPOCH = 0x6F74, 0x6F75
_LEAST_TOPIC_BYTES: Final = 2
_PARTITION_BYTES: Final = 4

_STATES: Final = {
    0: TransactionState.EMPTY,
    1: TransactionState.ONGOING,
    2: TransactionState.PREPARE_COMMIT,
    3: TransactionState.PREPARE_ABORT,
    4: TransactionState.COMPLETE_COMMIT,
    5: TransactionState.COMPLETE_ABORT,
    6: TransactionState.DEAD,
}
_NUMBERS: Final = {state: number for number, state in _STATES.items()}


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transactional id as the log has it. Nothing else is known of it.

    `producer` is the transaction's producer. While the transaction ends, its epoch is that of the markers. `next` is
    the producer that goes on, if that is another one: because the epochs are at their end, or because it came later and
    has kept the transaction. `former_epoch` is the holder's previous epoch, if a producer that has it may take the
    present one. Repeats of such a producer are answered as before. `previous_id` is its producer id, if that was
    another one. `version` is 2 if the end has raised, or will raise, the epoch. Times are in ms since 1970.
    `started_at_ms` is when the producer's last transaction began, even if it is over, and -1 before its first one.
    """

    producer: TransactionProducer
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated_at_ms: int = 0
    started_at_ms: int = NEVER_MS
    previous_id: int = NO_PRODUCER_ID
    next: TransactionProducer | None = None
    version: int = 0
    former_epoch: int = NO_EPOCH
    prepared: bool = False

    @property
    def holder(self) -> TransactionProducer:
        """This is the producer that may go on with the id, and end its transaction."""
        return self.next or self.producer


def encode_key(transactional_id: str) -> bytes:
    writer = Writer(flexible=False)
    writer.int16(_KEY_VERSION)
    writer.string(transactional_id)
    return bytes(writer.buffer)


def decode_key(data: bytes) -> str | None:
    """Return the transactional id, or None for a kind that is not known here. Raises MalformedError."""
    reader = Reader(memoryview(data))
    return reader.string() if reader.int16() == _KEY_VERSION else None


def encode_value(record: TransactionRecord) -> bytes:
    writer = Writer(flexible=True)
    writer.int16(_VERSION)
    writer.int64(record.producer.id)
    writer.int16(record.producer.epoch)
    writer.int32(record.timeout_ms)
    writer.buffer.append(_NUMBERS[record.state])
    by_topic = defaultdict[str, list[int]](list)
    for topic, number in sorted(record.partitions):
        by_topic[topic].append(number)
    writer.array(len(by_topic))
    for topic, numbers in by_topic.items():
        writer.string(topic)
        writer.array(len(numbers))
        writer.buffer += struct.pack(f">{len(numbers)}i", *numbers)
        writer.tags()
    writer.int64(record.updated_at_ms)
    writer.int64(record.started_at_ms)
    writer.tags(_tags(record))
    return bytes(writer.buffer)


def _tags(record: TransactionRecord) -> dict[int, bytes]:
    numbers = (
        (_PREVIOUS_ID, record.previous_id, 8, NO_PRODUCER_ID),
        (_NEXT_ID, record.next.id if record.next else NO_PRODUCER_ID, 8, NO_PRODUCER_ID),
        (_CLIENT_VERSION, record.version, 2, 0),
        (_NEXT_EPOCH, record.next.epoch if record.next else NO_EPOCH, 2, NO_EPOCH),
        (_FORMER_EPOCH, record.former_epoch, 2, NO_EPOCH),
    )
    tags = {tag: value.to_bytes(size, signed=True) for tag, value, size, default in numbers if value != default}
    return tags | ({_PREPARED: b""} if record.prepared else {})


def decode_value(data: bytes) -> TransactionRecord | None:
    """Return the record, or None for a version or a state that is not known here. Raises MalformedError."""
    reader = Reader(memoryview(data))
    version = reader.int16()
    if not 0 <= version <= _VERSION:
        return None
    reader.flexible = version == _VERSION
    producer = TransactionProducer(reader.int64(), reader.int16())
    timeout_ms, state = reader.int32(), _STATES.get(reader.take(1)[0])
    if state is None:
        return None
    partitions = frozenset(_partitions(reader))
    updated_at_ms, started_at_ms = reader.int64(), reader.int64()
    tags = {tag: bytes(value) for tag in _READ_TAGS if (value := _tag(reader, tag)) is not None}
    next_ = TransactionProducer(_number(tags.get(_NEXT_ID), NO_PRODUCER_ID), _number(tags.get(_NEXT_EPOCH), 0))
    return TransactionRecord(
        producer,
        timeout_ms,
        state,
        partitions,
        updated_at_ms,
        started_at_ms,
        previous_id=_number(tags.get(_PREVIOUS_ID), NO_PRODUCER_ID),
        next=None if next_.id == NO_PRODUCER_ID else next_,
        version=_number(tags.get(_CLIENT_VERSION), 0),
        former_epoch=_number(tags.get(_FORMER_EPOCH), NO_EPOCH),
        prepared=_PREPARED in tags,
    )


_READ_TAGS: Final = (_PREVIOUS_ID, _NEXT_ID, _CLIENT_VERSION, _NEXT_EPOCH, _PREPARED, _FORMER_EPOCH)


def _tag(reader: Reader, tag: int) -> memoryview | None:
    """Return a tagged field at the end of the record. The reader stays before the tags."""
    return Reader(reader.data, reader.at, flexible=reader.flexible).tag(tag)


def _partitions(reader: Reader) -> list[TopicPartition]:
    found: list[TopicPartition] = []
    for _ in range(reader.array(_LEAST_TOPIC_BYTES)):
        topic = reader.string()
        if topic is None:
            raise MalformedError("found null where a topic is required")
        numbers = reader.take(_PARTITION_BYTES * (count := reader.array(_PARTITION_BYTES)))
        found += [TopicPartition(topic, number) for number in struct.unpack(f">{count}i", numbers)]
        reader.pass_tags()
    return found


def _number(data: bytes | None, default: int) -> int:
    return default if data is None else int.from_bytes(data, signed=True)
