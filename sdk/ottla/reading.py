"""How a consumer hands out what it fetched: record by record or in lists, from one run to the next.

Whichever way, a partition's position is the offset after the last record that was handed out.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final, Generic, Protocol

from ottla.errors import OttlaError, SerializationError, WakeupError
from ottla.fetcher import Fetcher
from ottla.generics import K, V
from ottla.machines.position import Position
from ottla.machines.subscription import Subscription
from ottla.one_thread import OneThread
from ottla.record import Batch, Record, Segment, Serdes
from ottla.runs import Part, Records, Run, next_offset
from ottla_core.model import TopicPartition
from ottla_core.records.record import RawRecord

logger = logging.getLogger("ottla.consumer")

FOREVER: Final = float("inf")
_NO_WAIT: Final = 0.0


class Places(Protocol):
    """What a reader needs of an assignment: its partitions, and where it is in each of them."""

    def ensure(self) -> None: ...
    def resolve(self) -> None: ...


class Reader(Generic[K, V]):
    """One consumer's reading. `gather` is for one thread at a time; `most` records in all, None for any number."""

    def __init__(
        self,
        assignment: Places,
        subscription: Subscription,
        fetcher: Fetcher,
        serdes: Serdes,
        skip_bad: bool,
        most: int | None,
    ) -> None:
        self._assignment: Final = assignment
        self._subscription: Final = subscription
        self._fetcher: Final = fetcher
        self._clock: Final = fetcher.clock
        self._serdes: Final = serdes
        self._skip_bad: Final = skip_bad
        self._left = most
        self._consumed: Final = fetcher.consumed
        self._run: Run | None = None

    def records(self, owner: object, one_thread: OneThread) -> Iterator[Record[K, V]]:
        """Record by record, until the stop or until the consumer is closed. `owner` lives as long as the reading."""
        loop = object()
        try:
            while (run := one_thread.step(loop, self._until_next_run)) is not None:
                try:
                    yield from self._records_of(run)
                except OttlaError:
                    self._rewind(run)
                    raise
        finally:
            one_thread.leave(loop)

    def gather(self, limit: int, wait_first: float, wait_more: float) -> Batch[K, V]:
        """Up to `limit` records; waits `wait_first` seconds for the first and from then `wait_more` for the others."""
        return self.batch(self.segments(limit, wait_first, wait_more))

    def batch(self, segments: list[Segment]) -> Batch[K, V]:
        """Records as they are handed out."""
        return Batch(segments, self._serdes)

    def segments(self, limit: int, wait_first: float, wait_more: float) -> list[Segment]:
        """Like `gather`: the records of one partition after the other."""
        segments: list[Segment] = []
        wait, deadline_at = wait_first, FOREVER
        while limit > 0:
            try:
                run = self._next_run(wait, holding=bool(segments))
                part = None if run is None else self._take(run, limit)
            except OttlaError as error:
                if not segments:
                    raise
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

    def unread(self, offsets: Mapping[TopicPartition, int], count: int) -> None:
        """Take back the last `count` records; each partition in `offsets` goes on where that says."""
        self.give_back(count)
        with self._fetcher.lock:
            for partition, offset in offsets.items():
                self._subscription.seek(self._subscription.positions[partition], offset)

    def give_back(self, count: int) -> None:
        """So many records were not handed out after all: they don't count for the stop."""
        if self._left is not None:
            self._left += count

    @property
    def finished(self) -> bool:
        """Whether nothing will come any more: the stop is reached, or the consumer closed."""
        return self._fetcher.closed or self._left == 0 or (self._run is None and self._subscription.done)

    def on_pause(self, position: Position) -> None:
        """Leave a partition that is being read; what is left of its chunk is fetched again."""
        if self._run is not None and self._run.position is position:
            self._rewind(self._run)

    def _next_run(self, timeout: float, *, holding: bool = False) -> Run | None:
        """What is being read, or the next chunk; None at the stop, after a close and after `timeout` seconds.

        `holding` records that were not handed out, nobody may give up or take over partitions: that ends the wait.
        """
        deadline_at = self._clock.monotonic() + timeout
        while not self._fetcher.closed and self._left != 0:
            self._fetcher.check_interrupted()
            if self._run is not None:
                if not self._run.stale:
                    return self._run
                self._forget(self._run)
            if not holding and not self._located():
                return None
            if self._subscription.done:
                return None
            left = deadline_at - self._clock.monotonic()
            chunk = self._fetcher.take(max(_NO_WAIT, left))
            if chunk is not None:
                self._consumed.bytes += len(chunk.records)
                self._run = Run(chunk, self._consumed)
            elif left <= 0 or holding:
                return None
        return None

    def _records_of(self, run: Run) -> Iterator[Record[K, V]]:
        make = self._serdes.record
        partition, position, version = run.partition, run.position, run.version
        for raw in run.stream() if self._left is None else self._counted(run):
            position.offset = raw[0]  # where to go on if its deserializer raises
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

    def _until_next_run(self) -> Run | None:
        """For an iteration: however long it takes."""
        return self._next_run(FOREVER)

    def _located(self) -> bool:
        """Look up the topics and the positions that are not known; False where somebody closed the consumer."""
        try:
            self._assignment.ensure()
            self._assignment.resolve()
        except OttlaError:
            if self._fetcher.closed:
                return False
            raise
        return True

    def _take(self, run: Run, limit: int) -> Part | None:
        """The next records of `run`; None where it is at its end, or all of them are skipped."""
        try:
            part = run.part(limit if self._left is None else min(limit, self._left))
        except OttlaError:
            self._rewind(run)
            raise
        if part is None:
            self._end(run)
            return None
        run.position.offset, run.position.offset_epoch = next_offset(part), run.epoch
        if self._left is not None:
            self._left -= len(part)
        return self._readable(run.partition, part) if self._skip_bad else part

    def _end(self, run: Run) -> None:
        """`run` was read to its end, which may lie behind its last record."""
        if not run.stale and self._left != 0:
            run.position.offset = max(run.next_offset, run.position.offset or 0)
        self._forget(run)

    def _rewind(self, run: Run) -> None:
        """Leave `run` where it is; what is left of it is fetched again when the partition is read on."""
        with self._fetcher.lock:
            if not run.stale and run.position.offset is not None:
                self._subscription.seek(run.position, run.position.offset)
        self._forget(run)

    def _forget(self, run: Run) -> None:
        if self._run is run:
            self._run = None
            with self._fetcher.lock:
                self._subscription.on_read(run.chunk)

    def _counted(self, run: Run) -> Iterator[RawRecord]:
        assert self._left is not None
        before = self._consumed.records
        for taken, raw in enumerate(run.stream(), 1):
            self._left -= 1
            yield raw
            if not self._left:
                self._consumed.records = max(self._consumed.records, before + taken)
                return

    def _readable(self, partition: TopicPartition, part: Part) -> Part:
        good: list[RawRecord] = []
        for raw in part:
            try:
                self._serdes.record(partition, raw)
            except SerializationError as error:
                self._on_bad_record(error)
            else:
                good.append(raw)
        return Records(good, part.has_log_append_time)

    def _on_bad_record(self, error: SerializationError) -> None:
        if not self._skip_bad:
            raise error
        logger.warning("skipped: %s", error.message)
