"""Committed offsets as values: what is committed, and what the coordinator says is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ottla.errors import config_error
from ottla.machines.position import NO_EPOCH
from ottla_core.model import TopicId, TopicPartition
from ottla_proto import group_pb2 as pb


class OffsetAndMetadata(NamedTuple):
    """A committed position: `offset` is of the next record to read, `metadata` a note of your own.

    `leader_epoch` is of the record before it, None where it is not known: by it a reader sees that a log was truncated.
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


def checked_offsets(offsets: OffsetsLike) -> Offsets:
    """Raises ConfigError for what is not an offset, and for whatever no request can carry."""
    if not isinstance(offsets, Mapping):
        raise config_error(f"offsets={offsets!r} are none", hint="give {(topic, partition): offset}")
    return {
        _checked_partition(partition): _checked_offset(partition, committed) for partition, committed in offsets.items()
    }


def _checked_partition(partition: Any) -> TopicPartition:
    match partition:
        case (str(topic), int(number)) if not isinstance(number, bool) and 0 <= number < 1 << 31:
            return TopicPartition(topic, number)
    raise config_error(f"{partition!r} is not a partition", hint='give (topic, number), such as ("orders", 0)')


def _checked_offset(partition: Any, offset: Any) -> OffsetAndMetadata:
    committed = offset if isinstance(offset, OffsetAndMetadata) else OffsetAndMetadata(offset)
    if not _is_within(committed.offset, 63):
        raise config_error(
            f"offset={offset!r} of {partition} is not an offset", hint="give the next one to read, from 0"
        )
    if committed.leader_epoch is not None and not _is_within(committed.leader_epoch, 31):
        raise config_error(f"leader_epoch={committed.leader_epoch!r} of {partition} is none", hint="leave it out")
    if not isinstance(committed.metadata, str):
        raise config_error(
            f"metadata={committed.metadata!r} of {partition} is not a str", hint="give a note as text, or none"
        )
    return committed


def _is_within(number: Any, bits: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < 1 << bits


def to_commit(offsets: Offsets, topic_ids: Mapping[TopicPartition, TopicId]) -> list[pb.OffsetToCommit]:
    """As CommitOffsets carries them, with the ids of the topics in which they are valid, where those are known."""
    return [
        pb.OffsetToCommit(
            topic=partition.topic,
            partition=partition.partition,
            offset=committed.offset,
            leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            topic_id=topic_ids.get(partition, b""),
        )
        for partition, committed in offsets.items()
    ]


def committed_topic_id(response: pb.CommittedOffset) -> TopicId | None:
    """Of which topic; None where that was not known when it was committed."""
    return TopicId(response.topic_id) if response.topic_id else None


def committed_offset(response: pb.CommittedOffset) -> OffsetAndMetadata | None:
    """What the coordinator says of one partition; None where nothing is committed."""
    if response.offset < 0:
        return None
    epoch = response.leader_epoch if response.HasField("leader_epoch") else None
    return OffsetAndMetadata(response.offset, response.metadata, epoch)


def offset_and_epoch(offset: int, epoch: int) -> OffsetAndMetadata:
    """A position as it is committed."""
    return OffsetAndMetadata(offset, leader_epoch=None if epoch == NO_EPOCH else epoch)
