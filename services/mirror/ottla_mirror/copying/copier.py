"""Copies the partitions that it is given, one fetched block after the other, at least once.

A batch is read, sent, acknowledged, and only then counted into the position that the group commits; before that, the
flow's offset syncs have where it lies. The producer keeps order and repeats what was not acknowledged; a batch that
fails for good leaves its partition where it is, and is read again.

Each partition is in one stage (`machines/stages.py`); what the copier keeps beside that are lists of work, so that a
step costs what there is to do, and not what there is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import ottla
from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode
from ottla_core.model import TopicPartition
from ottla_mirror.clusters.cluster import FetchedBlock, Member, Reader, Sent, Writer
from ottla_mirror.machines.copying import outgoing
from ottla_mirror.machines.loop_marks import LoopMarks
from ottla_mirror.machines.mirror_records import offset_sync
from ottla_mirror.machines.progress import CopiedPartition, Position, note_of
from ottla_mirror.machines.stages import NEXT, Event, Stage

logger = logging.getLogger("ottla.mirror")

Starting = Callable[[Sequence[CopiedPartition]], Mapping[CopiedPartition, ottla.OttlaError]]
"""Finds where partitions go on, all at once; gives those that can't, and why. Raises what keeps all of them from it."""

_SYNC_S: Final = 0.1
"""What is copied can be translated after that time."""

_COMMIT_S: Final = 1.0
SETTLE_S: Final = 30.0
"""How long what is under way may take before partitions are given up."""

_AGAIN_S: Final = 2.0
_AGAIN_MOST_S: Final = 16.0
"""Between two tries of a partition that could not be copied, each time twice as long: a target that takes one record
after the other has those twice that come with one that it does not take."""


class Copier:
    """`writer` writes to the target, also to `syncs`, the flow's offset syncs, and `member` is in the group there
    whose partitions these are. `start` is for partitions that could not be copied.

    For one thread.
    """

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        member: Member,
        syncs: str,
        clock: Clock,
        start: Starting,
        marks: LoopMarks | None = None,
    ) -> None:
        self.partitions: Mapping[TopicPartition, CopiedPartition] = {}  # by the source's; replaced, never changed
        self.paused = True
        """Nothing is under way."""
        self._reader: Final = reader
        self._writer: Final = writer
        self._member: Final = member
        self._syncs: Final = syncs
        self._clock: Final = clock
        self._start: Final = start
        self._marks: Final = marks
        self._under_way: Final[dict[CopiedPartition, None]] = {}  # has sent what the target has not acknowledged
        self._aside: Final[dict[CopiedPartition, None]] = {}
        self._moved: Final[dict[CopiedPartition, None]] = {}  # since the last commit
        self._synced: Final[list[Sent]] = []  # syncs that are not known to be there
        self._sync_at = self._commit_at = clock.monotonic()

    def take(self, partition: CopiedPartition, obstacle: ottla.OttlaError | None = None) -> None:
        """Copy it from its position on; from the source's beginning without one. With an `obstacle` it is not copied
        before that was looked at again."""
        self.partitions = {**self.partitions, partition.source: partition}
        if obstacle is not None:
            note_failure(partition, obstacle)
        if not self.paused:
            self._resume(partition)

    def give_up(self, sources: Iterable[TopicPartition], *, lost: bool = False) -> None:
        """Copy them no more. Unless they are `lost` to another, what is under way is waited for and committed."""
        going = [self.partitions[source] for source in sources if source in self.partitions]
        for partition in going:
            self._on(Event.GIVEN_UP, partition)
        if going and not lost:
            self._finish()
        for partition in going:
            self._under_way.pop(partition, None)
            self._moved.pop(partition, None)
        gone = {partition.source for partition in going}
        self.partitions = {source: kept for source, kept in self.partitions.items() if source not in gone}

    def hold(self, *, paused: bool) -> None:
        """Read nothing while it is paused, which it is at first; what was read is finished."""
        if paused == self.paused:
            return
        for partition in self.partitions.values():
            if paused:
                self._on(Event.PAUSED, partition)
            else:
                self._resume(partition)
        if paused:
            self._finish()
            for partition in self._under_way:  # what could not be finished is read again
                partition.start_over()
            self._under_way.clear()
        self.paused = paused

    def step(self, timeout: float) -> None:
        """Read and send one block, waiting up to `timeout` seconds for it, and take in what was acknowledged.

        Raises what keeps all partitions from being copied.
        """
        self._writer.check()
        self._try_again()
        fetched = self._fetch(timeout)
        partition = None if fetched is None else self.partitions.get(fetched.partition)
        if fetched is not None and partition is not None:
            try:
                self._send(partition, fetched)
            except ottla.OttlaError as error:
                self._on_failed(partition, error)
        self._settle()
        now = self._clock.monotonic()
        if now >= self._sync_at:
            self._sync_at = now + _SYNC_S
            self._sync()
        if now >= self._commit_at:
            self._commit_at = now + _COMMIT_S
            self._commit()

    # ---- stages ------------------------------------------------------------------------------------------------------

    def _on(self, event: Event, partition: CopiedPartition) -> None:
        before, partition.stage = partition.stage, NEXT[partition.stage, event]
        match before:
            case Stage.READ:
                self._reader.unassign(partition.source)
            case Stage.ASIDE:
                del self._aside[partition]
        match partition.stage:
            case Stage.READ:
                self._read(partition)
            case Stage.ASIDE:
                again_s = min(_AGAIN_MOST_S, _AGAIN_S * 2.0**partition.failures)
                partition.failures = min(partition.failures + 1, 10)
                partition.again_at = self._clock.monotonic() + again_s
                self._aside[partition] = None

    def _resume(self, partition: CopiedPartition) -> None:
        self._on(Event.RESUMED_FAILED if partition.error else Event.RESUMED, partition)

    def _try_again(self) -> None:
        now = self._clock.monotonic()
        due = [partition for partition in self._aside if partition.again_at <= now]
        if not due:
            return
        try:
            obstacles = self._start(due)
        except ottla.OttlaError as error:
            obstacles = dict.fromkeys(due, error)
        for partition in due:
            if partition in obstacles:
                self._on_failed(partition, obstacles[partition])
            else:
                self._on(Event.DUE, partition)

    def _on_failed(self, partition: CopiedPartition, error: ottla.OttlaError) -> None:
        """It goes on from its position, later; what is behind that may come twice."""
        note_failure(partition, error)
        partition.start_over()
        self._under_way.pop(partition, None)
        self._on(Event.FAILED, partition)

    # ---- copying -----------------------------------------------------------------------------------------------------

    def _fetch(self, timeout: float) -> FetchedBlock | None:
        return self._reader.poll(timeout)

    def _read(self, partition: CopiedPartition) -> None:
        at = partition.position
        if at is None:
            self._reader.assign(partition.source, topic_id=None)
        else:
            self._reader.assign(partition.source, at.offset, leader_epoch=at.leader_epoch, topic_id=at.topic_id)

    def _send(self, partition: CopiedPartition, fetched: FetchedBlock) -> None:
        self._under_way[partition] = None
        for batch in outgoing(fetched, self._marks, joins=partition.joins):
            partition.send(fetched, batch, self._writer.send_batch(batch.batch, *partition.copy))
        partition.end(fetched)

    def _settle(self) -> None:
        for partition in list(self._under_way):
            self._moved[partition] = None
            try:
                partition.settle()
            except ottla.OttlaError as error:
                self._on_failed(partition, error)
                continue
            if not partition.sent:
                del self._under_way[partition]
                partition.error, partition.failures = "", 0

    def _finish(self) -> None:
        """Wait for what is under way, and commit."""
        try:
            self._await_target()
            self._settle()
            self._commit()
        except ottla.OttlaError as error:
            logger.warning("records will be copied again: %s", error)

    def _await_target(self) -> None:
        """Return once the target has what was sent to it. Raises REQUEST_TIMED_OUT."""
        self._writer.flush(SETTLE_S)

    # ---- syncs and positions -----------------------------------------------------------------------------------------

    def _sync(self) -> None:
        """Note where in the target lies what was copied; does not wait for it."""
        self._synced.extend(self._send_syncs(self._moved))

    def _commit(self) -> None:
        """Let the group have the positions, once the syncs are there; waits for both."""
        self._sync()
        for sync in self._synced:
            sync.result(SETTLE_S)
        self._synced.clear()
        changed = {p: p.position for p in self._moved if p.position not in (None, p.committed)}
        self._moved.clear()
        if changed:
            self._member.commit({p.copy: to_commit(position) for p, position in changed.items() if position})
            for partition, position in changed.items():
                partition.committed = position

    def _send_syncs(self, partitions: Iterable[CopiedPartition]) -> list[Sent]:
        """Where in the target lies what was copied."""
        sent = []
        for partition in partitions:
            for synced in partition.take_stretches():
                key, value, headers = offset_sync(synced, partition.writer)
                sent.append(self._writer.send(value, key=key, headers=headers, topic=self._syncs))
        return sent


def note_failure(partition: CopiedPartition, error: ottla.OttlaError) -> None:
    """Note why the partition can't be copied. A topic may take small batches, and not what they are together."""
    if partition.error != str(error):
        logger.warning("%s is not copied at the moment: %s", partition.source, error)
    partition.error = str(error)
    if error.code == ErrorCode.MESSAGE_TOO_LARGE:
        partition.joins = False


def to_commit(position: Position) -> ottla.OffsetAndMetadata:
    """A position as the group gets it."""
    return ottla.OffsetAndMetadata(position.offset, note_of(position))
