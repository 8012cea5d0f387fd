"""Committed offsets as values, in requests and in responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.errors import config_error
from ottla.machines.position import NO_EPOCH
from ottla_core.model import TopicId, TopicPartition


class OffsetAndMetadata(NamedTuple):
    """A committed position: `offset` is the offset of the next record to read, and `metadata` is a note of your own.

    `leader_epoch` is the leader epoch of the record before that offset, or None if unknown; a reader uses it to detect
    that a log was truncated. `topic_id` is the id of the topic in which the offset is valid. None means the topic that
    the last returned records came from, and b"" means whichever topic currently has that name.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None
    topic_id: bytes | None = None


Offsets = dict[TopicPartition, OffsetAndMetadata]

OffsetsLike = Mapping[Any, int | OffsetAndMetadata]
"""{(topic, partition): offset, or OffsetAndMetadata}."""


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """A consumer's identity in its group. While the consumer is not a member, `generation` is -1 and `member_id` is "".

    `topic_ids` are the ids of the topics that the last returned records came from; the consumer's offsets are valid
    only in these topics.
    """

    group: str
    generation: int
    member_id: str
    instance_id: str | None
    topic_ids: Mapping[TopicPartition, TopicId] = field(default_factory=dict, compare=False, repr=False)


def checked_offsets(offsets: OffsetsLike) -> Offsets:
    """Return the checked offsets. Raises ConfigError for one that is invalid, or that no request can carry."""
    if not isinstance(offsets, Mapping):
        raise config_error(f"offsets={offsets!r} is not valid", hint="pass {(topic, partition): offset}")
    return {
        _checked_partition(partition): _checked_offset(partition, committed) for partition, committed in offsets.items()
    }


def _checked_partition(partition: Any) -> TopicPartition:
    match partition:
        case (str(topic), int(number)) if not isinstance(number, bool) and 0 <= number < 1 << 31:
            return TopicPartition(topic, number)
    raise config_error(f"{partition!r} is not a partition", hint='pass (topic, number), such as ("orders", 0)')


def _checked_offset(partition: Any, offset: Any) -> OffsetAndMetadata:
    committed = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
    if not _is_within(committed.offset, 63):
        raise config_error(
            f"offset={offset!r} for {partition} is not an offset", hint="pass the next offset to read, 0 or more"
        )
    if committed.leader_epoch is not None and not _is_within(committed.leader_epoch, 31):
        raise config_error(f"leader_epoch={committed.leader_epoch!r} for {partition} is not valid", hint="leave it out")
    if committed.topic_id is not None and not _is_topic_id(committed.topic_id):
        raise config_error(f"topic_id={committed.topic_id!r} for {partition} is not valid", hint="leave it out")
    if not isinstance(committed.metadata, str):
        raise config_error(
            f"metadata={committed.metadata!r} for {partition} is not a str", hint="pass a str, or leave it out"
        )
    return committed


def _is_within(number: Any, bits: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << bits


def _is_topic_id(given: Any) -> bool:
    return isinstance(given, bytes) and len(given) in (0, 16)


def in_topics(offsets: Offsets, topic_ids: Mapping[TopicPartition, TopicId]) -> Offsets:
    """Return the offsets, each with the id of its topic. `topic_ids` has the ids for offsets without one."""
    return {
        at: offset if offset.topic_id is not None else offset._replace(topic_id=topic_ids.get(at, b""))
        for at, offset in offsets.items()
    }


def offset_and_epoch(offset: int, epoch: int, topic_id: bytes | None) -> OffsetAndMetadata:
    """Return a position as it is committed."""
    return OffsetAndMetadata(offset, "", None if epoch == NO_EPOCH else epoch, topic_id)
