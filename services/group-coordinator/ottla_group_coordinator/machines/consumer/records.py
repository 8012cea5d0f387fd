"""The records of consumer groups in `__consumer_offsets`, in Kafka's own formats.

The version of a key is the kind of its record: 3 a group's epoch, 4 the partitions of its topics as releases before
Kafka 4.1 kept them, 5 a member's own data, 6 the epoch of the target, 7 a member's target, 8 a member's assignment, and
16 the matches of a regular expression. Values have version 0, which is flexible. A value of another version is left in
the log and counts as unreadable. (Kafka's coordinator fails to load it.) Of kind 4 only tombstones are written, because
the hash in kind 3 has replaced it (KIP-1101). Source: the ConsumerGroup*Key/Value.json of Apache Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, cast

from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import TopicId
from ottla_group_coordinator.machines.consumer.member import ClassicProtocols, CurrentAssignment, MemberMetadata
from ottla_group_coordinator.machines.consumer.partitions import (
    EpochOfPartition,
    Partitions,
    shared_epochs,
    shared_numbers,
)
from ottla_group_coordinator.machines.consumer.states import MemberState

FIRST_EPOCH: Final = 1
"""A new group begins with this epoch and an empty target. So members have an epoch before their first target is made,
and no member that has joined gets epoch 0."""

LAST_EPOCH: Final = 2**31 - 1

_VERSION: Final = 0
_UUID_BYTES: Final = 16
_INT64: Final = struct.Struct(">q")
_LEAST_TOPIC_BYTES: Final = _UUID_BYTES + 2
_PARTITION_BYTES: Final = 4
_STATES: Final = (MemberState.STABLE, MemberState.UNREVOKED, MemberState.UNRELEASED)
"""By their numbers in a record."""


class GroupEpochKey(NamedTuple):
    group: str


class TopicMetadataKey(NamedTuple):
    """The partitions of the group's topics, as releases before Kafka 4.1 kept them."""

    group: str


class MemberKey(NamedTuple):
    group: str
    member_id: str


class TargetEpochKey(NamedTuple):
    group: str


class TargetKey(NamedTuple):
    group: str
    member_id: str


class CurrentKey(NamedTuple):
    group: str
    member_id: str


class RegexKey(NamedTuple):
    group: str
    pattern: str


ConsumerKey: TypeAlias = (
    GroupEpochKey | TopicMetadataKey | MemberKey | TargetEpochKey | TargetKey | CurrentKey | RegexKey
)


class GroupEpoch(NamedTuple):
    """The group's epoch, with the hash of the topics for which it began."""

    epoch: int = FIRST_EPOCH
    topics_hash: int = 0
    created_ms: int = -1


class TargetEpoch(NamedTuple):
    """The epoch of the target, and when it was made, or 0 if that is not known."""

    epoch: int = FIRST_EPOCH
    made_ms: int = 0


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matches, as of `version` of the metadata."""

    topics: frozenset[str]
    version: int = 0
    at_ms: int = 0


class EncodedKey(bytes):
    """An encoded key with the key itself, because a decision is applied right after it has been encoded."""

    key: ConsumerKey


class EncodedValue(bytes):
    """An encoded value with the value itself."""

    value: Any


# ---- keys ---------------------------------------------------------------------------------------------------------

_VERSION_OF: Final[Mapping[type[ConsumerKey], int]] = {
    GroupEpochKey: 3,
    TopicMetadataKey: 4,
    MemberKey: 5,
    TargetEpochKey: 6,
    TargetKey: 7,
    CurrentKey: 8,
    RegexKey: 16,
}
_KEYS: Final = {version: kind for kind, version in _VERSION_OF.items()}


def encode_consumer_key(key: ConsumerKey) -> EncodedKey:
    writer = Writer(flexible=False)
    writer.int16(_VERSION_OF[type(key)])
    for text in key:
        writer.string(text)
    encoded = EncodedKey(writer.buffer)
    encoded.key = key
    return encoded


def decode_consumer_key(version: int, reader: Reader) -> ConsumerKey | None:
    """Return the key that follows its version, or None for an unknown kind. Raises MalformedError."""
    kind = cast("Callable[..., ConsumerKey] | None", _KEYS.get(version))
    if kind is None:
        return None
    key = kind(*(required_text(reader) for _ in _KEYS[version]._fields))
    if reader.left:
        raise MalformedError(f"{reader.left} bytes follow the key of a consumer group's record")
    return key


def required_text(reader: Reader) -> str:
    text = reader.string()
    if text is None:
        raise MalformedError("found null where a string is required")
    return text


# ---- values -------------------------------------------------------------------------------------------------------


def encode_consumer_value(key: ConsumerKey, value: Any) -> EncodedValue:
    """Encode the value that belongs to the key. Only kind 4 can't be encoded."""
    writer = Writer(flexible=True)
    writer.int16(_VERSION)
    _WRITERS[type(key)](writer, value)
    encoded = EncodedValue(writer.buffer)
    encoded.value = value
    return encoded


def decode_consumer_value(key: ConsumerKey, data: bytes) -> Any:
    """Return the value that belongs to the key. The value of kind 4 is ignored. Raises MalformedError."""
    if isinstance(data, EncodedValue):
        return data.value
    reader = Reader(memoryview(data), flexible=True, most=len(data))
    version = reader.int16()
    if version != _VERSION:
        raise MalformedError(f"a value has version {version}, which is not known")
    return _READERS[type(key)](reader)


def _write_group_epoch(writer: Writer, value: GroupEpoch) -> None:
    writer.int32(value.epoch)
    tags = {0: _INT64.pack(value.topics_hash)} if value.topics_hash else {}
    if value.created_ms != -1:
        tags[1] = _INT64.pack(value.created_ms)
    writer.tags(tags)


def _read_group_epoch(reader: Reader) -> GroupEpoch:
    epoch, tags_at = reader.int32(), reader.at
    topics_hash = _tagged_int64(reader, 0, 0)
    reader.at = tags_at
    return GroupEpoch(epoch, topics_hash, _tagged_int64(reader, 1, -1))


def _write_target_epoch(writer: Writer, value: TargetEpoch) -> None:
    writer.int32(value.epoch)
    writer.tags({0: _INT64.pack(value.made_ms)} if value.made_ms else None)


def _read_target_epoch(reader: Reader) -> TargetEpoch:
    return TargetEpoch(reader.int32(), _tagged_int64(reader, 0, 0))


def _tagged_int64(reader: Reader, number: int, default: int) -> int:
    tagged = reader.tag(number)
    if tagged is None:
        return default
    if len(tagged) != _INT64.size:
        raise MalformedError(f"a number of 8 bytes has {len(tagged)} bytes")
    return int(_INT64.unpack(tagged)[0])


def _write_metadata(writer: Writer, value: MemberMetadata) -> None:
    writer.string(value.instance_id)
    writer.string(value.rack)
    writer.string(value.client_id)
    writer.string(value.client_host)
    _write_texts(writer, sorted(value.topics))
    writer.string(value.regex or None)
    writer.int32(value.rebalance_timeout_ms)
    writer.string(value.assignor)
    writer.tags(None if value.classic is None else {0: _classic(value.classic)})


def _classic(protocols: ClassicProtocols) -> bytes:
    # A nullable struct in a tag begins with a byte that says that it is not null.
    writer = Writer(flexible=True)
    writer.buffer.append(1)
    writer.int32(protocols.session_timeout_ms)
    writer.array(len(protocols.protocols))
    for name, metadata in protocols.protocols:
        writer.string(name)
        writer.bytes_(metadata)
        writer.tags()
    writer.tags()
    return bytes(writer.buffer)


def _read_metadata(reader: Reader) -> MemberMetadata:
    instance_id, rack = reader.string(), reader.string()
    client_id, client_host = required_text(reader), required_text(reader)
    topics, regex = frozenset(_read_texts(reader)), reader.string()
    rebalance_timeout_ms, assignor = reader.int32(), reader.string()
    tagged = reader.tag(0)
    classic = None if tagged is None else _read_classic(tagged)
    return MemberMetadata(
        instance_id, rack, client_id, client_host, topics, regex or "", rebalance_timeout_ms, assignor, classic
    )


def _read_classic(data: memoryview) -> ClassicProtocols | None:
    reader = Reader(data, flexible=True)
    if reader.take(1)[0] != 1:
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.array(3)):
        protocols.append((required_text(reader), bytes(reader.bytes_() or b"")))
        reader.pass_tags()
    return ClassicProtocols(session_timeout_ms, tuple(protocols))


def _write_target(writer: Writer, value: Partitions) -> None:
    writer.array(len(value))
    for topic_id, numbers in value.items():
        _write_numbers(writer, topic_id, sorted(numbers))
        writer.tags()
    writer.tags()


def _read_target(reader: Reader) -> Partitions:
    target: dict[TopicId, frozenset[int]] = {}
    for _ in range(reader.array(_LEAST_TOPIC_BYTES)):
        topic_id, numbers = _read_numbers(reader)
        reader.pass_tags()
        target[topic_id] = shared_numbers(frozenset(numbers))
    reader.pass_tags()
    return target


def _write_current(writer: Writer, value: CurrentAssignment) -> None:
    writer.int32(value.epoch)
    writer.int32(value.previous_epoch)
    writer.buffer.append(_STATES.index(value.state))
    _write_epochs(writer, value.assigned)
    _write_epochs(writer, value.revoking)
    writer.tags()


def _read_current(reader: Reader) -> CurrentAssignment:
    epoch, previous_epoch, number = reader.int32(), reader.int32(), reader.take(1)[0]
    if number >= len(_STATES):
        # Without this record its member owns nothing, so it is fenced and joins again, as in Kafka.
        raise MalformedError(f"a member has the unknown state {number}")
    assigned, revoking = (_read_epochs(reader, max(epoch, 0)) for _ in range(2))
    reader.pass_tags()
    return CurrentAssignment(epoch, previous_epoch, _STATES[number], assigned, revoking)


def _write_epochs(writer: Writer, value: EpochOfPartition) -> None:
    writer.array(len(value))
    for topic_id, epochs in value.items():
        numbers = sorted(epochs)
        _write_numbers(writer, topic_id, numbers)
        tag = Writer(flexible=True)
        _write_array(tag, [epochs[number] for number in numbers])
        writer.tags({0: bytes(tag.buffer)})


def _read_epochs(reader: Reader, default: int) -> EpochOfPartition:
    """Read partitions with their epochs. Releases before KIP-1251 wrote none, and then all have `default`."""
    found: dict[TopicId, Mapping[int, int]] = {}
    for _ in range(reader.array(_LEAST_TOPIC_BYTES)):
        topic_id, numbers = _read_numbers(reader)
        tagged = reader.tag(0)
        epochs: tuple[int, ...] = () if tagged is None else _read_array(Reader(tagged, flexible=True))
        if not epochs:
            epochs = (default,) * len(numbers)
        if len(epochs) != len(numbers):
            raise MalformedError(f"{len(numbers)} partitions have {len(epochs)} epochs")
        found[topic_id] = shared_epochs(dict(zip(numbers, epochs, strict=True)))
    return found


def _write_regex(writer: Writer, value: ResolvedRegex) -> None:
    _write_texts(writer, sorted(value.topics))
    writer.int64(value.version)
    writer.int64(value.at_ms)
    writer.tags()


def _read_regex(reader: Reader) -> ResolvedRegex:
    resolved = ResolvedRegex(frozenset(_read_texts(reader)), reader.int64(), reader.int64())
    reader.pass_tags()
    return resolved


def _write_texts(writer: Writer, texts: list[str]) -> None:
    writer.array(len(texts))
    for text in texts:
        writer.string(text)


def _read_texts(reader: Reader) -> list[str]:
    return [required_text(reader) for _ in range(reader.array(1))]


def _write_numbers(writer: Writer, topic_id: TopicId, numbers: list[int]) -> None:
    writer.buffer += topic_id
    _write_array(writer, numbers)


def _read_numbers(reader: Reader) -> tuple[TopicId, tuple[int, ...]]:
    return TopicId(bytes(reader.take(_UUID_BYTES))), _read_array(reader)


def _write_array(writer: Writer, numbers: list[int]) -> None:
    writer.array(len(numbers))
    writer.pack(struct.Struct(f">{len(numbers)}i"), *numbers)


def _read_array(reader: Reader) -> tuple[int, ...]:
    return reader.unpack(struct.Struct(f">{reader.array(_PARTITION_BYTES)}i"))


_WRITERS: Final[Mapping[type[ConsumerKey], Callable[[Writer, Any], None]]] = {
    GroupEpochKey: _write_group_epoch,
    MemberKey: _write_metadata,
    TargetEpochKey: _write_target_epoch,
    TargetKey: _write_target,
    CurrentKey: _write_current,
    RegexKey: _write_regex,
}
_READERS: Final[Mapping[type[ConsumerKey], Callable[[Reader], Any]]] = {
    GroupEpochKey: _read_group_epoch,
    TopicMetadataKey: partial(bool),
    MemberKey: _read_metadata,
    TargetEpochKey: _read_target_epoch,
    TargetKey: _read_target,
    CurrentKey: _read_current,
    RegexKey: _read_regex,
}
