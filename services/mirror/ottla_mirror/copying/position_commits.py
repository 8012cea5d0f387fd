"""Positions are committed once the offset syncs that explain them are written, and nothing waits for that.

A commit has three states. It begins with the positions of that moment, when the syncs up to them have been sent. Once
the target has written these syncs, the group commits the positions. Then the commit is over. In between, copying goes
on, and later positions belong to the next commit. So a target that takes no syncs stops no one, and its reason is seen.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import ottla
from ottla_mirror.clusters.member import Member
from ottla_mirror.clusters.writer import Writer
from ottla_mirror.machines.mirror_records import offset_sync
from ottla_mirror.machines.progress import CopiedPartition, Position, note_of

_NOT_WRITTEN: Final = "offset syncs can't be written at the moment"


class _Commit(NamedTuple):
    """A commit that has begun. `positions` come with the generation of the copy in which they are valid. `syncs` are
    not known to be written."""

    positions: dict[CopiedPartition, tuple[int, Position]]
    syncs: deque[ottla.Delivery]


class PositionCommits:
    """The commits of one copier, one after the other. `topic` is that of the flow's offset syncs. For one thread."""

    def __init__(self, writer: Writer, member: Member, topic: str) -> None:
        self._writer: Final = writer
        self._member: Final = member
        self._topic: Final = topic
        self._moved: Final[dict[CopiedPartition, None]] = {}  # those that moved since the last commit began
        self._sent: Final[deque[ottla.Delivery]] = deque()  # the syncs that were sent since then
        self._commit: _Commit | None = None
        self._awaited: Sequence[ottla.Delivery] = ()
        self._unwritten = ""  # why the last syncs that were awaited were not written

    @property
    def is_under_way(self) -> bool:
        """It tells whether a commit has begun and is not over."""
        return self._commit is not None

    @property
    def trouble(self) -> str:
        """This says why the target refuses offset syncs at the moment, or is "". For any thread."""
        return self._refused() or self._unwritten

    def note_moved(self, partition: CopiedPartition) -> None:
        """Note that the partition's position may have moved."""
        self._moved[partition] = None

    def forget(self, partition: CopiedPartition) -> None:
        """Leave out a partition, whose position is another mirror's to commit now."""
        self._moved.pop(partition, None)
        if self._commit is not None:
            self._commit.positions.pop(partition, None)

    def sync(self) -> None:
        """Send the syncs of what was copied, without waiting for them."""
        self._sent.extend(self.send_syncs(self._moved))

    def send_syncs(self, partitions: Iterable[CopiedPartition]) -> list[ottla.Delivery]:
        """Send the offset syncs of these partitions. They say where in the target the copied records are."""
        sent = []
        for partition in partitions:
            for synced in partition.take_stretches():
                key, value, headers = offset_sync(synced, partition.writer)
                sent.append(self._writer.send(value, key=key, headers=headers, topic=self._topic))
        return sent

    def write_syncs(self, partitions: Iterable[CopiedPartition], timeout: float) -> None:
        """Send the offset syncs of these partitions, and wait until the target has them. Raises REQUEST_TIMED_OUT."""
        self._awaited = self.send_syncs(partitions)
        try:
            self._writer.flush(timeout)
        except ottla.OttlaError as error:
            self._unwritten = self._refused() or f"{_NOT_WRITTEN}: {error}"
            raise
        self._awaited, self._unwritten = (), ""

    def begin(self) -> None:
        """Begin a commit of all positions of this moment, or add them to the commit that is under way."""
        self.sync()
        if self._commit is None:
            self._commit = _Commit({}, deque())
        positions, syncs = self._commit
        syncs.extend(self._sent)
        self._sent.clear()
        for partition in self._moved:
            if partition.position is not None and partition.position != partition.committed:
                positions[partition] = partition.generation, partition.position
        self._moved.clear()

    def go_on(self) -> None:
        """Commit the positions if the syncs of the commit are written. Raises why one can't be written."""
        if self._commit is None:
            return
        positions, syncs = self._commit
        while syncs and syncs[0].done():
            syncs[0].result()
            syncs.popleft()
        if syncs:
            return
        # A position of a former copy must not be committed for the copy that has taken its place.
        valid = {p: position for p, (generation, position) in positions.items() if p.generation == generation}
        if valid:
            self._member.commit({p.copy: to_commit(position) for p, position in valid.items()})
        for partition, position in valid.items():
            partition.committed = position
        self._commit = None

    def wait(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for the next sync of the commit that is under way."""
        if self._commit is not None and self._commit.syncs:
            with suppress(ottla.OttlaError):  # `go_on` raises its error
                self._commit.syncs[0].exception(timeout)

    def finish(self, timeout: float) -> None:
        """Commit all positions, and wait up to `timeout` seconds for each sync. Raises REQUEST_TIMED_OUT."""
        self.begin()
        assert self._commit is not None
        for sync in self._commit.syncs:
            sync.result(timeout)
        self.go_on()

    def _refused(self) -> str:
        commit = self._commit
        oldest = next(iter(self._awaited if commit is None else commit.syncs.copy()), None)
        refusal = None if oldest is None else oldest.last_refusal()
        return "" if refusal is None else f"{_NOT_WRITTEN}: {refusal}"


def to_commit(position: Position) -> ottla.OffsetAndMetadata:
    """Return a position in the form in which it is committed."""
    return ottla.OffsetAndMetadata(position.offset, note_of(position))
