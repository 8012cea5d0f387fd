"""How chunks become records: opened batch by batch, handed out one by one or in lists.

A chunk is what one fetch brought for one partition. Its batches are checked and decompressed when the reader comes to
them. However they are handed out, a partition's position is the offset after the last record that was. What may be in a
chunk and is not handed out: records below the position (a batch comes whole, rule 57), records at or after the stop,
and control batches (rule 38), whose offsets count all the same.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain, dropwhile, islice, takewhile
from typing import Final, Generic

from ottla.assignment import Assignment
from ottla.errors import OttlaError, SerializationError, error_from_code
from ottla.fetcher import Fetcher
from ottla.generics import K, V
from ottla.machines.subscription import Chunk, Position, Subscription
from ottla.record import Batch, Record, Segment, Serdes
from ottla_core.model import TopicPartition
from ottla_core.records.batch import iter_headers
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord

logger = logging.getLogger("ottla.consumer")

FOREVER: Final = float("inf")
_NO_WAIT: Final = 0.0


class Run:
    """`records` can be read on by whoever comes next; it raises CORRUPT_MESSAGE where a batch can't be read."""

    __slots__ = ("chunk", "next_offset", "partition", "position", "records", "version")

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.position: Position = chunk.position
        self.partition: TopicPartition = chunk.position.partition
        self.version = chunk.version
        self.next_offset = 0
        self.records: Iterator[RawRecord] = chain.from_iterable(self._batches())

    @property
    def stale(self) -> bool:
        """Whether the user has gone elsewhere meanwhile."""
        return self.version != self.position.version

    def _batches(self) -> Iterator[Iterator[RawRecord]]:
        """One iterator a batch, made when the one before it is used up."""
        data = memoryview(self.chunk.records)
        first = self.position.offset or 0
        stop = self.position.stop
        self.next_offset = first
        for at, header in iter_headers(data):
            if header.next_offset <= first:
                continue
            if stop is not None and header.base_offset >= stop:
                self.next_offset = stop
                return
            if not header.is_control:
                records = self._open(data[at : at + header.size_bytes], header.next_offset)
                if header.base_offset < first:
                    records = dropwhile(lambda raw: raw[0] < first, records)
                if stop is not None and header.next_offset > stop:
                    records = takewhile(lambda raw: raw[0] < stop, records)
                yield records
            self.next_offset = header.next_offset if stop is None else min(stop, header.next_offset)

    def _open(self, batch: memoryview, next_offset: int) -> Iterator[RawRecord]:
        try:
            return read_records(batch)
        except OttlaError as error:
            hint = f"read again; if it stays, the log is damaged there: to go on without it, seek to {next_offset}"
            raise error_from_code(error.code, f"{self.partition}: {error.message}", hint=hint) from None


class Reader(Generic[K, V]):
    """One consumer's reading. Used by one thread at a time; `most` records in all, None for any number."""

    def __init__(
        self,
        assignment: Assignment,
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
        self._run: Run | None = None

    def records(self, owner: object) -> Iterator[Record[K, V]]:
        """Record by record, until the stop or until the consumer is closed. `owner` lives as long as the reading."""
        make = self._serdes.record
        while (run := self._next_run(FOREVER)) is not None:
            partition, position, version = run.partition, run.position, run.version
            try:
                for raw in run.records:
                    position.offset = raw[0]  # where to go on if its deserializer raises
                    try:
                        record = make(partition, raw)
                    except SerializationError as error:
                        self._on_bad_record(error)
                        continue
                    position.offset = raw[0] + 1
                    yield record
                    if position.version != version:
                        break
                else:
                    self._end(run)
            except OttlaError:
                self._rewind(run)
                raise

    def gather(self, limit: int, wait_first: float, wait_more: float) -> Batch[K, V]:
        """Up to `limit` records; waits `wait_first` seconds for the first and from then `wait_more` for the others."""
        segments: list[Segment] = []
        wait, deadline_at = wait_first, FOREVER
        while limit > 0 and (run := self._next_run(wait)) is not None:
            raws: list[RawRecord] = []
            try:
                self._take(run, limit, raws)
            except OttlaError:
                if not raws and not segments:
                    raise
                limit = 0  # what was read before it comes first; the same error comes with the next call
            if raws:
                segments.append((run.partition, raws))
                limit -= len(raws)
                if deadline_at == FOREVER:
                    deadline_at = self._clock.monotonic() + wait_more
            if segments:
                wait = max(_NO_WAIT, deadline_at - self._clock.monotonic())
        return Batch(segments, self._serdes)

    def on_pause(self, position: Position) -> None:
        """Leave a partition that is being read; what is left of its chunk is fetched again."""
        if self._run is not None and self._run.position is position:
            self._rewind(self._run)

    def _next_run(self, timeout: float) -> Run | None:
        """What is being read, or the next chunk; None at the stop, after a close and after `timeout` seconds."""
        deadline_at = self._clock.monotonic() + timeout
        while not self._fetcher.closed and self._left != 0:
            if self._run is not None:
                if not self._run.stale:
                    return self._run
                self._forget(self._run)
            self._assignment.ensure()
            self._assignment.resolve()
            if self._subscription.done:
                return None
            left = deadline_at - self._clock.monotonic()
            chunk = self._fetcher.take(max(_NO_WAIT, left))
            if chunk is not None:
                self._run = Run(chunk)
                if self._left is not None:
                    self._run.records = self._counted(self._run.records)
            elif left <= 0:
                return None
        return None

    def _take(self, run: Run, limit: int, raws: list[RawRecord]) -> None:
        """Fill `raws` with the next records of `run`; also with those before a batch that can't be read."""
        try:
            raws.extend(islice(run.records, limit))
        except OttlaError:
            self._advance(run, raws)
            self._rewind(run)
            raise
        taken = len(raws)
        self._advance(run, raws)
        if taken < limit:
            self._end(run)

    def _advance(self, run: Run, raws: list[RawRecord]) -> None:
        if raws:
            run.position.offset = raws[-1][0] + 1
        if self._skip_bad:
            raws[:] = self._readable(run.partition, raws)

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

    def _counted(self, records: Iterator[RawRecord]) -> Iterator[RawRecord]:
        assert self._left is not None
        for raw in records:
            self._left -= 1
            yield raw
            if not self._left:
                return

    def _readable(self, partition: TopicPartition, raws: list[RawRecord]) -> list[RawRecord]:
        good = []
        for raw in raws:
            try:
                self._serdes.record(partition, raw)
            except SerializationError as error:
                self._on_bad_record(error)
            else:
                good.append(raw)
        return good

    def _on_bad_record(self, error: SerializationError) -> None:
        if not self._skip_bad:
            raise error
        logger.warning("skipped: %s", error.message)
