"""Progress says how far a partition is copied: what was sent, what the target has, and where a successor would resume.

Batches are in flight, and may be acknowledged late, fail, or be sent again. A successor must resume where nothing is
missing. So the position is before the first batch, in the order of the source, that the target has not acknowledged,
and the mirror's group commits it (I31). However a mirror ends, nothing before the committed offset is missing in the
target.

The same pass notes *stretches*, which say where the copied records lie in the copy. Consumer groups are translated by
them, so a stretch is noted only once the target has reported where its records are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.machines.copying import Fetched
from ottla_mirror.machines.encoding import Run
from ottla_mirror.machines.offset_map import Stretch, SyncedStretch
from ottla_mirror.machines.stages import Stage


class Position(NamedTuple):
    """A position is an offset in the source, with the topic's id and the leader epoch of the record before it."""

    offset: int
    topic_id: TopicId
    leader_epoch: int = -1


BEGINNING: Final = Position(0, TopicId(bytes(16)))
"""A group commits this for a new copy until it has copied something. No topic has that id, so mirrors of any version
read the source from its beginning."""


def note_of(position: Position) -> str:
    """Return the metadata that is committed with a position's offset."""
    return f"{position.topic_id.hex()}:{position.leader_epoch}"


def read_note(offset: int, note: str) -> Position | None:
    """Return the position that was committed with this note, or None if the note is not a mirror's."""
    # Mirrors of version 0.1 wrote ";" behind a note in another Kafka.
    topic_id, _, epoch = note.removesuffix(";").partition(":")
    try:
        return Position(offset, TopicId(bytes.fromhex(topic_id)), int(epoch))
    except ValueError:
        return None


class Outcome(Protocol):
    """An outcome says what becomes of a batch that was sent."""

    def done(self) -> bool: ...

    def runs(self) -> Sequence[Run]:
        """Return where in the copy its records are, as far as that is known. Raises if the batch failed."""

    def refusal(self) -> str:
        """Return why the target has refused it so far, while it is being retried, or "" if that is not known."""


class Written(Protocol):
    """This is written to the target at once: an `OutgoingBatch` or a `KeptBlock`."""

    @property
    def runs(self) -> tuple[Run, ...]: ...
    @property
    def next_offset(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def record_count(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def max_timestamp_ms(self) -> int: ...


class Sent(NamedTuple):
    """An entry is a batch in flight or, without a batch, the end of a fetched block: when it is reached, the block is
    done."""

    outcome: Outcome | None
    outgoing: Written | None
    position: Position


class Progress(NamedTuple):
    """The target has everything before `position`, which is None until the first one is known. The other fields count
    from when the mirror was assigned the partition; `timestamp_ms` is the newest record's."""

    position: Position | None
    records: int = 0
    bytes: int = 0
    timestamp_ms: int = -1


class Reading(Protocol):
    """This is a read position in the source and the source's end, or -1 if that is not known:
    `ottla.connect.ReadPosition`."""

    @property
    def offset(self) -> int | None: ...
    @property
    def end(self) -> int: ...


class Lag(NamedTuple):
    """The lag is what is left between `position` and the end of the source. `records` counts offsets. `ms` is the age
    of the newest copied record, or 0 if nothing is left. Each is None if it is not known."""

    position: int | None
    records: int | None
    ms: int | None


class CopiedPartition:
    """A partition of the source, and the partition of the target that is its copy.

    `prepared` is its progress once the current transaction commits. `error` says why nothing is copied at the moment,
    `failures` how often in a row that was the case, and `again_at` when it is tried again, in monotonic seconds.
    `joins` says whether the target takes several small batches as one. `copy_id` is the topic id of the copy that it
    fills, None while that is not known, and `generation` counts the copies of that name. `writer` distinguishes this
    mirror's offset syncs from those of others that had the partition. `in_flight_bytes` is the size of the sent batches
    that are not counted as acknowledged yet.
    """

    __slots__ = (
        "_stretches",
        "_taken",
        "again_at",
        "committed",
        "copy",
        "copy_id",
        "error",
        "failures",
        "generation",
        "in_flight_bytes",
        "joins",
        "prepared",
        "progress",
        "sent",
        "source",
        "stage",
        "writer",
    )

    def __init__(
        self,
        source: TopicPartition,
        copy: TopicPartition,
        position: Position | None = None,
        *,
        writer: int = 0,
        generation: int = 0,
        copy_id: TopicId | None = None,
    ) -> None:
        """Begin at `position`, where a predecessor was in the copy of that generation."""
        self.source = source
        self.copy = copy
        self.writer = writer
        self.generation = generation
        self.copy_id = copy_id
        self.committed = position
        self.progress = self.prepared = Progress(position)
        self.sent: deque[Sent] = deque()
        self.in_flight_bytes = 0
        self.stage = Stage.HELD
        self.joins = True
        self.error = ""
        self.failures = 0
        self.again_at = 0.0
        self._stretches: list[SyncedStretch] = []
        # The newest stretch that was taken. It stays in the list, because adjacent records make it grow.
        self._taken: SyncedStretch | None = None

    @property
    def position(self) -> Position | None:
        return self.progress.position

    @property
    def trouble(self) -> str:
        """It says why the partition is not copied, or why the target refuses what was sent, or is "". For any
        thread."""
        # It is a copy, because any thread may ask while the flow's thread adds and removes.
        oldest = next(iter(self.sent.copy()), None)
        return self.error or ("" if oldest is None or oldest.outcome is None else oldest.outcome.refusal())

    @property
    def sent_position(self) -> Position | None:
        """This is the position after everything that was sent."""
        return self.sent[-1].position if self.sent else self.position

    @property
    def is_waiting(self) -> bool:
        """Whether the target has yet to acknowledge or reject a batch that was sent."""
        return any(outcome is not None and not outcome.done() for outcome, _, _ in self.sent)

    @property
    def records(self) -> int:
        return self.progress.records

    @property
    def bytes(self) -> int:
        return self.progress.bytes

    def lag(self, read: Reading | None, now_ms: int) -> Lag:
        """Return how far the copy is behind the source, as far as the source was read."""
        position = None if self.position is None else self.position.offset
        if position is None and read is not None and not self.sent:
            position = read.offset  # no earlier record was in it
        if read is None or read.end < 0 or position is None:
            return Lag(position, None, None)
        left, newest_ms = max(0, read.end - position), self.progress.timestamp_ms
        if not left:
            return Lag(position, 0, 0)
        return Lag(position, left, None if newest_ms < 0 else max(0, now_ms - newest_ms))

    def send(self, fetched: Fetched, outgoing: Written, outcome: Outcome) -> None:
        """Note that `outgoing`, a batch of `fetched`, is on its way."""
        position = Position(outgoing.next_offset, fetched.topic_id, outgoing.leader_epoch)
        self.sent.append(Sent(outcome, outgoing, position))
        self.in_flight_bytes += outgoing.size_bytes

    def end(self, fetched: Fetched) -> None:
        """Note that all of `fetched` is on its way.

        The end of a block may lie behind its last batch, as after aborted records. Without an entry for it, the
        position would stay before them, and each successor would read them again.
        """
        position = Position(fetched.next_offset, fetched.topic_id, fetched.leader_epoch)
        self.sent.append(Sent(None, None, position))

    def settle(self) -> None:
        """Count what the target has acknowledged. Raises if a batch failed. The position then stays before it."""
        try:
            self.prepare()
        finally:
            # In `finally`, so that batches before the failed one count.
            self.complete()

    def prepare(self) -> None:
        """Count what the target has acknowledged within a transaction. `complete` makes it final, and `go_back` undoes
        it."""
        # It goes in order, and up to the first batch that is not done: later batches that are acknowledged do not move
        # the position.
        while self.sent and (self.sent[0].outcome is None or self.sent[0].outcome.done()):
            outcome, outgoing, position = self.sent[0]
            if outcome is not None and outgoing is not None:
                self._on_written(outgoing, outcome.runs(), position.topic_id)
            self.prepared = self.prepared._replace(position=position)
            # The batch is removed after `runs` has not raised. A failed batch stays, and the position before it.
            self.sent.popleft()
            self.in_flight_bytes -= 0 if outgoing is None else outgoing.size_bytes

    def complete(self) -> None:
        """Count what was prepared, because it is committed."""
        self.progress = self.prepared

    def start_over(self) -> None:
        """Discard the batches in flight, which will be read again."""
        self.sent.clear()
        self.in_flight_bytes = 0

    def go_back(self) -> None:
        """Discard what was prepared as well."""
        self.start_over()
        self.prepared = self.progress
        self._stretches.clear()

    def start_at(self, position: Position | None, generation: int, copy_id: TopicId) -> None:
        """Start at `position` if the copy is of another generation. In the copy that it has been filling, it stays
        where it was."""
        self.copy_id = copy_id
        # In the copy that it has been filling, this mirror knows its position better than the group does.
        if generation != self.generation or self.position is None:
            self.generation = generation
            self.committed = position
            self.progress = self.prepared = Progress(position)
            self.go_back()

    def take_stretches(self) -> list[SyncedStretch]:
        """Return the stretches that are new since the last call, or have grown."""
        taken = [stretch for stretch in self._stretches if stretch != self._taken]
        self._stretches = self._stretches[-1:]
        self._taken = self._stretches[-1] if self._stretches else None
        return taken

    def _on_written(self, outgoing: Written, runs: Sequence[Run], topic_id: TopicId) -> None:
        done = self.prepared
        self.prepared = Progress(
            done.position,
            done.records + outgoing.record_count,
            done.bytes + outgoing.size_bytes,
            max(done.timestamp_ms, outgoing.max_timestamp_ms),
        )
        for stretch in _in_step(outgoing.runs, runs):
            self._note(topic_id, stretch)

    def _note(self, topic_id: TopicId, new: Stretch) -> None:
        if self._stretches:
            of, last = self._stretches[-1].topic_id, self._stretches[-1].stretch
            # Records that are adjacent on both sides lengthen the stretch, so that a partition without gaps needs a
            # single one.
            if (of, last.source + last.length, last.target + last.length) == (topic_id, new.source, new.target):
                new = Stretch(last.source, last.target, last.length + new.length)
                self._stretches.pop()
        self._stretches.append(SyncedStretch(self.source, topic_id, new, self.generation))


def _in_step(sources: Iterable[Run], targets: Iterable[Run]) -> Iterator[Stretch]:
    """Yield the stretches of records that are adjacent on both sides. The records are the same, in the same order."""
    left = iter(targets)
    target = next(left, None)
    for source in sources:
        while source.length and target is not None:
            length = min(source.length, target.length)
            yield Stretch(source.first, target.first, length)
            source, target = source.after(length), target.after(length)
            target = target if target.length else next(left, None)
