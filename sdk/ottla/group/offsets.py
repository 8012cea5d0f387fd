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
    """Raises ConfigError for what is no offset."""
    offsets: Offsets = {}
    for partition, place in given.items():
        wanted = place if isinstance(place, OffsetAndMetadata) else OffsetAndMetadata(place)
        if isinstance(wanted.offset, bool) or not isinstance(wanted.offset, int) or wanted.offset < 0:
            raise config_error(
                f"offset={place!r} of {partition} is no offset", hint="give the next one to read, from 0"
            )
        offsets[TopicPartition(*partition)] = wanted
    return offsets


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
