"""The reader returns what the consumer fetched, record by record or in batches, from one run to the next.

A position must never pass a record that the caller has not received, since the next commit would cover it (I28). That
is hard where Python may raise between any two lines: a signal handler raises in the middle of a call, or an asyncio
caller is cancelled. So a partition's position is the offset after its last returned record, by this protocol:

* From the start of a gathering until the caller has the records, `_in_hand` is true and `_before` holds the earlier
  positions. `on_handed_out` comes last. It is a few assignments: no interrupt comes between them, nor before the
  caller's own next step.
* The next call that finds something in hand takes it back: it restores the positions and fetches everything else again,
  because the point of the interrupt is not known.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Final, Generic, Protocol, cast

from ottla.consumer.batch import Batch, Segment
from ottla.consumer.completed_fetch import CompletedFetch, RecordRange, Records, UnreadableBatch, next_offset
from ottla.consumer.concurrent_use import ConcurrentUseGuard
from ottla.consumer.context import ConsumerContext
from ottla.consumer.record_iterator import Handing
from ottla.errors import OttlaError, SerializationError, UnreadableBatchError, WakeupError
from ottla.generics import K, V
from ottla.machines.position import FetchedData, Position
from ottla.machines.transaction_outcome import TransactionOutcome
from ottla.record import Record
from ottla.serdes.record_reader import Serdes
from ottla_core.model import TopicId, TopicPartition
from ottla_core.records.record import RawRecord

logger = logging.getLogger("ottla.consumer")

FOREVER: Final = float("inf")
_NO_WAIT: Final = 0.0


class AssignedPositions(Protocol):
    """What a reader needs from an assignment: its partitions, and the position in each of them."""

    def ensure(self) -> None: ...
    def resolve(self) -> None: ...
    def check_starts(self) -> None: ...


class RecordReader(Generic[K, V]):
    """Reads for one consumer. One thread at a time may `gather`. It ends after `most` records; None means no limit."""

    def __init__(
        self,
        assignment: AssignedPositions,
        context: ConsumerContext,
        serdes: Serdes,
        *,
        skip_bad: bool,
        most: int | None,
    ) -> None:
        self._assignment: Final = assignment
        self._subscription: Final = context.subscription
        self._fetcher: Final = context.fetcher
        self._clock: Final = context.fetcher.clock
        self._serdes: Final = serdes
        self._skip_bad: Final = skip_bad
        self.keeps_unreadable = False
        """Whether an UnreadableBatch is returned in the place of a batch that can't be read. For `poll` only."""
        self._left = most
        self._consumed: Final = context.fetcher.consumed
        self._run: CompletedFetch | None = None
        self._handing: Handing | None = None
        self._in_hand = False
        self.is_cut_off = False
        # Offset, epoch and topic of what was returned before the last gathering.
        self._before: dict[Position, tuple[int, int, TopicId | None]] = {}
        self._gathered = 0  # records that are in hand
        self._transactions: Final[list[TransactionOutcome]] = []  # of a group's records, and not settled yet

    def records(self, owner: object, use_guard: ConcurrentUseGuard) -> Iterator[Record[K, V]]:
        """Iterate record by record until the stop, or until the consumer is closed; keeps `owner` alive meanwhile."""
        loop = object()
        rewound = False
        try:
            while (run := use_guard.step(loop, self._until_next_run)) is not None:
                try:
                    yield from self._records_of(run) if self._left is None else self._counted(run)
                except OttlaError:
                    self._rewind(run)
                    rewound = True
                    raise
        except GeneratorExit:
            # The loop was left between two records, so nothing is in hand.
            raise
        except BaseException as error:
            # An error of another kind came at an unknown point, so everything is fetched again. One that the fetcher
            # raised, or that `_rewind` has handled, came at a known point.
            self._before, self._in_hand = {}, not (rewound or error is self._fetcher.raised)
            raise
        finally:
            use_guard.leave(loop)

    def gather(self, limit: int, wait_first: float, wait_more: float) -> Batch[K, V]:
        """Gather up to `limit` records: wait `wait_first` seconds for the first, then `wait_more` for the others.

        They are in hand until `on_handed_out`.
        """
        self._begin()
        try:
            segments = self._segments(limit, wait_first, wait_more)
        except WakeupError as error:
            # A wakeup that the fetcher raised came while it waited. Any other one came from a signal handler, at any
            # line.
            self._in_hand = error is not self._fetcher.raised
            raise
        if not segments:
            self._in_hand = False
        return self.batch(segments)

    def batch(self, segments: list[Segment]) -> Batch[K, V]:
        """Make the batch that is returned."""
        return Batch(segments, self._serdes, positions=self._positions_of(segments))

    def _positions_of(self, segments: list[Segment]) -> dict[TopicPartition, int]:
        positions = self._subscription.positions
        found = ((partition, positions.get(partition)) for partition, _ in segments)
        return {partition: at.offset for partition, at in found if at is not None and at.offset is not None}

    def on_handed_out(self) -> None:
        """Note that the caller has the gathered records."""
        if self._left is not None:
            self._left -= self._gathered
        self._gathered = 0
        self._in_hand = False

    def hand_out(self, batch: Batch[K, V]) -> Iterator[Record[K, V]]:
        """Iterate over the records of the batch that was gathered last, moving the positions along."""
        handing = Handing(batch.segments, self._subscription.positions)
        self._handing = handing
        self._before, self._gathered, self._in_hand = {}, 0, False
        make, counts, transactions = self._serdes.record, self._left is not None, self._transactions
        for partition, part in handing.segments:
            position = self._subscription.positions.get(partition)
            if position is None or not handing.is_good(position):
                continue
            handing.at = position
            version = position.version
            for raw in part:
                position.offset = raw[0]  # where to continue if its deserializer raises
                record = make(partition, raw)
                position.offset = raw[0] + 1
                if counts:
                    self._left -= 1  # type: ignore[operator]  # not None if it counts
                yield record
                if transactions and self.goes_back:
                    return  # the next gathering begins at the committed offsets
                if position.version != version:  # a seek
                    break
        if self._handing is handing:  # otherwise another call has read meanwhile
            handing.finish()
            self._handing = None

    def take_back(self) -> None:
        """Read again what was gathered and never reached the caller.

        After an interrupt, fetch everything again: a partition may be halfway between two positions.
        """
        if not self._in_hand and not self.is_cut_off:
            return
        with self._fetcher.lock:
            for position, (offset, epoch, topic_id) in self._before.items() if self._in_hand else ():
                position.read_topic_id = topic_id
                # A seek since then is not taken back, because `on_seek` has removed its position from `_before`.
                if position.offset is not None and position.offset > offset:
                    position.offset, position.offset_epoch = offset, epoch
            self._subscription.start_over()
        if self._in_hand:
            self._consumed.records -= self._gathered
            self._gathered, self._in_hand = 0, False
        self._run, self.is_cut_off = None, False

    @property
    def goes_back(self) -> bool:
        """Whether the next gathering begins at the committed offsets, because a transaction may not have committed."""
        return any(outcome.sends_back for outcome in self._transactions)

    @property
    def finished(self) -> bool:
        """Whether the consumer will return no more records, because it has reached the stop or is closed."""
        over = self._fetcher.closed or self._left == 0 or (self._run is None and self._subscription.done)
        return over and self._handing is None

    def on_pause(self, position: Position) -> None:
        """Leave a partition that is being read or returned; the rest is read again when it is resumed."""
        if self._run is not None and self._run.position is position:
            self._rewind(self._run)
        if self._handing is not None and position in self._handing.left():
            assert position.offset is not None
            with self._fetcher.lock:
                self._subscription.seek(position, position.offset)

    def seek_to_time(self, positions: Iterable[Position], timestamp: int | None) -> None:
        """Continue at the first record at or after that time (ms, or None for the committed offset)."""
        for position in positions:
            with self._fetcher.lock:
                self._subscription.seek_to_time(position, timestamp)
            self.on_seek(position)

    def on_seek(self, position: Position) -> None:
        """Note a seek: the earlier position does not count."""
        self._before.pop(position, None)
        position.read_topic_id = None

    def _begin(self) -> None:
        """Begin a call: records returned before stay returned; those an abandoned loop did not reach are read again."""
        self.take_back()
        if (handing := self._handing) is not None:
            with self._fetcher.lock:
                for position, offset in handing.left().items():
                    self._subscription.seek(position, offset)
            self._handing = None
        self._before, self._gathered = {}, 0

    def _segments(self, limit: int, wait_first: float, wait_more: float) -> list[Segment]:
        """Return the records of one partition after the other."""
        segments: list[Segment] = []
        wait, deadline_at = wait_first, FOREVER
        while limit > 0:
            try:
                run = self._next_run(wait, holding=bool(segments))
                part = None if run is None else self._take(run, limit)
            except OttlaError as error:
                if not segments:
                    raise
                # The records that were gathered come first, and the interruption is due again with the next call.
                if isinstance(error, WakeupError):
                    self._fetcher.interrupt(error)
                break  # what was read before it comes first; the same error comes with the next call
            if run is None:
                break
            if part:
                segments.append((run.partition, part))
                limit -= len(part)
                if deadline_at == FOREVER:
                    deadline_at = self._clock.monotonic() + wait_more
            if segments:
                wait = max(_NO_WAIT, deadline_at - self._clock.monotonic())
        return segments

    def _next_run(self, timeout: float, *, holding: bool = False) -> CompletedFetch | None:
        """Return the run being read, or the next fetched data; None at the stop, after a close or after `timeout`.

        While it is `holding` records that are not returned yet, partitions can't be given up or taken over, so it does
        not wait.
        """
        deadline_at = self._clock.monotonic() + timeout
        while not self._fetcher.closed and self._left != self._gathered:
            self._in_hand = True
            self._fetcher.check_interrupted()
            if not holding:
                self._fetcher.check_failed()
            if (run := self._being_read()) is not None:
                return run
            if not holding and not self._located():
                return None
            # A callback of the group may have read meanwhile. It got what it read, which has cleared the mark.
            self._in_hand = True
            if self._subscription.done:
                return None
            left = deadline_at - self._clock.monotonic()
            fetched = self._wait(max(_NO_WAIT, left))
            if fetched is not None:
                self._consumed.bytes += len(fetched.records)
                self._run = CompletedFetch(fetched, self._consumed, self._on_unreadable)
            # With records in hand it never waits: the caller gets what is there, and partitions can be given up.
            elif left <= 0 or holding or self._fetcher.hurried:
                return None
        return None

    def _wait(self, timeout: float) -> FetchedData | None:
        """Wait up to `timeout` seconds for fetched data."""
        return self._fetcher.take(timeout)

    def _being_read(self) -> CompletedFetch | None:
        """Return the run that is being read, unless its position has moved; a signal handler may take it away."""
        if (run := self._run) is not None:
            if not run.stale:
                return run
            self._forget(run)
        return None

    def _records_of(self, run: CompletedFetch) -> Iterator[Record[K, V]]:
        make = self._serdes.record
        partition, position, version = run.partition, run.position, run.version
        for raw in run.stream():
            position.offset = raw[0]  # where to continue if its deserializer raises
            try:
                record = make(partition, raw)
            except SerializationError as error:
                self._on_bad_record(error)
                continue
            position.offset = raw[0] + 1
            yield record
            if position.version != version:
                return
        self._end(run)

    def _counted(self, run: CompletedFetch) -> Iterator[Record[K, V]]:
        """Iterate over the records of `run`, up to the stop."""
        before = self._consumed.records
        for count, record in enumerate(self._records_of(run), 1):
            assert self._left is not None
            self._left -= 1
            yield record
            if not self._left:
                self._consumed.records = max(self._consumed.records, before + count)
                return

    def _until_next_run(self) -> CompletedFetch | None:
        """Wait for the next run of an iteration, however long it takes."""
        self._begin()
        run = self._next_run(FOREVER)
        self._in_hand = False
        return run

    def _located(self) -> bool:
        """Look up unknown topics and positions; return False if the consumer was closed."""
        try:
            self._assignment.ensure()
            self._assignment.resolve()
            self._assignment.check_starts()
        except OttlaError:
            if self._fetcher.closed:
                return False
            raise
        return True

    def _take(self, run: CompletedFetch, limit: int) -> RecordRange | None:
        """Return the next records of `run`; None at its end, or if all of them are skipped."""
        position = run.position
        try:
            part = run.part(limit if self._left is None else min(limit, self._left - self._gathered))
        except OttlaError:
            self._rewind(run)
            raise
        if part is None:
            self._end(run)
            return None
        after = next_offset(part)
        if self._skip_bad:
            part = self._readable(run.partition, part)
        # The earliest position counts: a partition may be gathered from several times in one call.
        if position not in self._before:
            self._before[position] = (position.offset or 0, position.offset_epoch, position.read_topic_id)
        # After `_before` has the old values: an interrupt between the two lines must find them.
        position.offset, position.offset_epoch, position.read_topic_id = after, run.epoch, run.fetched.topic_id
        self._gathered += len(part)
        return part

    def _end(self, run: CompletedFetch) -> None:
        """Note that `run` was read to its end, which may lie behind its last record."""
        # A run may end behind its last record, with markers or aborted records. The position passes them, or lag would
        # never be 0.
        if not run.stale and self._left != self._gathered:
            run.position.offset = max(run.next_offset, run.position.offset or 0)
        self._forget(run)

    def _rewind(self, run: CompletedFetch) -> None:
        """Leave `run` where it is; its rest is fetched again when the partition is read again."""
        with self._fetcher.lock:
            if not run.stale and run.position.offset is not None:
                self._subscription.seek(run.position, run.position.offset)
        self._forget(run)

    def _forget(self, run: CompletedFetch) -> None:
        if self._run is run:
            self._run = None
            with self._fetcher.lock:
                # It makes room in the prefetch, so that the next fetch may leave.
                self._subscription.on_read(run.fetched)

    def _readable(self, partition: TopicPartition, part: RecordRange) -> RecordRange:
        good: list[RawRecord] = []
        for raw in part:
            try:
                self._serdes.record(partition, raw)
            except SerializationError as error:
                self._on_bad_record(error)
            else:
                good.append(raw)
        return Records(good, part.has_log_append_time)

    def _on_unreadable(self, batch: UnreadableBatch) -> RecordRange | None:
        if self.keeps_unreadable:
            return Records([cast(RawRecord, batch)], has_log_append_time=False)
        self._on_bad_record(batch.error)
        return None

    def _on_bad_record(self, error: SerializationError | UnreadableBatchError) -> None:
        if not self._skip_bad:
            raise error
        logger.warning("skipped: %s", error.message)
