"""The leader epochs of one log, each with the offset at which it began (KIP-101, KIP-279).

Epochs and start offsets both grow. If a replica's log differs from the leader's, the replica looks up here where an
epoch ended, and truncates there instead of at a high watermark (rule 2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ottla_core.records.batch import BatchHeader
from ottla_core.records.leader_epochs import EpochStart

NO_EPOCH: Final = -1
NO_OFFSET: Final = -1


class LeaderEpochs:
    """The epochs of one log, oldest first.

    They count from the log's start on. A start that finds an earlier log start on disk needs those before it, too. So
    they are remembered, and `stored` has them, until the new log start is on disk (`move_start`).
    """

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries: list[EpochStart] = []
        self._before: tuple[EpochStart, ...] = ()
        """The epochs that began before the log's start."""
        for entry in entries:
            self.assign(*entry)

    def copy(self) -> LeaderEpochs:
        copy = LeaderEpochs()
        copy._entries, copy._before = list(self._entries), self._before
        return copy

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return tuple(self._entries)

    @property
    def latest(self) -> int:
        """This is the newest epoch, or NO_EPOCH."""
        return self._entries[-1].epoch if self._entries else NO_EPOCH

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` begins at `start_offset`. Return whether that was new.

        Entries that contradict it are dropped, those with a higher epoch or one that began at or after it: they belong
        to batches that are not in this log.
        """
        if self._entries and epoch == self.latest and start_offset >= self._entries[-1].start_offset:
            return False
        kept = [entry for entry in self._entries if entry.epoch < epoch and entry.start_offset < start_offset]
        self._entries = [*kept, EpochStart(epoch, start_offset)]
        return True

    def between(self, last_epoch: int, end_offset: int) -> tuple[EpochStart, ...]:
        """Return the epochs after `last_epoch` that begin before `end_offset`: what a follower whose last epoch that is
        has to know of the records up to there."""
        return tuple(entry for entry in self._entries if entry.epoch > last_epoch and entry.start_offset < end_offset)

    def epoch_of(self, offset: int) -> int:
        """Return the epoch in which `offset` was written, or NO_EPOCH."""
        return max((entry.epoch for entry in self._entries if entry.start_offset <= offset), default=NO_EPOCH)

    def epoch_before(self, offset: int) -> int:
        """Return the epoch of the last record before `offset`, which may be deleted, or NO_EPOCH if it is unknown."""
        return max((entry.epoch for entry in self._all() if entry.start_offset < offset), default=NO_EPOCH)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochStart:
        """Return the largest epoch here that is at or below `epoch`, and the offset where it ended
        (OffsetsForLeaderEpoch).

        Return (NO_EPOCH, NO_OFFSET) if `epoch` is newer than all. An epoch older than all ends where the first one
        begins.
        """
        if epoch == self.latest and epoch != NO_EPOCH:
            return EpochStart(epoch, log_end_offset)
        following = next((entry for entry in self._entries if entry.epoch > epoch), None)
        if following is None or epoch == NO_EPOCH:
            return EpochStart(NO_EPOCH, NO_OFFSET)
        known = max((entry.epoch for entry in self._entries if entry.epoch <= epoch), default=epoch)
        return EpochStart(known, following.start_offset)

    def cut_to(self, start_offset: int, end_offset: int) -> None:
        """Keep the epochs that a log from `start_offset` to `end_offset` has.

        An empty log keeps the last epoch that was written before its start, with that start as its offset: it tells an
        election and a leader how far the log had come. A log that is empty at 0 never had an epoch.
        """
        self.truncate_from_start(start_offset)
        if start_offset < end_offset:
            self.truncate_from_end(end_offset)
        else:
            self._entries = [each for each in self._entries[:1] if 0 < each.start_offset <= start_offset]

    def move_start(self, start_offset: int, written_start: int) -> None:
        """Begin at `start_offset` from now on, and remember the epochs from `written_start` on, the log start on
        disk."""
        remembered = LeaderEpochs()
        remembered._entries = self._all()
        remembered.truncate_from_start(written_start)
        self._before = tuple(entry for entry in remembered._entries if entry.start_offset < start_offset)
        self.truncate_from_start(start_offset)

    def stored(self, start_offset: int, end_offset: int) -> tuple[EpochStart, ...]:
        """Return what a start needs of a log from `start_offset` to `end_offset`, also if it finds an earlier log start
        on disk."""
        needed = self.copy()
        needed.cut_to(start_offset, end_offset)
        return tuple(needed._all())

    def _all(self) -> list[EpochStart]:
        """Return the entries, after those that began before the log's start. The first entry may be the last of
        them."""
        last = self._before[-1].epoch if self._before else NO_EPOCH
        return [*self._before, *(entry for entry in self._entries if entry.epoch > last)]

    def put_before(self, earlier: Iterable[EpochStart]) -> None:
        """Add epochs that began before all others here. The first one here may be the last of them."""
        kept = list(earlier)
        self._entries = [*kept, *(entry for entry in self._entries if not kept or entry.epoch > kept[-1].epoch)]

    def truncate_from_end(self, end_offset: int) -> bool:
        """Forget epochs that begin at or after `end_offset`, where the log was truncated. Return whether there were
        any."""
        count = len(self._entries) + len(self._before)
        self._entries = [entry for entry in self._entries if entry.start_offset < end_offset]
        self._before = tuple(entry for entry in self._before if entry.start_offset < end_offset)
        return len(self._entries) + len(self._before) < count

    def truncate_from_start(self, start_offset: int) -> bool:
        """Forget epochs that ended before `start_offset`. The epoch that has this offset begins there from now on."""
        before = [entry for entry in self._entries if entry.start_offset <= start_offset]
        if not before or before == [EpochStart(before[-1].epoch, start_offset)]:
            return False
        self._entries[: len(before)] = [EpochStart(before[-1].epoch, start_offset)]
        return True


def shown_by(headers: Iterable[BatchHeader], end_offset: int, latest_epoch: int) -> Sequence[EpochStart]:
    """Return the epochs after `latest_epoch` that batches show which follow a log's `end_offset`.

    An epoch begins where the last batch before it ends. That is where its leader's log ended, also if its first batch
    was imported at a higher offset. In a compacted log it may have begun later. But an epoch that seems to begin too
    early makes a follower copy more than it needs to, while one that seems to begin too late would let it keep records
    of a former leader.
    """
    shown: list[EpochStart] = []
    for header in headers:
        if header.leader_epoch > latest_epoch:
            latest_epoch = header.leader_epoch
            shown.append(EpochStart(latest_epoch, end_offset))
        end_offset = header.next_offset
    return shown
