"""When a mirror is assigned a partition, this table decides where copying it resumes, by all that is known of it.

    begun in this copy   group's position   syncs     the copy      it goes on
    yes                  known              -         -             at the group's position
    yes                  expired            reach on  -             where the syncs end
    yes                  expired            none      -             at the source's beginning: nothing is in the copy
    of that name, not this one              -         empty         at the source's beginning
    never                known              none      -             at the group's position: an older mirror began it
    never                -                  -         empty         at the source's beginning
    any other                                         has records   not at all: whose they are is not known

A group's positions expire when its members are away for long enough (offsets.retention.minutes). Offset syncs do not
expire, because their topic is compacted. They are written before a position is committed, or in one transaction with
it. So they are never behind what was copied exactly once, and never ahead of what is in the copy.

Once the topic, its copy and the group's position are gone, what was begun is forgotten ("never"). The syncs that are
left of that copy carry its generation, and the next copy gets another generation.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.machines.progress import Position


class Begun(NamedTuple):
    """A flow has begun to fill the copy with the topic id `copy_id`. `generation` counts the copies of that name that
    it began, from 1; it is 0 if an older mirror began the copy and noted nothing. Syncs of earlier generations do not
    count."""

    generation: int
    copy_id: TopicId


class Known(NamedTuple):
    """This is what is known of a partition: which copy was `begun`, the position that the group has `committed`, the
    position after what was `synced` since it began, and the topic id and end offset of the existing copy. `generation`
    is the newest generation that has syncs, or 0."""

    begun: Begun | None
    committed: Position | None
    synced: Position | None
    copy_id: TopicId
    copy_end: int
    generation: int = 0


class Start(NamedTuple):
    """Once `begun` is noted, reading the source starts at `position`; None means its beginning."""

    position: Position | None
    begun: Begun


def start_of(copy: TopicPartition, known: Known, *, compares: bool) -> Start:
    """Return where copying starts. `compares` says whether the copy may have other writers' records, or is compared
    with the source.

    Raises OFFSET_MISMATCH if the copy has unknown records.
    """
    begun = known.begun
    if begun is not None and begun.copy_id == known.copy_id:
        return Start(known.committed or known.synced, begun)
    if begun is None and known.committed is not None and not known.generation:
        return Start(known.committed, Begun(0, known.copy_id))
    if known.copy_end and not compares:
        raise _foreign(copy, known)
    former = known.generation if begun is None else begun.generation
    return Start(None, Begun(former + 1, known.copy_id))


def _foreign(copy: TopicPartition, known: Known) -> OttlaError:
    reason = "the mirror has no position for it" if known.begun is None else f"{copy.topic} was recreated"
    return OttlaError(
        ErrorCode.OFFSET_MISMATCH,
        f"{copy} ends at offset {known.copy_end}, but {reason}: its records are earlier copies, which copying again "
        "would duplicate, or another program wrote them",
        hint=f"delete {copy.topic}; the mirror then makes a complete new copy",
    )
