"""The copier copies its partitions at least once, one fetched block after the other.

The order of the steps is the guarantee (I31). A batch is read, sent and acknowledged. Then the flow's offset syncs say
where it lies, and only then does the group commit the position after it. A mirror that dies between two steps leaves a
position that is too old, so its successor copies some records again, and none is left out. If the commit came before
the syncs, a group could be moved to a copy whose offsets can't be translated.

The producer keeps the order of a partition's batches and retries what was not acknowledged. If a batch fails for good,
its partition's position stays before it, and the batch is read again. One partition's failure stops no other: each is
in one stage (`machines/stages.py`). The copier also keeps lists of partitions that need work, so a step costs nothing
for the idle ones.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import ottla
from ottla.connect import BatchReader, FetchedBatches
from ottla_core.clock import Clock
from ottla_core.errors import ErrorCode
from ottla_core.model import TopicId, TopicPartition
from ottla_mirror.clusters.member import Member
from ottla_mirror.clusters.writer import BUFFER_BYTES, Writer
from ottla_mirror.copying.position_commits import PositionCommits
from ottla_mirror.machines.copying import outgoing
from ottla_mirror.machines.loop_marks import LoopMarks
from ottla_mirror.machines.progress import CopiedPartition, Outcome
from ottla_mirror.machines.stages import NEXT, Event, Stage

logger = logging.getLogger("ottla.mirror")

Starting = Callable[[Sequence[CopiedPartition]], Mapping[CopiedPartition, ottla.OttlaError]]
"""This finds where partitions resume, all at once. It returns those that can't, and why, and raises if none can."""

_SYNC_S: Final = 0.1
"""Copied records can be translated after this time."""

_COMMIT_S: Final = 1.0
"""A successor copies again what was copied since the last commit, which is about this long ago."""
SETTLE_S: Final = 30.0
"""Batches in flight may take this long before partitions are given up."""

_ROOM_S: Final = 0.02
"""The copier looks again after this time whether the writer's buffer has room."""

_AGAIN_S: Final = 2.0
_AGAIN_MOST_S: Final = 16.0
"""The delay between two tries of a partition doubles each time. If a target takes records one by one and refuses one of
a batch, each retry duplicates the others."""


class Copier:
    """A copier reads from `reader` and writes to the target by `writer`, including `syncs`, the flow's offset syncs.
    `member` is in the target's group that assigns the partitions. `start` is for partitions that could not be copied.

    For one thread.
    """

    def __init__(
        self,
        reader: BatchReader,
        writer: Writer,
        member: Member,
        syncs: str,
        clock: Clock,
        start: Starting,
        marks: LoopMarks | None = None,
    ) -> None:
        # The keys are the source's partitions. The mapping is replaced and never changed, because other threads read
        # it.
        self.partitions: Mapping[TopicPartition, CopiedPartition] = {}
        self.paused = True
        """While this is true, nothing is in flight."""
        self._reader: Final = reader
        self._writer: Final = writer
        self._member: Final = member
        self._commits: Final = PositionCommits(writer, member, syncs)
        self._clock: Final = clock
        self._start: Final = start
        self._marks: Final = marks
        # those that have sent what the target has not acknowledged
        self._under_way: Final[dict[CopiedPartition, None]] = {}
        self._aside: Final[dict[CopiedPartition, None]] = {}
        # those under way that are not read on, because the writer's buffer has to keep room for others
        self._held_back: dict[CopiedPartition, None] = {}
        # what the writer still holds of partitions that were paused, given up or set aside, and its size
        self._discarded: Final[deque[tuple[Outcome, int]]] = deque()
        self._discarded_bytes = 0
        self._sync_at = self._commit_at = clock.monotonic()
        self._copy_ids: Mapping[str, TopicId] = {}

    @property
    def trouble(self) -> str:
        """This says why positions can't be committed at the moment, or is "". For any thread."""
        return self._commits.trouble

    def take(self, partition: CopiedPartition, obstacle: ottla.OttlaError | None = None) -> None:
        """Copy a partition from its position on, or from the source's beginning if it has none. With an `obstacle` it
        is not copied before it can be started."""
        self.partitions = {**self.partitions, partition.source: partition}
        if obstacle is not None:
            note_failure(partition, obstacle)
        if not self.paused:
            self._resume(partition)

    def give_up(self, sources: Iterable[TopicPartition], *, lost: bool = False) -> None:
        """Stop copying these partitions. Unless they are `lost` to another member, wait for batches in flight and
        commit."""
        going = [self.partitions[source] for source in sources if source in self.partitions]
        for partition in going:
            self._on(Event.GIVEN_UP, partition)
        # A lost partition is another member's already: a commit would move its offset, and waiting would delay the
        # group.
        if going and not lost:
            self._finish()
        for partition in going:
            self._discard(partition)
            self._commits.forget(partition)
        gone = {partition.source for partition in going}
        self.partitions = {source: kept for source, kept in self.partitions.items() if source not in gone}

    def hold(self, *, paused: bool) -> None:
        """Stop reading while paused, which is the initial state. What was read is finished."""
        if paused == self.paused:
            return
        for partition in self.partitions.values():
            if paused:
                self._on(Event.PAUSED, partition)
            else:
                self._resume(partition)
        if paused:
            self._finish()
            # What could not be finished is read again, from the position, when the flow is resumed.
            for partition in list(self._under_way):
                self._discard(partition)
        self.paused = paused

    def look_at(self, copy_ids: Mapping[str, TopicId]) -> None:
        """Restart the partitions whose copy was replaced by another topic. `copy_ids` is compared only if it is a new
        mapping."""
        if copy_ids is self._copy_ids:
            return
        self._copy_ids = copy_ids
        for partition in self.partitions.values():
            if (
                partition.stage is Stage.READ
                and copy_ids.get(partition.copy.topic, partition.copy_id) != partition.copy_id
            ):
                self._on_failed(partition, _copy_replaced(partition))

    def step(self, timeout: float) -> None:
        """Read and send one block, waiting up to `timeout` seconds for it, and take in what was acknowledged.

        Raises if no partition can be copied.
        """
        self._try_again()
        fetched = None
        if self._has_time():
            fetched = self._fetch(min(timeout, _ROOM_S) if self._held_back else timeout)
        else:
            self._commits.wait(timeout)
        partition = None if fetched is None else self.partitions.get(fetched.partition)
        if fetched is not None and partition is not None:
            try:
                self._send(partition, fetched)
            except ottla.OttlaError as error:
                self._on_failed(partition, error)
        self._settle()
        self._leave_room()
        self._commits.go_on()
        now = self._clock.monotonic()
        if now >= self._sync_at and self._has_time():
            self._sync_at = now + _SYNC_S
            self._commits.sync()
        if now >= self._commit_at and not self._commits.is_under_way:
            self._commit_at = now + _COMMIT_S
            self._commits.begin()
            self._commits.go_on()

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
                # Bounded, because 2.0 to the power of thousands of failures is no float.
                partition.failures = min(partition.failures + 1, 10)
                partition.again_at = self._clock.monotonic() + again_s
                self._aside[partition] = None

    def _resume(self, partition: CopiedPartition) -> None:
        # A partition that could not be copied keeps its pause: pausing and resuming a flow must not retry it sooner.
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
        """Retry a partition from its position later. What follows the position may be copied twice."""
        note_failure(partition, error)
        self._discard(partition)
        self._on(Event.FAILED, partition)

    def _on_unreadable(self, partition: CopiedPartition, error: ottla.OttlaError) -> None:
        """Set a partition aside that the source does not return. What was read of it before is copied."""
        note_failure(partition, error)
        self._on(Event.FAILED, partition)

    def _discard(self, partition: CopiedPartition) -> None:
        """Discard a partition's batches in flight, so that they are read again.

        The writer still holds them in its buffer until the target acknowledges or rejects them.
        """
        for outcome, written, _ in partition.sent:
            if outcome is not None and written is not None and not outcome.done():
                self._discarded.append((outcome, written.size_bytes))
                self._discarded_bytes += written.size_bytes
        partition.start_over()
        self._under_way.pop(partition, None)

    # ---- copying -----------------------------------------------------------------------------------------------------

    def _fetch(self, timeout: float) -> FetchedBatches | None:
        try:
            return self._reader.poll(timeout)
        except ottla.OttlaError as error:
            if (partition := self._unreadable(error)) is None:
                raise
            self._on_unreadable(partition, error)
            return None

    def _unreadable(self, error: ottla.OttlaError) -> CopiedPartition | None:
        """Return the partition that the reader can't read; None if the error concerns all that it reads."""
        is_login = isinstance(error, ottla.AuthenticationError)
        return None if is_login or not isinstance(error.about, TopicPartition) else self.partitions.get(error.about)

    def _read(self, partition: CopiedPartition) -> None:
        at = partition.sent_position
        if at is None:
            self._reader.assign(partition.source, topic_id=None)
        else:
            self._reader.assign(partition.source, at.offset, leader_epoch=at.leader_epoch, topic_id=at.topic_id)

    def _send(self, partition: CopiedPartition, fetched: FetchedBatches) -> None:
        self._under_way[partition] = None
        for batch in outgoing(fetched, self._marks, joins=partition.joins):
            outcome = self._writer.send_batch(batch.batch, *partition.copy, topic_id=partition.copy_id)
            partition.send(fetched, batch, outcome)
        partition.end(fetched)

    def _settle(self) -> None:
        for partition in list(self._under_way):
            self._commits.note_moved(partition)
            try:
                partition.settle()
            except ottla.OttlaError as error:
                self._on_failed(partition, error)
                continue
            if not partition.sent:
                del self._under_way[partition]
                if partition.stage is not Stage.ASIDE:
                    # All that was sent is acknowledged, so whatever kept it back is over.
                    partition.error, partition.failures = "", 0

    def _leave_room(self) -> None:
        """Read no more of the partitions in flight while they fill half of the writer's buffer.

        The other half is for partitions that have nothing in flight. So a copy that takes nothing, because its leader
        is away or it has too few replicas, does not keep the others from being copied.
        """
        while self._discarded and self._discarded[0][0].done():
            self._discarded_bytes -= self._discarded.popleft()[1]
        in_flight_bytes = sum(partition.in_flight_bytes for partition in self._under_way)
        is_full = in_flight_bytes + self._discarded_bytes >= BUFFER_BYTES // 2
        held_back = dict(self._under_way) if is_full else {}
        for partition in [partition for partition in self._held_back if partition not in held_back]:
            self._reader.resume(partition.source)
        for partition in [partition for partition in held_back if partition not in self._held_back]:
            self._reader.pause(partition.source)
        self._held_back = held_back

    def _finish(self) -> None:
        """Wait for what is under way, and commit."""
        try:
            # The batches come before their meaning: the position moves only over what the target has.
            self._await_target()
            self._settle()
            self._commits.finish(SETTLE_S)
        except ottla.OttlaError as error:
            logger.warning("records will be copied again: %s", error)

    def _await_target(self) -> None:
        """Return once the target has what was sent to it. Raises REQUEST_TIMED_OUT."""
        self._writer.flush(SETTLE_S)

    def _has_time(self) -> bool:
        """Tell whether the next commit is not due before the last one is over. While it is due, the target takes no
        offset syncs. Then nothing more is read, so that what waits to be written does not grow."""
        return not self._commits.is_under_way or self._clock.monotonic() < self._commit_at


def note_failure(partition: CopiedPartition, error: ottla.OttlaError) -> None:
    """Note why the partition can't be copied.

    A topic may take small batches but not the joined one, so after MESSAGE_TOO_LARGE they are no longer joined.
    """
    # It is logged once for each cause: a full disk in the target fails every partition, again and again.
    if partition.error != str(error):
        logger.warning("%s is currently not being copied: %s", partition.source, error)
    partition.error = str(error)
    if error.code == ErrorCode.MESSAGE_TOO_LARGE:
        partition.joins = False


def _copy_replaced(partition: CopiedPartition) -> ottla.OttlaError:
    return ottla.OttlaError(
        ErrorCode.UNKNOWN_TOPIC_ID,
        f"{partition.copy.topic} was deleted and recreated",
        hint="no action is needed: the mirror copies the source again from its beginning",
    )
