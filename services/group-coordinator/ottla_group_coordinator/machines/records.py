"""The records of `__consumer_offsets`, in Kafka's own formats, so that Kafka's tools read the topic.

Keys begin with their version, which says what they are: 0 and 1 a committed offset, 2 a classic group's members, and
the kinds in `consumer.records`. Values of these three are read in versions 0 to 4. Offsets are written in version 4,
which has the topic's id, and groups in version 3. A record of another kind is kept in the log and left alone. It is
`None` here. Source: OffsetCommitKey/Value.json and GroupMetadataKey/Value.json of Apache Kafka.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import TopicId, TopicPartition
from ottla_group_coordinator.machines.consumer.records import (
    ConsumerKey,
    EncodedKey,
    decode_consumer_key,
    required_text,
)

NO_LEADER_EPOCH: Final = -1

_OFFSET_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_OFFSET_KEY_VERSION: Final = 1
_OFFSET_VERSION: Final = 4
_GROUP_VERSION: Final = 3
_LATEST_VERSION: Final = 4
_EPOCH_FROM: Final = 3
_FLEXIBLE_FROM: Final = 4
_TOPIC_ID: Final = 0
"""The number of the tagged field (KIP-848)."""

_NO_TOPIC_ID: Final = bytes(16)
_LEAST_MEMBER_BYTES: Final = 18
_PARTITION_BYTES: Final = 4
_NAMES_KEPT: Final = 1_000


class OffsetKey(NamedTuple):
    group: str
    partition: TopicPartition


class GroupKey(NamedTuple):
    group: str


Key: TypeAlias = OffsetKey | GroupKey | ConsumerKey


class CommittedOffset(NamedTuple):
    """A committed offset. `offset` is that of the next record to read. Only very old clients wrote `expires_at_ms`.
    `topic_id` is None if an older release wrote it."""

    offset: int
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    committed_at_ms: int = 0
    expires_at_ms: int | None = None
    topic_id: TopicId | None = None


@dataclass(frozen=True, slots=True)
class MemberRecord:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupRecord:
    """A generation of a group. `protocol` and `leader` are None while it has no members."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_since_ms: int
    members: tuple[MemberRecord, ...] = ()


# ---- keys ---------------------------------------------------------------------------------------------------------


def encode_key(key: OffsetKey | GroupKey) -> bytes:
    writer = Writer(flexible=False)
    if isinstance(key, OffsetKey):
        writer.int16(_OFFSET_KEY_VERSION)
        writer.string(key.group)
        writer.string(key.partition.topic)
        writer.int32(key.partition.partition)
    else:
        writer.int16(_GROUP_KEY)
        writer.string(key.group)
    return bytes(writer.buffer)


def decode_key(data: bytes) -> Key | None:
    """Return the key, or None for a kind that is not known here. Raises MalformedError."""
    if isinstance(data, EncodedKey):
        return data.key
    reader = Reader(memoryview(data))
    version = reader.int16()
    if version in _OFFSET_KEYS:
        group, topic = _names(data[:-_PARTITION_BYTES])
        return OffsetKey(group, TopicPartition(topic, int.from_bytes(data[-_PARTITION_BYTES:], signed=True)))
    return GroupKey(required_text(reader)) if version == _GROUP_KEY else decode_consumer_key(version, reader)


@lru_cache(_NAMES_KEPT)
def _names(version_and_names: bytes) -> tuple[str, str]:
    """Return the group and the topic of an offset's key. Thousands of partitions have the same ones, and share the
    strings."""
    reader = Reader(memoryview(version_and_names), at=2)
    group, topic = required_text(reader), required_text(reader)
    if reader.left:
        raise MalformedError(f"{reader.left} bytes follow the key of a committed offset")
    return group, topic


# ---- committed offsets ----------------------------------------------------------------------------------------------


def encode_offset(committed: CommittedOffset) -> bytes:
    writer = Writer(flexible=True)
    writer.int16(_OFFSET_VERSION)
    writer.int64(committed.offset)
    writer.int32(committed.leader_epoch)
    writer.string(committed.metadata)
    writer.int64(committed.committed_at_ms)
    writer.tags(None if committed.topic_id is None else {_TOPIC_ID: committed.topic_id})
    return bytes(writer.buffer)


def decode_offset(data: bytes) -> CommittedOffset:
    """Decode an offset. Raises MalformedError."""
    reader = Reader(memoryview(data))
    version = _value_version(reader)
    offset = reader.int64()
    epoch = reader.int32() if version >= _EPOCH_FROM else NO_LEADER_EPOCH
    metadata = reader.string() or ""
    committed_at_ms = reader.int64()
    expires_at_ms = reader.int64() if version == 1 else -1
    return CommittedOffset(
        offset, epoch, metadata, committed_at_ms, None if expires_at_ms < 0 else expires_at_ms, _topic_id(reader)
    )


def _value_version(reader: Reader) -> int:
    """Return the version of a value, and have the rest of it read accordingly. Raises MalformedError."""
    version = reader.int16()
    if not 0 <= version <= _LATEST_VERSION:
        raise MalformedError(f"a value has version {version}, which is not known")
    reader.flexible = version >= _FLEXIBLE_FROM
    return version


def _topic_id(reader: Reader) -> TopicId | None:
    tagged = reader.tag(_TOPIC_ID)
    if tagged is None or tagged == _NO_TOPIC_ID:
        return None
    if len(tagged) != len(_NO_TOPIC_ID):
        raise MalformedError(f"a topic id has {len(tagged)} bytes, not {len(_NO_TOPIC_ID)}")
    return TopicId(bytes(tagged))


# ---- groups ---------------------------------------------------------------------------------------------------------


class EncodedGroup(bytes):
    """A group as bytes, with the group itself. A decision is applied right after it has been encoded, and to decode
    4,000 members takes 25 ms."""

    group: GroupRecord


def encode_group(group: GroupRecord) -> EncodedGroup:
    writer = Writer(flexible=False)
    writer.int16(_GROUP_VERSION)
    writer.string(group.protocol_type)
    writer.int32(group.generation)
    writer.string(group.protocol)
    writer.string(group.leader)
    writer.int64(group.state_since_ms)
    writer.array(len(group.members))
    for member in group.members:
        writer.string(member.member_id)
        writer.string(member.instance_id)
        writer.string(member.client_id)
        writer.string(member.client_host)
        writer.int32(member.rebalance_timeout_ms)
        writer.int32(member.session_timeout_ms)
        writer.bytes_(member.subscription)
        writer.bytes_(member.assignment)
    encoded = EncodedGroup(writer.buffer)
    encoded.group = group
    return encoded


def decode_group(data: bytes) -> GroupRecord:
    """Decode a group. Raises MalformedError."""
    if isinstance(data, EncodedGroup):
        return data.group
    reader = Reader(memoryview(data))
    version = _value_version(reader)
    protocol_type, generation = required_text(reader), reader.int32()
    protocol, leader = reader.string(), reader.string()
    since_ms = reader.int64() if version >= 2 else -1
    members = tuple(_member(reader, version) for _ in range(reader.array(_LEAST_MEMBER_BYTES)))
    return GroupRecord(protocol_type, generation, protocol, leader, since_ms, members)


def _member(reader: Reader, version: int) -> MemberRecord:
    member_id = required_text(reader)
    instance_id = reader.string() if version >= 3 else None
    client_id, client_host = required_text(reader), required_text(reader)
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = bytes(reader.bytes_() or b""), bytes(reader.bytes_() or b"")
    reader.pass_tags()
    if rebalance_timeout_ms < 0:
        rebalance_timeout_ms = session_timeout_ms
    return MemberRecord(
        member_id,
        instance_id,
        client_id,
        client_host,
        rebalance_timeout_ms,
        session_timeout_ms,
        subscription,
        assignment,
    )
