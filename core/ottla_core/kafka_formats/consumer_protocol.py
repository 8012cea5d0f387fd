"""The messages that members of a consumer group exchange through the coordinator, which need not read them.

A member's *subscription* travels in JoinGroup, and the *assignment* that the leader made, in SyncGroup. Both are
Kafka's own bytes (ConsumerProtocolSubscription and ConsumerProtocolAssignment; KIP-429, KIP-792, KIP-881), so members
of one group may be clients of different makers. Newer versions only add to the end, so an unknown one is read as the
newest that is known here.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS, MalformedError, Reader, Writer
from ottla_core.model import TopicPartition

PROTOCOL_TYPE: Final = "consumer"
UNKNOWN_GENERATION: Final = -1

_SUBSCRIPTION_VERSION: Final = 3
_ASSIGNMENT_VERSION: Final = 0
"""Later versions say the same, and some clients know no other."""

_LEAST_TOPIC_BYTES: Final = 2
_LEAST_OWNED_BYTES: Final = 6
_PARTITION_BYTES: Final = 4


class Subscription(NamedTuple):
    """A member's description of itself when it joins.

    `owned` has the partitions that it still holds, by the assignment of `generation`. `user_data` is the assignor's
    own.
    """

    topics: tuple[str, ...]
    user_data: bytes = b""
    owned: tuple[TopicPartition, ...] = ()
    generation: int = UNKNOWN_GENERATION
    rack: str | None = None


class MemberAssignment(NamedTuple):
    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes = b""


def encode_subscription(subscription: Subscription) -> bytes:
    writer = Writer(flexible=False)
    writer.int16(_SUBSCRIPTION_VERSION)
    writer.array(len(subscription.topics))
    for topic in subscription.topics:
        writer.string(topic)
    writer.bytes_(subscription.user_data)
    write_partitions(writer, subscription.owned)
    writer.int32(subscription.generation)
    writer.string(subscription.rack)
    return bytes(writer.buffer)


def decode_subscription(data: bytes, *, most: int = MAX_ELEMENTS) -> Subscription:
    """Decode a subscription. Raises INCONSISTENT_GROUP_PROTOCOL for bytes that are none, or that have more than `most`
    topics and partitions."""
    reader = Reader(memoryview(data), most=most)
    try:
        version = reader.int16()
        topics = tuple(_topic(reader) for _ in range(reader.array(_LEAST_TOPIC_BYTES)))
        user_data = bytes(reader.bytes_() or b"")
        owned = read_partitions(reader) if version >= 1 else ()
        generation = reader.int32() if version >= 2 else UNKNOWN_GENERATION
        rack = reader.string() if version >= 3 else None
    except MalformedError as error:
        raise _unreadable(error) from None
    return Subscription(topics, user_data, owned, generation, rack)


def encode_assignment(made: MemberAssignment) -> bytes:
    writer = Writer(flexible=False)
    writer.int16(_ASSIGNMENT_VERSION)
    write_partitions(writer, made.partitions)
    writer.bytes_(made.user_data)
    return bytes(writer.buffer)


def decode_assignment(data: bytes, *, most: int = MAX_ELEMENTS) -> MemberAssignment:
    """Decode an assignment. Raises INCONSISTENT_GROUP_PROTOCOL for bytes that are none, or that have more than `most`
    topics and partitions. Empty bytes are an empty assignment."""
    if not data:
        return MemberAssignment()
    reader = Reader(memoryview(data), most=most)
    try:
        reader.int16()
        return MemberAssignment(read_partitions(reader), bytes(reader.bytes_() or b""))
    except MalformedError as error:
        raise _unreadable(error) from None


def assigned_numbers(data: bytes) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield each topic of an assignment with its partition numbers, as a client has written them. Neither need exist.

    So the caller may rest or stop in between. Raises INCONSISTENT_GROUP_PROTOCOL for bytes that are none.
    """
    if not data:
        return
    reader = Reader(memoryview(data))
    try:
        reader.int16()
        yield from _numbers_by_topic(reader)
    except MalformedError as error:
        raise _unreadable(error) from None


def write_partitions(writer: Writer, partitions: Iterable[TopicPartition]) -> None:
    """Write an array of topics, each with an array of numbers."""
    numbers_of: dict[str, list[int]] = {}
    for topic, number in partitions:
        numbers_of.setdefault(topic, []).append(number)
    writer.array(len(numbers_of))
    for topic, numbers in numbers_of.items():
        writer.string(topic)
        writer.array(len(numbers))
        writer.pack(struct.Struct(f">{len(numbers)}i"), *numbers)


def read_partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    """Read what `write_partitions` writes. Raises MalformedError."""
    return tuple(TopicPartition(topic, n) for topic, numbers in _numbers_by_topic(reader) for n in numbers)


def _numbers_by_topic(reader: Reader) -> Iterator[tuple[str, tuple[int, ...]]]:
    for _ in range(reader.array(_LEAST_OWNED_BYTES)):
        topic = _topic(reader)
        count = reader.array(_PARTITION_BYTES)
        yield topic, reader.unpack(struct.Struct(f">{count}i"))


def _topic(reader: Reader) -> str:
    topic = reader.string()
    if topic is None:
        raise MalformedError("found null where a topic is required")
    return topic


def _unreadable(error: MalformedError) -> OttlaError:
    return OttlaError(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        f"a group member's data can't be read: {error}",
        hint="all members must use the consumer protocol; check whether another kind of client is in the group",
    )
