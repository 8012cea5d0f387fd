"""Compares replicas of a compacted partition. Each replica is cleaned separately, so not every record is on all (I16).

Cleaning never changes the offsets and the producer of a batch, nor a record that stays. Records that two replicas both
have must therefore be equal. If a replica lacks a record, the record must have been superseded there. A newer record
with the same key may have superseded it; to find that record, the replica is read up to its high watermark. Or a
tombstone deleted it, and the tombstone may since have been removed with everything it deleted; in that case a replica
without the tombstone is read again. If nothing supersedes a record, it is looked up once more before it counts as
missing, because the replica that had it may have been cleaned since.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

from ottla.errors import ErrorCode, OttlaError, error_from_code, from_core
from ottla.machines.comparisons.replicas import Comparison, Difference, seen
from ottla.machines.missing_records import FENCE, MissingRecords, Suspect, key_hash
from ottla_core.records.batch import CODEC_MASK, DELETE_HORIZON, BatchHeader, iter_headers, read_header
from ottla_core.records.fence import fence_of
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord

_MISSING_BYTES: Final = 32 << 20
_NO_LIMIT: Final = (1 << 63) - 1
_CLEANED_BITS: Final = CODEC_MASK | DELETE_HORIZON
_RECORD_FIELDS: Final = ("offset", "timestamp", "key", "value", "headers")


class _Found(NamedTuple):
    """A record on these brokers. `key` is the hash of its key, or None for data without a key, such as markers."""

    offset: int
    record: RawRecord
    key: bytes | None
    brokers: list[int]

    @property
    def is_tombstone(self) -> bool:
        return self.record[2] is not None and self.record[3] is None


class CompactedComparison(Comparison):
    """Compares, like `Comparison`, the data that compaction does not change.

    `missing_bytes` limits the memory for a replica's missing records; a replica that exceeds it at any time is given
    up.
    """

    def __init__(self, brokers: Iterable[int], start: int, end: int, *, missing_bytes: int = _MISSING_BYTES) -> None:
        super().__init__(brokers, start, end)
        self._read_limit = _NO_LIMIT
        self._missing_bytes: Final = missing_bytes
        self._missing: Final = MissingRecords(self._readings)
        self._is_read: Final[set[int]] = set()
        self._second: dict[int, int] | None = None  # the next offset of a second reading
        self._suspect: Suspect | None = None
        self._at_suspect: Final[dict[int, bytes]] = {}  # the batch at the suspect's offset, and who has the record
        self._holders: Final[list[int]] = []
        self._take: Callable[[int, bytes], None] = self._on_next

    def wants(self) -> list[tuple[int, int]]:
        if (below := super().wants()) or len(self._readings) < 2 or self._missing.is_empty:
            return below
        beyond = [(broker, r.offset) for broker, r in self._readings.items() if broker not in self._is_read]
        if beyond and self._missing:
            self._take = self._on_next
            return beyond
        if self._second is None:
            self._second = dict.fromkeys(self._missing.without_tombstones(), self.start)
        if again := [
            (b, max(at, self.start)) for b, at in self._second.items() if b in self._readings and at < self.end
        ]:
            self._take = self._on_second
            return again
        self._suspect, self._take = self._missing.first(self.start), self._on_suspect
        return [(broker, self._suspect.offset) for broker in self._readings] if self._suspect else []

    def on_records(self, broker: int, records: bytes) -> None:
        self._take(broker, records)

    def drop(self, broker: int) -> None:
        super().drop(broker)
        self._missing.drop(broker)

    def compare(self) -> None:
        if self._suspect is not None:
            self._judge(self._suspect)
            return
        while len(self._readings) > 1 and all(r.left_bytes or r.offset >= self.end for r in self._readings.values()):
            fronts = {b: read_header(r.records, r.at) for b, r in self._readings.items() if r.left_bytes}
            first = min(fronts.values(), key=itemgetter(0), default=None)
            if first is None:
                return
            if first.base_offset < self.end:
                self._compare_batch({b: h for b, h in fronts.items() if h.base_offset < first.next_offset})
            else:
                for broker, header in fronts.items():
                    self._read_on(broker, self._next_batch(broker, header))

    # ---- below the end: batch by batch, record by record -------------------------------------------------------------

    def _on_next(self, broker: int, records: bytes) -> None:
        """Handle an empty response by reading up to the high watermark, because cleaning may have left no record before
        it."""
        if records:
            super().on_records(broker, records)
        else:
            self._is_read.add(broker)
            self._readings[broker].offset = max(self._readings[broker].offset, self.end)

    def _next_batch(self, broker: int, header: BatchHeader) -> bytes:
        reading = self._readings[broker]
        batch = reading.records[reading.at : reading.at + header.size_bytes]
        reading.skip(header.size_bytes)
        return batch

    def _compare_batch(self, headers: Mapping[int, BatchHeader]) -> None:
        """Compare the batches at the same offsets; the other replicas have no batch there."""
        batches = {broker: self._next_batch(broker, header) for broker, header in headers.items()}
        (reference, expected), *others = headers.items()
        for broker, header in others:
            if what := _first_field(BatchHeader._fields, _lasting(expected), _lasting(header)):
                offset = min(header.base_offset, expected.base_offset)
                self._differ(broker, what.replace("_", " "), reference, offset, batches)
        alike: dict[bytes, list[int]] = {}
        for broker, batch in batches.items():
            if broker in self._readings:
                alike.setdefault(batch, []).append(broker)
        self.compared_bytes += expected.size_bytes
        if len(alike) == 1 and len(batches) == len(self._readings) and self._missing.is_empty:
            return
        for _, same in groupby(merge(*self._parsed(alike, batches), key=itemgetter(0)), key=itemgetter(0)):
            found = [one for one in same if not self._readings.keys().isdisjoint(one.brokers)]
            if found:
                self._compare_record(found, batches)

    def _parsed(self, alike: Mapping[bytes, list[int]], batches: Mapping[int, bytes]) -> list[Iterator[_Found]]:
        """Return the records of each undamaged batch. The same damage on every replica is not a difference."""
        parsed = []
        for batch, brokers in alike.items():
            try:
                parsed.append(_found(batch, brokers))
            except OttlaError:
                reference = next((broker for broker in self._readings if broker not in brokers), brokers[0])
                for broker in set(brokers) - {reference}:
                    self._differ(broker, "bytes", reference, read_header(batch).base_offset, batches)
        return parsed

    def _compare_record(self, found: list[_Found], batches: Mapping[int, bytes]) -> None:
        first, *others = found
        for other in others:
            if what := _first_field(_RECORD_FIELDS, first.record, other.record):
                for broker in other.brokers:
                    self._differ(broker, what, first.brokers[0], first.offset, batches)
        if first.key is None:
            return
        holders = {broker for one in found for broker in one.brokers}
        if first.is_tombstone:
            self._missing.delete(first.key)
        for broker in list(self._readings):
            if broker in holders:
                self._missing.supersede(broker, first.key)
                continue
            add = self._missing.add_tombstone if first.is_tombstone else self._missing.add
            if add(broker, first.key, first.offset) > self._missing_bytes:
                self._give_up(broker, first.offset)

    # ---- what is missing: beyond the end, in a second reading, and once more where it was ----------------------------

    def _read_on(self, broker: int, batch: bytes) -> None:
        try:
            found = _found(batch, [broker]) if self._missing else ()
        except OttlaError as error:
            self.given_up[broker] = from_core(error)
            self.drop(broker)
            return
        for one in found:
            if one.key is not None and one.is_tombstone:
                self._missing.delete(one.key)
            elif one.key is not None:
                self._missing.supersede(broker, one.key)

    def _on_second(self, broker: int, records: bytes) -> None:
        assert self._second is not None
        self._second[broker] = self.end
        for at, header in iter_headers(records):
            self._second[broker] = header.next_offset
            for one in _found(records[at : at + header.size_bytes], [broker]):
                if one.key is not None and one.offset >= self.start:
                    self._missing.found(broker, one.key, one.offset)

    def _on_suspect(self, broker: int, records: bytes) -> None:
        assert self._suspect is not None
        header = next((header for _, header in iter_headers(records)), None)
        if header is None or header.base_offset > self._suspect.offset:
            return
        self._at_suspect[broker] = batch = records[: header.size_bytes]
        offset, _, key = self._suspect
        if any(one.offset == offset and one.key == key for one in _found(batch, [broker])):
            self._holders.append(broker)

    def _judge(self, suspect: Suspect) -> None:
        holders = [broker for broker in self._readings if broker in self._holders]
        if suspect.broker in holders or not holders:
            self._missing.supersede(*suspect[1:])
        else:
            self._differ(suspect.broker, "missing record", holders[0], suspect.offset, self._at_suspect)
        self._suspect = None
        self._at_suspect.clear()
        self._holders.clear()

    # ---- brokers that are not compared any further -------------------------------------------------------------------

    def _differ(self, broker: int, what: str, reference: int, offset: int, batches: Mapping[int, bytes]) -> None:
        if broker in self._readings:
            expected, found = (
                seen(read_header(batches[b]), batches[b]) if b in batches else None for b in (reference, broker)
            )
            self.differences[broker] = Difference(what, reference, offset, expected, found)
            self.drop(broker)

    def _give_up(self, broker: int, offset: int) -> None:
        self.given_up[broker] = error_from_code(
            ErrorCode.RECORD_LIST_TOO_LARGE,
            f"the replica lacks too many records before offset {offset}: their keys do not fit in "
            f"{self._missing_bytes >> 20} MiB",
            hint="its log was compacted, and another replica's was not: compare again once all of them are compacted",
        )
        self.drop(broker)


def _lasting(header: BatchHeader) -> BatchHeader:
    """Return the header without the fields that a cleaning changes."""
    attributes = header.attributes & ~_CLEANED_BITS
    return header._replace(
        batch_length=0, crc=0, attributes=attributes, base_timestamp=0, max_timestamp=0, record_count=0
    )


def _first_field(names: Iterable[str], ours: tuple[object, ...], theirs: tuple[object, ...]) -> str | None:
    return next((name for name, mine, other in zip(names, ours, theirs, strict=True) if mine != other), None)


def _found(batch: bytes, brokers: list[int]) -> Iterator[_Found]:
    """Yield the records of one batch. Raises CORRUPT_MESSAGE for any damage."""
    is_control, records = read_header(batch).is_control, read_records(batch)
    if is_control:
        key = None if fence_of(batch) is None else FENCE
        return (_Found(record[0], record, key, brokers) for record in records)
    return (_Found(record[0], record, key_hash(record[2], record[0]), brokers) for record in records)
