"""A completed fetch is the data that one fetch brought for one partition, while it is read batch by batch.

When the reader reaches a batch, the whole batch is checked and decompressed. So nothing is raised between two of its
records, and a damaged batch is an error of that batch alone: the records before it were returned, and a seek passes it.
If its checksum is right, its producer wrote it like that. Then the reader decides whether it raises or goes on.
Until then it stays as bytes, because a seek or a stop may make it needless.

Some of the data is not returned. These are records below the position (rule 57: batches may start below the fetch
offset, and the client skips), records at or after the stop, control batches, and records of aborted transactions (rule
38: the client drops them, the broker does not filter). Their offsets count all the same, or a position would never get
past them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

from ottla.consumer.metrics import Consumed
from ottla.errors import OttlaError, UnreadableBatchError, error_from_code
from ottla.machines.position import FetchedData, Position
from ottla_core.model import TopicPartition
from ottla_core.records.aborted import AbortedTransactions
from ottla_core.records.batch import BatchHeader, check_stored, iter_headers
from ottla_core.records.reader import sound_records
from ottla_core.records.record import Header, RawRecord

MOST_KEPT_BYTES: Final = 512 << 10
"""The part of a batch that is kept although it can't be read. A broker takes a record of this size."""


class OpenBatch:
    """All records of one batch, as bytes; a record object is made only when it is needed."""

    __slots__ = ("_records", "first_offset", "has_log_append_time", "next_offset")

    def __init__(self, header: BatchHeader, data: memoryview) -> None:
        self.first_offset = header.base_offset
        self.next_offset = header.next_offset
        self.has_log_append_time = header.has_log_append_time
        # This checks and decompresses all of it, so that later steps can't fail.
        self._records = sound_records(header, data)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[RawRecord]:
        return iter(self._records)

    def columns(self, *fields: int) -> Sequence[list[Any]]:
        """Return these fields of all records, one list each: OFFSET, TIMESTAMP … of `ottla_core.records.record`."""
        return self._records.columns(*fields)


class Records(list[RawRecord]):
    """Some records of one batch."""

    __slots__ = ("has_log_append_time",)

    def __init__(self, records: Iterable[RawRecord], has_log_append_time: bool) -> None:
        super().__init__(records)
        self.has_log_append_time = has_log_append_time

    def columns(self, *fields: int) -> Sequence[list[Any]]:
        """Return columns like `OpenBatch.columns`, of these records."""
        return [[raw[field] for raw in self] for field in fields]


class UnreadableBatch(NamedTuple):
    """A batch that can't be read, as a raw record in its place.

    Reading continues at `error.next_offset`. `value` is the batch as it lies in the log, up to `MOST_KEPT_BYTES`.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    error: UnreadableBatchError


RecordRange = OpenBatch | Records
"""Some records of one partition, in order; a range that is returned is never empty."""


def first_offset(part: RecordRange) -> int:
    """Return an offset that no record of `part` is below."""
    return part.first_offset if isinstance(part, OpenBatch) else part[0][0]


def next_offset(part: RecordRange) -> int:
    """Return the offset at which reading continues after `part`."""
    return part.next_offset if isinstance(part, OpenBatch) else offset_after(part[-1])


def offset_after(raw: RawRecord) -> int:
    """Return the offset at which reading continues after `raw`."""
    return raw.error.next_offset if isinstance(raw, UnreadableBatch) else raw[0] + 1


def raise_unreadable(batch: UnreadableBatch) -> None:
    """Raise UnreadableBatchError."""
    raise batch.error


class CompletedFetch:
    """Fetched data and how far it was read: record by record (`stream`) or in ranges, in any mixture."""

    __slots__ = (
        "_batches",
        "_consumed",
        "_current",
        "_log_append_time",
        "_on_unreadable",
        "_uncounted",
        "epoch",
        "fetched",
        "next_offset",
        "partition",
        "position",
        "version",
    )

    def __init__(
        self,
        fetched: FetchedData,
        consumed: Consumed,
        on_unreadable: Callable[[UnreadableBatch], RecordRange | None] = raise_unreadable,
    ) -> None:
        """Open the data. `on_unreadable` returns what takes the place of a batch that can't be read, or raises."""
        self.fetched = fetched
        self._on_unreadable = on_unreadable
        self._consumed = consumed
        self.position: Position = fetched.position
        self.partition: TopicPartition = fetched.position.partition
        self.version = fetched.version
        self.next_offset = self.position.offset or 0
        self.epoch = self.position.offset_epoch  # of the batch that is being read
        self._batches = self._open_batches()
        self._current: Iterator[RawRecord] | None = None
        self._log_append_time = False  # of the batch that is being read
        self._uncounted = 0  # records of `_current` that were not counted as consumed

    @property
    def stale(self) -> bool:
        """Whether the user has moved the position since the fetch."""
        return self.version != self.position.version

    def stream(self) -> Iterator[RawRecord]:
        """Iterate over the remaining records. Raises CORRUPT_MESSAGE before a batch that can't be read."""
        while True:
            if self._current is None:
                opened = next(self._batches, None)
                if opened is None:
                    return
                self._current, self._uncounted = iter(opened), len(opened)
            yield from self._current
            self._consumed.records += self._uncounted
            self._current = None

    def part(self, limit: int) -> RecordRange | None:
        """Return the next records, up to `limit`, all of one batch; None at the end. Raises like `stream`."""
        while True:
            if self._current is None:
                opened = next(self._batches, None)
                if opened is None:
                    return None
                # A whole batch is passed on as it is, without an object for each record.
                if 0 < len(opened) <= limit:
                    self._consumed.records += len(opened)
                    return opened
                self._current, self._uncounted = iter(opened), len(opened)
            raws = Records(islice(self._current, limit), self._log_append_time)
            self._consumed.records += len(raws)
            self._uncounted -= len(raws)
            if len(raws) < limit:
                self._consumed.records += self._uncounted  # those of this batch that `stream` gave before
                self._current, self._uncounted = None, 0
            if raws:
                return raws

    def _open_batches(self) -> Iterator[RecordRange]:
        """Open each batch when the one before it is used up; as a list, if not all of its records are needed."""
        data = memoryview(self.fetched.records)
        first, stop = self.next_offset, self.position.stop and self.position.stop.offset
        aborted = AbortedTransactions(self.fetched.aborted) if self.fetched.aborted else None
        for at, header in iter_headers(data):
            # Every header is shown to it, also those that are skipped: a marker ends a transaction for the batches
            # behind it.
            left_out = aborted is not None and aborted.leaves_out(header)
            if header.next_offset <= first:
                continue
            if stop is not None and header.base_offset >= stop:
                self.next_offset = stop
                return
            self.epoch = header.leader_epoch
            self._log_append_time = header.has_log_append_time
            if not (header.is_control or left_out):
                opened = self._open(header, data[at : at + header.size_bytes])
                if opened is not None:
                    yield self._in_range(opened, first, stop) if isinstance(opened, OpenBatch) else opened
            # After the yield, which means after the batch is used up: an offset counts once its records were returned.
            self.next_offset = header.next_offset if stop is None else min(stop, header.next_offset)

    def _in_range(self, opened: OpenBatch, first: int, stop: int | None) -> RecordRange:
        if opened.first_offset >= first and (stop is None or opened.next_offset <= stop):
            return opened
        raws = (raw for raw in opened if raw[0] >= first and (stop is None or raw[0] < stop))
        return Records(raws, opened.has_log_append_time)

    def _open(self, header: BatchHeader, data: memoryview) -> RecordRange | None:
        try:
            check_stored(data)
        except OttlaError as error:
            hint = (
                "read again; if the error persists, the log is damaged there: "
                f"to continue without that batch, seek to {header.next_offset}"
            )
            raise error_from_code(error.code, f"{self.partition}: {error.message}", hint=hint) from None
        try:
            return OpenBatch(header, data)
        except OttlaError as error:
            batch = self._unreadable(header, data, error)
        return self._on_unreadable(batch)

    def _unreadable(self, header: BatchHeader, data: memoryview, error: OttlaError) -> UnreadableBatch:
        reason = UnreadableBatchError(
            f"{self.partition}: {error.message}",
            hint=f"its producer wrote it like this; to continue after it, seek to {header.next_offset}, or set "
            "on_bad_record='skip'",
            topic=self.partition.topic,
            partition=self.partition.partition,
            offset=header.base_offset,
            next_offset=header.next_offset,
        )
        kept = bytes(data[:MOST_KEPT_BYTES])
        return UnreadableBatch(header.base_offset, header.max_timestamp, None, kept, [], reason)
