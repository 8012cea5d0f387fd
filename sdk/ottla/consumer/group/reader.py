"""How a member returns records: poll by poll, so that it is known which of them are processed.

The records of one poll count as processed when the next poll begins. Iteration polls too, for as many records as take
about half a second, so that rebalances and commits never wait for long. There a record counts as processed when the
next one is requested; records that an abandoned loop did not reach are returned again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla.client.offsets import Offsets, offset_and_epoch
from ottla.consumer.batch import Batch, Segment
from ottla.consumer.concurrent_use import ConcurrentUseGuard
from ottla.consumer.context import ConsumerContext
from ottla.consumer.group.assignment import GroupAssignment
from ottla.consumer.reader import FOREVER, RecordReader
from ottla.errors import CommitFailedError, OttlaError, RebalanceInProgressError, RetriableError
from ottla.generics import K, V
from ottla.machines.position import NO_EPOCH, FetchedData
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla.record import Record
from ottla.serdes.record_reader import Serdes
from ottla_core.clock import Clock

_STRIDE_S: Final = 0.5


class Stride:
    """How many records an iteration takes at a time: as many as take half a second, and at most `most`."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock: Final = clock
        self._most: Final = most
        self._count = 1
        self._began_at = clock.monotonic()

    def next(self) -> int:
        """Return the number for the next poll, by the time that the last poll's records took."""
        now = self._clock.monotonic()
        took_s, self._began_at = now - self._began_at, now
        self._count = min(self._most, 2 * self._count) if took_s < _STRIDE_S else max(1, self._count // 2)
        return self._count

    def begin(self) -> None:
        """Start the clock: the records of a poll have come."""
        self._began_at = self._clock.monotonic()


class GroupReader(RecordReader[K, V]):
    """A RecordReader that polls."""

    def __init__(
        self,
        assignment: GroupAssignment,
        context: ConsumerContext,
        serdes: Serdes,
        *,
        skip_bad: bool,
        most: int | None,
        max_poll_records: int,
    ) -> None:
        super().__init__(assignment, context, serdes, skip_bad=skip_bad, most=most)
        self.stride: Final = Stride(context.fetcher.clock, max_poll_records)
        self.polls = False  # whether `poll` gathers: then the end of a `with` block ends their processing
        self._member: Final = assignment
        self._commits_first: Final = assignment.options.commit == "at_most_once"

    def records(self, owner: object, use_guard: ConcurrentUseGuard) -> Iterator[Record[K, V]]:
        """Iterate record by record until the stop, or until the consumer is closed; keeps `owner` alive meanwhile."""
        loop = object()
        try:
            while batch := use_guard.step(loop, self._next_stride):
                yield from self.hand_out(batch)
        finally:
            use_guard.leave(loop)

    def gather(self, limit: int, wait_first: float, wait_more: float) -> Batch[K, V]:
        """Poll up to `limit` records; waits like RecordReader.gather."""
        deadline_at = self._clock.monotonic() + wait_first
        self._begin()
        while True:
            if not self._attend():
                return self.batch([])
            left = max(0.0, deadline_at - self._clock.monotonic())
            batch = super().gather(limit, left, wait_more)
            if not batch or not self._commits_first or self._is_committed():
                return batch

    def batch(self, segments: list[Segment]) -> Batch[K, V]:
        """Make the batch that is returned, with the current member identity."""
        read = {position.partition: topic_id for position in self._before if (topic_id := position.read_topic_id)}
        return Batch(segments, self._serdes, self._member.metadata(read), self._positions_of(segments))

    def take_back(self) -> None:
        """Like RecordReader.take_back, but does nothing in a callback of the group, during a gathering.

        It also goes back to the committed offsets if a transaction that works on the records may not have committed.
        """
        if not self._member.busy:
            super().take_back()
            if self._transactions:
                self._settle_transactions()

    def go_back_unless(self, outcome: TransactionOutcome) -> None:
        """Go back to the committed offsets before the next call, unless the transaction is under way or committed."""
        if outcome not in self._transactions:
            self._transactions.append(outcome)

    def _settle_transactions(self) -> None:
        over = [outcome for outcome in self._transactions if not outcome.is_under_way]
        if any(outcome.sends_back for outcome in over):
            self.seek_to_time(self._member.of(()), None)
        for outcome in over:  # only now: if a signal handler raises before, the next call goes back
            self._transactions.remove(outcome)

    def processed(self, *, well: bool) -> Offsets:
        """Return each partition's offset after the processed records; with `well`, those of the last poll included."""
        self.take_back()
        offsets = self._member.committer.handed_out()
        if self._commits_first:
            return offsets
        handing = self._handing
        if handing is not None and handing.at is not None and handing.is_good(handing.at) and handing.at.offset:
            offsets[handing.at.partition] = offset_and_epoch(handing.at.offset - 1, NO_EPOCH, handing.at.read_topic_id)
        for position, (offset, epoch, _) in () if well and self.polls else self._before.items():
            at = offsets.get(position.partition)  # none if it was reset since
            if at and self._subscription.positions.get(position.partition) is position and offset < at.offset:
                offsets[position.partition] = offset_and_epoch(offset, epoch, position.read_topic_id)
        return offsets

    def _next_stride(self) -> Batch[K, V]:
        batch = self.gather(self.stride.next(), FOREVER, 0.0)
        self.stride.begin()
        return batch

    def _attend(self) -> bool:
        """Let the group's member act; return False if the consumer was closed."""
        try:
            self._member.ensure()
        except OttlaError:
            if not self._fetcher.closed:
                raise
        return not self._fetcher.closed

    def _wait(self, timeout: float) -> FetchedData | None:
        """Wait like RecordReader. A program that waits for records is polling, however long that takes."""
        with self._member.waiting:
            try:
                return super()._wait(timeout)
            finally:
                self._member.on_poll()

    def _is_committed(self) -> bool:
        """Commit the gathered records before they are returned. If that fails, take them back and return False."""
        try:
            committer = self._member.committer
            committer.commit(committer.uncommitted(committer.handed_out()))
        except (CommitFailedError, RebalanceInProgressError, RetriableError):
            self.take_back()
            return False
        return True
