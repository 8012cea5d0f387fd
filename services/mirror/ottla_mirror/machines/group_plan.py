"""Where groups go on after failover and failback: positions of the source as positions in the copies, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla_core.model import TopicPartition
from ottla_mirror.machines.mirror_records import Checkpoint
from ottla_mirror.machines.topic_names import TopicNames

Translate = Callable[[TopicPartition, int], int | None]
"""From a partition of the source and an offset."""


class PositionMoved(NamedTuple):
    """A group that was at `before` in one cluster is at `after` in the other: offsets of the next record."""

    partition: TopicPartition
    before: int
    copy: TopicPartition
    after: int


def checkpoints_of(
    group: str, committed: Mapping[TopicPartition, int], names: TopicNames, translate: Translate
) -> Iterator[Checkpoint]:
    """Of what the group has committed in the source, wherever anything is known of that."""
    for source, at in sorted(committed.items()):
        copy = names.target_of(source.topic)
        offset = None if copy is None else translate(source, at)
        if copy is not None and offset is not None:
            yield Checkpoint(group, TopicPartition(copy, source.partition), at, offset)


def to_commit(
    now: Iterable[Checkpoint], present: Mapping[TopicPartition, int], former: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """What of the checkpoints `now` a group without members gets in the target, where it has `present`.

    What the mirror itself has put there, which is `former`, follows the source back as well. Where the group has been
    by itself it only goes forward: it has had those records (KIP-545).
    """
    commits = {}
    for checkpoint in now:
        copy, offset = checkpoint.copy, checkpoint.offset
        had = present.get(copy)
        if had is None or offset > had or (had == former.get(copy) and offset != had):
            commits[copy] = offset
    return commits


def brought_back(
    committed: Mapping[TopicPartition, int], names: TopicNames, translate_back: Translate
) -> Iterator[PositionMoved]:
    """Of what a group has committed in the target, what is about copies: where it goes on in the source."""
    for copy, at in sorted(committed.items()):
        topic = names.source_of(copy.topic)
        source = None if topic is None else TopicPartition(topic, copy.partition)
        offset = None if source is None else translate_back(source, at)
        if source is not None and offset is not None:
            yield PositionMoved(copy, at, source, offset)
