"""How a member hands out records: by polls, so that everybody knows what was processed.

What one poll hands out counts as processed when the next one begins. Iterating goes by polls too: of so many records as
take about half a second, so that the group's affairs are never kept waiting for long. A record counts as processed when
the next one is asked for; what a loop that was left did not come to is handed out again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Generic

from ottla.errors import CommitFailedError, OttlaError, RebalanceInProgressError, RetriableError
from ottla.fetcher import Fetcher
from ottla.generics import K, V
from ottla.group.assignment import GroupAssignment
from ottla.group.offsets import Offsets, place_of
from ottla.machines.position import NO_EPOCH, Position
from ottla.machines.subscription import Subscription
from ottla.one_thread import OneThread
from ottla.reading import FOREVER, Reader
from ottla.record import Batch, Record, Segment, Serdes
from ottla.runs import first_offset
from ottla_core.clock import Clock
from ottla_core.model import TopicPartition

_STRIDE_S: Final = 0.5


class Stride:
    """How many records an iteration takes at a time: what takes half a second, and at most `most`."""

    def __init__(self, clock: Clock, most: int) -> None:
        self._clock: Final = clock
        self._most: Final = most
        self._count = 1
        self._began_at = clock.monotonic()

    def next(self) -> int:
        """For the next poll, by the time that the last one's records took."""
        now = self._clock.monotonic()
        took_s, self._began_at = now - self._began_at, now
        self._count = min(self._most, 2 * self._count) if took_s < _STRIDE_S else max(1, self._count // 2)
        return self._count

    def begin(self) -> None:
        """The records are there: their time begins."""
        self._began_at = self._clock.monotonic()


class _Handing:
    """A poll whose records are handed out one by one; each position says where that is, and `ends` where it ends."""

    def __init__(self, segments: list[Segment], positions: dict[TopicPartition, Position]) -> None:
        self.segments: Final = segments
        self.at: Position | None = None  # of the record that was handed out last
        self.ends: Final[dict[Position, tuple[int, int, int]]] = {}  # version; offset and epoch after all of them
        for partition, part in reversed(segments):
            position = positions.get(partition)
            if position is not None and position.offset is not None:
                if position not in self.ends:
                    self.ends[position] = (position.version, position.offset, position.offset_epoch)
                position.offset, position.offset_epoch = first_offset(part), NO_EPOCH

    def is_good(self, position: Position) -> bool:
        """Whether nobody has gone elsewhere in that partition, or given it up."""
        return position in self.ends and position.version == self.ends[position][0]

    def left(self) -> dict[Position, int]:
        """The partitions whose records are not all handed out, and where they go on."""
        return {
            position: position.offset
            for position, (_, end, _) in self.ends.items()
            if self.is_good(position) and position.offset is not None and position.offset < end
        }

    def finish(self) -> None:
        """All are handed out; the ends may lie behind the last of them."""
        for position, (_, end, epoch) in self.ends.items():
            if self.is_good(position):
                position.offset, position.offset_epoch = end, epoch


class GroupReader(Generic[K, V]):
    """A Reader that goes by polls; the same face."""

    def __init__(
        self,
        reader: Reader[K, V],
        assignment: GroupAssignment,
        subscription: Subscription,
        fetcher: Fetcher,
        serdes: Serdes,
        max_poll_records: int,
    ) -> None:
        self.stride: Final = Stride(fetcher.clock, max_poll_records)
        self._make: Final = serdes.record
        self._reader: Final = reader
        self._assignment: Final = assignment
        self._subscription: Final = subscription
        self._fetcher: Final = fetcher
        self._clock: Final = fetcher.clock
        self._before: Final = assignment.options.commit == "at_most_once"
        self.polls = False  # whether it is `poll` that gathers: then the end of a `with` block is the records' end too
        self._handing: _Handing | None = None
        self._polled: dict[Position, tuple[int, int]] = {}  # what the last poll began with: version and offset

    def records(self, owner: object, one_thread: OneThread) -> Iterator[Record[K, V]]:
        """Record by record, until the stop or until the consumer is closed. `owner` lives as long as the reading."""
        loop = object()
        try:
            while batch := one_thread.step(loop, self._next_stride):
                yield from self.hand_out(batch)
        finally:
            one_thread.leave(loop)

    def hand_out(self, batch: Batch[K, V]) -> Iterator[Record[K, V]]:
        """The records of the batch that was gathered last, one by one; the positions go along."""
        handing = self._handing = _Handing(batch.segments, self._subscription.positions)
        self._polled = {}
        make = self._make
        for partition, part in handing.segments:
            position = self._subscription.positions.get(partition)
            if position is None or not handing.is_good(position):
                self._reader.give_back(len(part))
                continue
            handing.at = position
            version = position.version
            for raw in part:
                position.offset = raw[0]  # where to go on if its deserializer raises
                record = make(partition, raw)
                position.offset = raw[0] + 1
                yield record
                if position.version != version:  # somebody goes elsewhere
                    self._reader.give_back(sum(other[0] > raw[0] for other in part))
                    break
        handing.finish()
        if self._handing is handing:
            self._handing = None

    def gather(self, limit: int, wait_first: float, wait_more: float) -> Batch[K, V]:
        """One poll: up to `limit` records; waits like Reader.gather."""
        deadline_at = self._clock.monotonic() + wait_first
        self._take_back()
        self._polled = {}
        while True:
            if not self._attend():
                return self._reader.batch([])
            left = max(0.0, deadline_at - self._clock.monotonic())
            batch = self._reader.batch(self._reader.segments(limit, left, wait_more))
            self._polled = {
                position: (position.version, offset)
                for partition, offset in batch.first_offsets.items()
                if (position := self._subscription.positions.get(partition)) is not None
            }
            if not batch or not self._before or self._is_committed(batch):
                return batch

    def unread(self, offsets: dict[TopicPartition, int], count: int) -> None:
        """Take back the last `count` records; each partition in `offsets` goes on where that says."""
        there = {p: offset for p, offset in offsets.items() if p in self._subscription.positions}
        self._reader.unread(there, count)
        self._polled = {}

    @property
    def finished(self) -> bool:
        """Whether nothing will come any more: the stop is reached, or the consumer closed."""
        return self._reader.finished and self._handing is None

    def on_pause(self, position: Position) -> None:
        """Leave a partition that is being read, or handed out: what is left is read again when it is resumed."""
        self._reader.on_pause(position)
        if self._handing is not None and position in self._handing.left():
            assert position.offset is not None
            with self._fetcher.lock:
                self._subscription.seek(position, position.offset)

    def processed(self, *, well: bool) -> Offsets:
        """Where each partition goes on after the records that are done with; `well`: so are those of the last poll."""
        offsets = self._assignment.handed_out()
        if self._before:
            return offsets
        handing = self._handing
        if handing is not None and handing.at is not None and handing.is_good(handing.at) and handing.at.offset:
            offsets[handing.at.partition] = place_of(handing.at.offset - 1, NO_EPOCH)
        for position, (version, offset) in () if well and self.polls else self._polled.items():
            if position.version == version:
                offsets[position.partition] = place_of(offset, NO_EPOCH)
        return offsets

    def _next_stride(self) -> Batch[K, V]:
        batch = self.gather(self.stride.next(), FOREVER, 0.0)
        self.stride.begin()
        return batch

    def _take_back(self) -> None:
        """What a loop that was left did not hand out is read again."""
        handing, self._handing = self._handing, None
        if handing is None:
            return
        left = handing.left()
        handed = {position.partition: offset for position, offset in left.items()}
        count = sum(
            raw[0] >= handed[partition] for partition, part in handing.segments if partition in handed for raw in part
        )
        self._reader.unread(handed, count)

    def _attend(self) -> bool:
        """See to the group; False where somebody has closed the consumer."""
        try:
            self._assignment.on_poll()
            self._assignment.ensure()
        except OttlaError:
            if not self._fetcher.closed:
                raise
        return not self._fetcher.closed

    def _is_committed(self, batch: Batch[K, V]) -> bool:
        """Commit a batch before it is handed out. False where that can't be now: then it is taken back."""
        try:
            self._assignment.commit(self._assignment.uncommitted(self._assignment.handed_out()))
        except BaseException as error:
            self.unread(batch.first_offsets, len(batch))
            if isinstance(error, CommitFailedError | RebalanceInProgressError | RetriableError):
                return False
            raise
        return True
