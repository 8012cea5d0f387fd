"""Where groups go on after failover and failback: what they have in one cluster, beside what they have in the other.

A group is never led back, in either direction: where it has been by itself it has had those records (KIP-545).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla_core.model import TopicPartition
from ottla_mirror.machines.mirror_records import Checkpoint
from ottla_mirror.machines.topic_names import TopicNames

Offsets = Mapping[TopicPartition, int]
"""What a group has committed: the offsets of the next records."""

Translate = Callable[[TopicPartition, int], int | None]
"""From a partition of the source and an offset."""


class Move(NamedTuple):
    """A group is at `before` in a partition, and so at `after` in its counterpart `to` in the other cluster, where it
    has committed `had`: offsets of the next record, None where nothing is known or committed."""

    partition: TopicPartition
    before: int
    to: TopicPartition
    after: int | None
    had: int | None

    @property
    def is_due(self) -> bool:
        """Whether `after` is to be committed."""
        return self.after is not None and (self.had is None or self.had < self.after)

    @property
    def obstacle(self) -> str:
        """Why the group can't go on at `after`; "" where it can, or would already."""
        if self.after is None:
            return f"it is not known where offset {self.before} is there"
        if self.had is not None and self.had > self.after:
            return f"it is further there, at {self.had} instead of {self.after}, and is not led back"
        return ""


def to_target(
    committed: Offsets,
    present: Offsets,
    names: TopicNames,
    translate: Translate,
    known: Mapping[TopicPartition, Checkpoint],
) -> Iterator[Move]:
    """What a group has `committed` in the source, of all that is copied, beside what is `present` in the target.

    Where the offset syncs do not reach so far back, the group's last checkpoint is as good, unless it is ahead: the
    group was led back in the source then.
    """
    for source, at in sorted(committed.items()):
        topic = names.target_of(source.topic)
        if topic is not None:
            copy = TopicPartition(topic, source.partition)
            offset, last = translate(source, at), known.get(copy)
            if offset is None and last is not None and last.source_offset <= at:
                offset = last.offset
            yield Move(source, at, copy, offset, present.get(copy))


def by_checkpoints(known: Iterable[Checkpoint], present: Offsets, names: TopicNames) -> Iterator[Move]:
    """The same by the group's last checkpoints, where the source is away."""
    for _, copy, source_offset, offset in known:
        source = TopicPartition(names.source_of(copy.topic) or "", copy.partition)
        yield Move(source, source_offset, copy, offset, present.get(copy))


def to_source(committed: Offsets, present: Offsets, names: TopicNames, translate_back: Translate) -> Iterator[Move]:
    """What a group has `committed` in the target, of all that is a copy, beside what is `present` in the source."""
    for copy, at in sorted(committed.items()):
        topic = names.source_of(copy.topic)
        if topic is not None:
            source = TopicPartition(topic, copy.partition)
            yield Move(copy, at, source, translate_back(source, at), present.get(source))
