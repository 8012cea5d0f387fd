"""Where copying a partition goes on when a mirror is given it, by everything that is known of it.

    begun in this copy   group's position   syncs     the copy      it goes on
    yes                  known              -         -             at the group's position
    yes                  expired            reach on  -             where the syncs end
    yes                  expired            none      -             at the source's beginning: nothing is in the copy
    of that name, not this one              -         empty         at the source's beginning
    never                known              -         -             at the group's position: an older mirror began it
    never                none               -         empty         at the source's beginning
    any other                                         has records   not at all: whose they are is not known

Positions of a group expire where its members are away for long enough (offsets.retention.minutes). Offset syncs do not:
they are in a compacted topic, and are written before a position is committed, or in one transaction with it. So they
are never behind what was copied exactly once, and never ahead of what is in the copy.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicPartition
from ottla_mirror.machines.progress import Position


class Begun(NamedTuple):
    """A flow has begun to fill the copy that has the topic id `copy_id`. `generation` counts how often it began one of
    that name, from 1 on; 0 where an older mirror did, which noted nothing. Syncs of an earlier one do not count."""

    generation: int
    copy_id: bytes


class Known(NamedTuple):
    """What is known of a partition: what was `begun`, the position that the group has `committed`, the one behind what
    was `synced` since it began, and the copy that is there, with its topic id and its end offset."""

    begun: Begun | None
    committed: Position | None
    synced: Position | None
    copy_id: bytes
    copy_end: int


class Start(NamedTuple):
    """Reading the source goes on at `position`, from its beginning for None, once `begun` is noted."""

    position: Position | None
    begun: Begun


def start_of(copy: TopicPartition, known: Known, *, compares: bool) -> Start:
    """Where it goes on. `compares`: whether what is in the copy may be of others, or is compared with the source.

    Raises OFFSET_MISMATCH where the copy has records of which nothing is known.
    """
    begun = known.begun
    if begun is not None and begun.copy_id == known.copy_id:
        return Start(known.committed or known.synced, begun)
    if begun is None and known.committed is not None:
        return Start(known.committed, Begun(0, known.copy_id))
    if known.copy_end and not compares:
        raise _foreign(copy, known)
    return Start(None, Begun(1 if begun is None else begun.generation + 1, known.copy_id))


def _foreign(copy: TopicPartition, known: Known) -> OttlaError:
    reason = "no position is known" if known.begun is None else f"{copy.topic} was created again"
    return OttlaError(
        ErrorCode.OFFSET_MISMATCH,
        f"{copy} ends at {known.copy_end}, and {reason}: what is in it would be doubled, or is of others",
        hint=f"delete {copy.topic}, and all of it is copied again",
    )
