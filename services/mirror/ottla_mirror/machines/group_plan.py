"""The plan says where groups resume after failover and failback, by what they have committed in both clusters.

A group is never moved back, in either direction: it has already read the records before its own position (KIP-545).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from ottla_core.model import TopicPartition
from ottla_mirror.machines.mirror_records import Checkpoint
from ottla_mirror.machines.topic_names import TopicNames

Offsets = Mapping[TopicPartition, int]
"""These are the offsets of the next records, which a group has committed."""

Translate = Callable[[TopicPartition, int], int | None]
"""A function from a partition of the source and an offset to an offset."""


class Ways(NamedTuple):
    """These functions translate offsets of the source to its copy, and of the copy to the source, by the offset syncs.

    Recent syncs are exact, and old ones are late because compaction has thinned them. A group's last checkpoint says
    exactly where it was in both clusters. So an idle group keeps its position, however old that is.
    """

    to_copy: Translate
    to_source: Translate
    replaced: Mapping[TopicPartition, str] = MappingProxyType({})
    """This says, by partition of the source, which topic was created again, so that its offsets are not known."""

    def forward(self, source: TopicPartition, at: int, last: Checkpoint | None) -> int | None:
        """Return where a group that is `at` in the source resumes in the copy. A checkpoint ahead of `at` does not
        count, because the group was reset in the source since."""
        if source in self.replaced:
            return None
        found = self.to_copy(source, at)
        if last is None or last.source_offset > at or not self._fits(source, last):
            return found
        return last.offset if found is None else max(found, last.offset)

    def backward(self, source: TopicPartition, at: int, last: Checkpoint | None) -> int | None:
        """Return where a group that is `at` in the copy resumes in the source, by the rules of `forward`."""
        if source in self.replaced:
            return None
        found = self.to_source(source, at)
        if last is None or last.offset > at or not self._fits(source, last):
            return found
        return last.source_offset if found is None else max(found, last.source_offset)

    def _fits(self, source: TopicPartition, last: Checkpoint) -> bool:
        """Tell whether the checkpoint may belong to this copy, not to a deleted one: neither of its offsets is ahead of
        the other."""
        offset, source_offset = self.to_copy(source, last.source_offset), self.to_source(source, last.offset)
        return (offset is None or offset <= last.offset) and (
            source_offset is None or source_offset <= last.source_offset
        )


class Move(NamedTuple):
    """A group is at `before` in a partition, which is `after` in its counterpart `to` in the other cluster, where it
    has committed `had`. All are offsets of the next record; None means unknown or not committed."""

    partition: TopicPartition
    before: int
    to: TopicPartition
    after: int | None
    had: int | None
    replaced: str = ""
    """It is as in `Ways`."""

    @property
    def is_due(self) -> bool:
        """It tells whether `after` has to be committed."""
        return self.after is not None and (self.had is None or self.had < self.after)

    @property
    def obstacle(self) -> str:
        """It says why the group can't go on at `after`. It is "" if the group can, or would already."""
        if self.replaced:
            return self.replaced
        if self.after is None:
            return f"the counterpart of offset {self.before} there is not known"
        if self.had is not None and self.had > self.after:
            return f"it is further ahead there, at {self.had} instead of {self.after}, and is not moved back"
        return ""


def to_target(
    committed: Offsets,
    present: Offsets,
    names: TopicNames,
    ways: Ways,
    known: Mapping[TopicPartition, Checkpoint],
) -> Iterator[Move]:
    """Plan the move to the target, by what a group has `committed` in copied topics of the source and what is `present`
    in the target.

    `known` are its last checkpoints, by the copies.
    """
    for source, at in sorted(committed.items()):
        topic = names.target_of(source.topic)
        if topic is not None:
            copy = TopicPartition(topic, source.partition)
            after = ways.forward(source, at, known.get(copy))
            yield Move(source, at, copy, after, present.get(copy), ways.replaced.get(source, ""))


def by_checkpoints(
    known: Iterable[Checkpoint], present: Offsets, names: TopicNames, replaced: Mapping[TopicPartition, str]
) -> Iterator[Move]:
    """Plan the move to the target by the group's last checkpoints, while the source is away. `replaced` is as in
    `Ways`."""
    for _, copy, source_offset, offset in known:
        source = TopicPartition(names.source_of(copy.topic) or "", copy.partition)
        reason = replaced.get(source, "")
        yield Move(source, source_offset, copy, None if reason else offset, present.get(copy), reason)


def to_source(
    committed: Offsets,
    present: Offsets,
    names: TopicNames,
    ways: Ways,
    known: Mapping[TopicPartition, Checkpoint],
) -> Iterator[Move]:
    """Plan the move to the source, by what a group has `committed` in copies and what is `present` in the source."""
    for copy, at in sorted(committed.items()):
        topic = names.source_of(copy.topic)
        if topic is not None:
            source = TopicPartition(topic, copy.partition)
            after = ways.backward(source, at, known.get(copy))
            yield Move(copy, at, source, after, present.get(source), ways.replaced.get(source, ""))


def further(
    group: str, committed: Offsets, names: TopicNames, ways: Ways, known: Mapping[TopicPartition, Checkpoint]
) -> Iterator[Checkpoint]:
    """Return new checkpoints of a group that works in the target and has `committed` more in the copies than its
    checkpoints say."""
    for move in to_source(committed, {}, names, ways, known):
        last = known.get(move.partition)
        if move.after is not None and (last is None or last.offset < move.before):
            yield Checkpoint(group, move.partition, move.after, move.before)
