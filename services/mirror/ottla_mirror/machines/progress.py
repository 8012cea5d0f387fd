"""How far one partition is copied: what was sent, what of it the target has, and from where a successor would go on.

The position goes up to the first batch that the target has not acknowledged, in the order of the source. It is what the
mirror's group commits, so whatever ends a mirror, nothing before the committed offset is missing in the target.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.machines.copying import Fetched, OutgoingBatch
from ottla_mirror.machines.offset_map import OffsetMap, Stretch


class Position(NamedTuple):
    """An offset in the source: of which topic, and in which leader epoch the record before it was written."""

    offset: int
    topic_id: TopicId
    leader_epoch: int = -1


def note_of(position: Position, last: Stretch | None) -> str:
    """What is committed beside a position: what else a successor has to know, the last stretch of the copy included."""
    return ":".join([position.topic_id.hex(), str(position.leader_epoch), *map(str, last or ())])


def read_note(offset: int, note: str) -> tuple[Position, Stretch | None] | None:
    """The position that was committed so, and that stretch; None where the note is not a mirror's."""
    topic_id, *numbers = note.split(":")
    try:
        epoch, *stretch = map(int, numbers)
        position = Position(offset, TopicId(bytes.fromhex(topic_id)), epoch)
        return position, Stretch(*stretch) if stretch else None
    except (ValueError, TypeError):
        return None


class Outcome(Protocol):
    """What becomes of a batch that was sent."""

    def done(self) -> bool: ...


class Sent(NamedTuple):
    """A batch under way, or, without one, the end of what a fetch brought: behind it everything up to there is done."""

    outcome: Outcome | None
    outgoing: OutgoingBatch | None
    position: Position


class CopiedPartition:
    """A partition of the source, and the one of the target that is its copy. `position` is None before the first one
    is known; `error` says why nothing is copied at the moment."""

    __slots__ = ("bytes", "committed", "copy", "error", "map", "position", "records", "sent", "source", "timestamp_ms")

    def __init__(
        self,
        source: TopicPartition,
        copy: TopicPartition,
        position: Position | None = None,
        stretch: Stretch | None = None,
    ) -> None:
        """`position` and `stretch`: what a predecessor has committed."""
        self.source = source
        self.copy = copy
        self.position = self.committed = position
        self.sent: deque[Sent] = deque()
        self.map = OffsetMap()
        if stretch is not None:
            self.map.add(*stretch)
        self.records = 0
        self.bytes = 0
        self.timestamp_ms = -1  # of the newest record that was copied
        self.error = ""

    def send(self, fetched: Fetched, outgoing: OutgoingBatch, outcome: Outcome) -> None:
        """`outgoing`, a batch of `fetched`, is on its way."""
        position = Position(outgoing.next_offset, fetched.topic_id, outgoing.leader_epoch)
        self.sent.append(Sent(outcome, outgoing, position))

    def end(self, fetched: Fetched) -> None:
        """All of `fetched` is on its way."""
        position = Position(fetched.next_offset, fetched.topic_id, fetched.leader_epoch)
        self.sent.append(Sent(None, None, position))

    def settle(self, base_offset: Callable[[Outcome], int]) -> None:
        """Take over what the target has. `base_offset` gives where in the copy a batch lies, -1 where that is not
        known, or raises why it does not: then the position stays before it."""
        while self.sent and (self.sent[0].outcome is None or self.sent[0].outcome.done()):
            outcome, outgoing, position = self.sent[0]
            if outcome is not None and outgoing is not None:
                self._on_written(outgoing, base_offset(outcome))
            self.position = position
            self.sent.popleft()

    def start_over(self) -> None:
        """What is under way does not count: it will be read again."""
        self.sent.clear()

    def _on_written(self, outgoing: OutgoingBatch, base_offset: int) -> None:
        self.records += outgoing.batch.record_count
        self.bytes += outgoing.batch.size_bytes
        self.timestamp_ms = max(self.timestamp_ms, outgoing.batch.max_timestamp_ms)
        if base_offset < 0:
            return
        for run in outgoing.runs:
            self.map.add(run.first, base_offset, run.length)
            base_offset += run.length
