"""The records of a mirror's own topics, as MirrorMaker 2 writes them (KIP-382). Kafka's MirrorClient reads them.

    topic                               lies in   key                           value
    <source>.checkpoints.internal       target    group, copy, partition        version 0, offset in the source and in
                                                                                the copy, note
    heartbeats                          source    source, target                version 0, time in ms
    mm2-offset-syncs.<source>.internal  target    topic, partition, and ours:   offset in the source and in the copy of
                                                  writer, part of the log       one record
    mm2-mirror.<source>.internal        target    ours: "begun", copy,          version 0, generation, topic id of the
                                                  partition; "paused"           copy; "true" or "false"
                                                                                null once topic and copy are gone

An offset sync is about the last record of a stretch. Its header `length` is the stretch's number of records (1 without
it), `topic-id` tells the source's topic, and `generation` the copy. When a stretch grows, it is written again.
Compaction keeps the newest sync of each writer for each part of the source's log, so old offsets translate late, as in
a map that was thinned. A sync's tombstone has a header `retired-before`: neither cluster has records before that offset
of the source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.machines.offset_map import Stretch, SyncedStretch
from ottla_mirror.machines.starts import Begun

_LENGTH: Final = "length"
_TOPIC_ID: Final = "topic-id"
_VERSION: Final = 0
_GENERATION: Final = "generation"
_RETIRED: Final = "retired-before"
_BEGUN: Final = "begun"
PART: Final = 4096
"""In the long run one stretch is kept for this many offsets of the source."""

MirrorRecord = tuple[bytes, bytes]
"""A record's key and value."""


class Checkpoint(NamedTuple):
    """A checkpoint says where a group is in a partition of the source, and in its copy: the offsets of the next
    record."""

    group: str
    copy: TopicPartition
    source_offset: int
    offset: int

    def record(self) -> MirrorRecord:
        value = Writer(flexible=False)
        value.int16(_VERSION)
        value.int64(self.source_offset)
        value.int64(self.offset)
        value.string("")
        return _fields(self.group, *self.copy), bytes(value.buffer)


def read_checkpoint(key: bytes, value: bytes) -> Checkpoint | None:
    """Return the checkpoint, or None for what is no checkpoint of this version."""
    of, what = Reader(memoryview(key)), Reader(memoryview(value))
    try:
        group, topic, partition = of.plain_string(), of.plain_string(), of.int32()
        if what.int16() != _VERSION or group is None or topic is None:
            return None
        return Checkpoint(group, TopicPartition(topic, partition), what.int64(), what.int64())
    except MalformedError:
        return None


def heartbeat(source: str, target: str, now_ms: int) -> MirrorRecord:
    value = Writer(flexible=False)
    value.int16(_VERSION)
    value.int64(now_ms)
    return _fields(source, target), bytes(value.buffer)


def offset_sync(synced: SyncedStretch, writer: int) -> tuple[bytes, bytes, list[tuple[str, bytes]]]:
    """Return key, value and headers of the sync that says where a stretch of the source lies in its copy. `writer` is a
    different number for each mirror that is assigned the partition, because what it copies again lies elsewhere."""
    partition, _, stretch, _ = synced
    key, value = Writer(flexible=False), Writer(flexible=False)
    key.int64(writer)
    key.int64(stretch.source // PART)
    value.int64(stretch.source + stretch.length - 1)
    value.int64(stretch.target + stretch.length - 1)
    headers = [(_LENGTH, b"%d" % stretch.length), *_headers_of(synced)]
    return _fields(*partition) + bytes(key.buffer), bytes(value.buffer), headers


def _headers_of(synced: SyncedStretch) -> list[tuple[str, bytes]]:
    return [(_TOPIC_ID, synced.topic_id), (_GENERATION, b"%d" % synced.generation)]


def read_offset_sync(key: bytes, value: bytes, headers: Iterable[tuple[str, bytes | None]]) -> SyncedStretch | None:
    """Return the offset sync, or None for what is none."""
    of, what, more = Reader(memoryview(key)), Reader(memoryview(value)), dict(headers)
    try:
        topic, partition, source, target = of.plain_string(), of.int32(), what.int64(), what.int64()
        length, generation = int(more.get(_LENGTH) or b"1"), int(more.get(_GENERATION) or b"0")
    except (MalformedError, ValueError):
        return None
    if topic is None or length < 1:
        return None
    stretch = Stretch(source - length + 1, target - length + 1, length)
    return SyncedStretch(TopicPartition(topic, partition), more.get(_TOPIC_ID) or b"", stretch, generation)


class SyncKey(NamedTuple):
    """An offset sync's key has the partition of the source, the mirror that wrote it, and the part of the log in which
    its stretch begins."""

    source: TopicPartition
    writer: int
    part: int


def read_sync_key(key: bytes) -> SyncKey | None:
    """Return the key of an offset sync, or None for what is none."""
    of = Reader(memoryview(key))
    try:
        topic, partition, writer, part = of.plain_string(), of.int32(), of.int64(), of.int64()
    except MalformedError:
        return None
    return None if topic is None else SyncKey(TopicPartition(topic, partition), writer, part)


def retired_headers(synced: SyncedStretch, before: int) -> list[tuple[str, bytes]]:
    """Return the headers of a sync's tombstone. `before` is as in `OffsetMaps.retire`."""
    return [(_RETIRED, b"%d" % before), *_headers_of(synced)]


def read_retired(key: bytes, headers: Iterable[tuple[str, bytes | None]]) -> tuple[SyncedStretch, int] | None:
    """Return the stretch of a deleted sync, without its offsets, which are not known, and `before`. None if it is no
    such tombstone."""
    of, more = read_sync_key(key), dict(headers)
    try:
        before, generation = int(more.get(_RETIRED) or b""), int(more.get(_GENERATION) or b"0")
    except ValueError:
        return None
    if of is None:
        return None
    return SyncedStretch(of.source, more.get(_TOPIC_ID) or b"", Stretch(0, 0, 0), generation), before


def begun_record(copy: TopicPartition, begun: Begun) -> MirrorRecord:
    value = Writer(flexible=False)
    value.int16(_VERSION)
    value.int64(begun.generation)
    return begun_key(copy), bytes(value.buffer) + begun.copy_id


def begun_key(copy: TopicPartition) -> bytes:
    """Return the key of the record that says that a flow fills `copy`. Its tombstone says that the copy is gone."""
    return _fields(_BEGUN, *copy)


def read_begun_key(key: bytes) -> TopicPartition | None:
    """Return the copy that the key names, or None for what is no such key."""
    of = Reader(memoryview(key))
    try:
        kind, topic, partition = of.plain_string(), of.plain_string(), of.int32()
    except MalformedError:
        return None
    return None if kind != _BEGUN or topic is None else TopicPartition(topic, partition)


def read_begun(key: bytes, value: bytes) -> tuple[TopicPartition, Begun] | None:
    """Return the copy and its record, or None for what is no such record of this version."""
    copy, what = read_begun_key(key), Reader(memoryview(value))
    try:
        if copy is None or what.int16() != _VERSION:
            return None
        return copy, Begun(what.int64(), TopicId(value[-what.left :] if what.left else b""))
    except MalformedError:
        return None


def _fields(*fields: str | int) -> bytes:
    writer = Writer(flexible=False)
    for field in fields:
        if isinstance(field, str):
            writer.string(field)
        else:
            writer.int32(field)
    return bytes(writer.buffer)
