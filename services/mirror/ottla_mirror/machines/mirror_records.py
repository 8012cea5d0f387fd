"""The records of a mirror's own topics, as MirrorMaker 2 writes them (KIP-382): Kafka's MirrorClient reads ours.

    topic                               lies in   key                           value
    <source>.checkpoints.internal       target    group, copy, partition        version 0, offset in the source and in
                                                                                the copy, note
    heartbeats                          source    source, target                version 0, time in ms
    mm2-offset-syncs.<source>.internal  target    topic, partition, and ours:   offset in the source and in the copy of
                                                  writer, part of the log       one record
    mm2-mirror.<source>.internal        target    ours: "begun", copy,          version 0, generation, topic id of the
                                                  partition; "paused"           copy; "true" or "false"

An offset sync is about the last record of a stretch; how many records the stretch has is in the header `length`,
without which it is one, of which topic it is in the header `topic-id`, and of which copy in the header `generation`. A
stretch that grows is written anew. Of all that one writer writes about a part of the source's log, compaction leaves
the newest: what is long ago translates late, as it does in a map that was thinned.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla_core.model import TopicPartition
from ottla_core.primitives import MalformedError, Reader, Writer
from ottla_mirror.machines.offset_map import Stretch, SyncedStretch
from ottla_mirror.machines.starts import Begun

_LENGTH: Final = "length"
_TOPIC_ID: Final = "topic-id"
_VERSION: Final = 0
_GENERATION: Final = "generation"
_BEGUN: Final = "begun"
_PART: Final = 4096
"""Offsets of the source in which one stretch is enough in the long run."""

MirrorRecord = tuple[bytes, bytes]
"""Key and value."""


class Checkpoint(NamedTuple):
    """Where a group is in a partition of the source, and where that is in its copy: the offsets of the next record."""

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
    """None for what is no checkpoint of this version."""
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
    """Key, value and headers of what says where a stretch of the source lies in its copy. `writer` is a number that is
    another one for each mirror that is given the partition: what it copies again lies elsewhere."""
    partition, topic_id, stretch, generation = synced
    key, value = Writer(flexible=False), Writer(flexible=False)
    key.int64(writer)
    key.int64(stretch.source // _PART)
    value.int64(stretch.source + stretch.length - 1)
    value.int64(stretch.target + stretch.length - 1)
    headers = [(_LENGTH, b"%d" % stretch.length), (_TOPIC_ID, topic_id), (_GENERATION, b"%d" % generation)]
    return _fields(*partition) + bytes(key.buffer), bytes(value.buffer), headers


def read_offset_sync(key: bytes, value: bytes, headers: Iterable[tuple[str, bytes | None]]) -> SyncedStretch | None:
    """None for what is no offset sync."""
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


def begun_record(copy: TopicPartition, begun: Begun) -> MirrorRecord:
    value = Writer(flexible=False)
    value.int16(_VERSION)
    value.int64(begun.generation)
    return _fields(_BEGUN, *copy), bytes(value.buffer) + begun.copy_id


def read_begun(key: bytes, value: bytes) -> tuple[TopicPartition, Begun] | None:
    """None for what is no such record of this version."""
    of, what = Reader(memoryview(key)), Reader(memoryview(value))
    try:
        kind, topic, partition = of.plain_string(), of.plain_string(), of.int32()
        if kind != _BEGUN or topic is None or what.int16() != _VERSION:
            return None
        return TopicPartition(topic, partition), Begun(what.int64(), value[-what.left :] if what.left else b"")
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
