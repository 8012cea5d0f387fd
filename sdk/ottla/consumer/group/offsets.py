"""Committed offsets as values: what is committed, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.errors import config_error
from ottla.machines.position import NO_EPOCH
from ottla_core.model import TopicId, TopicPartition
from ottla_proto import group_pb2 as pb


class OffsetAndMetadata(NamedTuple):
    """A place in a partition: `offset` is of the next record to read, `metadata` a note of one's own.

    `leader_epoch` is of the record before it, None where nobody knows: by it a reader sees that a log was truncated.
    """

    offset: int
    metadata: str = ""
    leader_epoch: int | None = None


Offsets = dict[TopicPartition, OffsetAndMetadata]

OffsetsLike = Mapping[Any, int | OffsetAndMetadata]
"""{(topic, partition): offset, or OffsetAndMetadata}."""


class GroupMetadata(NamedTuple):
    """As whom a consumer is in its group; `generation` is -1 and `member_id` "" while it is not."""

    group: str
    generation: int
    member_id: str
    instance_id: str | None


def checked_offsets(given: OffsetsLike) -> Offsets:
    """Raises ConfigError for what is no offset, and for whatever no request can carry."""
    if not isinstance(given, Mapping):
        raise config_error(f"offsets={given!r} are none", hint="give {(topic, partition): offset}")
    return {_checked_partition(partition): _checked_place(partition, place) for partition, place in given.items()}


def _checked_partition(given: Any) -> TopicPartition:
    match given:
        case (str(topic), int(number)) if not isinstance(number, bool) and 0 <= number < 1 << 31:
            return TopicPartition(topic, number)
    raise config_error(f"{given!r} is no partition", hint='give (topic, number), such as ("orders", 0)')


def _checked_place(partition: Any, given: Any) -> OffsetAndMetadata:
    place = given if isinstance(given, OffsetAndMetadata) else OffsetAndMetadata(given)
    if not _is_within(place.offset, 63):
        raise config_error(f"offset={given!r} of {partition} is no offset", hint="give the next one to read, from 0")
    if place.leader_epoch is not None and not _is_within(place.leader_epoch, 31):
        raise config_error(f"leader_epoch={place.leader_epoch!r} of {partition} is none", hint="leave it out")
    if not isinstance(place.metadata, str):
        raise config_error(f"metadata={place.metadata!r} of {partition} is no str", hint="give a note as text, or none")
    return place


def _is_within(number: Any, bits: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << bits


def to_commit(offsets: Offsets, topic_ids: Mapping[TopicPartition, TopicId]) -> list[pb.OffsetToCommit]:
    """As CommitOffsets carries them, with the ids of the topics in which they are places, where those are known."""
    return [
        pb.OffsetToCommit(
            topic=partition.topic,
            partition=partition.partition,
            offset=place.offset,
            leader_epoch=place.leader_epoch,
            metadata=place.metadata,
            topic_id=topic_ids.get(partition, b""),
        )
        for partition, place in offsets.items()
    ]


def topic_told(answer: pb.CommittedOffset) -> TopicId | None:
    """Of which topic; None where nobody knew when it was committed."""
    return TopicId(answer.topic_id) if answer.topic_id else None


def told(answer: pb.CommittedOffset) -> OffsetAndMetadata | None:
    """What was answered for one partition; None where nothing is committed."""
    if answer.offset < 0:
        return None
    epoch = answer.leader_epoch if answer.HasField("leader_epoch") else None
    return OffsetAndMetadata(answer.offset, answer.metadata, epoch)


def place_of(offset: int, epoch: int) -> OffsetAndMetadata:
    """A position as it is committed."""
    return OffsetAndMetadata(offset, leader_epoch=None if epoch == NO_EPOCH else epoch)
