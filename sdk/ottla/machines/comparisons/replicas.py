"""Compares replicas of one partition, which must have the same bytes from one offset to another (rule 1).

Each replica returns whole batches, cut at any point. The range that all of them have is compared as bytes and dropped,
so memory is limited to one fetch of each replica. Headers are parsed only if bytes differ, to name the field that
differs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ottla.errors import OttlaError
from ottla_core.records.batch import BatchHeader, body_crc, corrupt, iter_headers, read_header, whole_batches

_FIELDS: Final = (
    ("base_offset", "base offset"),
    ("leader_epoch", "leader epoch"),
    ("crc", "CRC"),
    ("batch_length", "length"),
)
"""The fields that distinguish batches, in the order of reports; bytes may differ even if all of these agree."""


@dataclass(frozen=True, slots=True)
class BatchSeen:
    """A batch on a replica; `is_sound` says whether its CRC matches its bytes."""

    base_offset: int
    leader_epoch: int
    crc: int
    size_bytes: int
    is_sound: bool


@dataclass(frozen=True, slots=True)
class Difference:
    """The first batch that differs from the one on the broker `reference`; `what` names the field that differs.

    `offset` is the batch's offset; everything before it is equal. A compacted replica may have no batch there: None.
    """

    what: str
    reference: int
    offset: int
    expected: BatchSeen | None
    found: BatchSeen | None


@dataclass(slots=True)
class Reading:
    """The state of reading one replica: `offset` comes next, and the bytes of `records` from `at` on are not compared
    yet."""

    offset: int
    records: bytes = b""
    at: int = 0

    @property
    def left_bytes(self) -> int:
        """The number of bytes of `records` after `at`."""
        return len(self.records) - self.at

    def skip(self, size_bytes: int) -> None:
        """Skip this many bytes."""
        self.at += size_bytes
        if not self.left_bytes:
            self.records, self.at = b"", 0


class Comparison:
    """The replicas on `brokers`, from the offset `start` to below `end`; the first of them is the reference.

    A replica that differs is not read any further; the others continue.
    """

    def __init__(self, brokers: Iterable[int], start: int, end: int) -> None:
        self.start = start
        self.end: Final = end
        self.compared_bytes = 0
        self.differences: Final[dict[int, Difference]] = {}
        self.given_up: Final[dict[int, OttlaError]] = {}
        """The brokers whose replicas could not be compared to the end, each with the error."""
        self._read_limit = end
        self._readings = {broker: Reading(start) for broker in brokers}

    @property
    def equal(self) -> tuple[int, ...]:
        """The brokers whose replicas are equal as far as they were compared; a single replica is equal to itself."""
        return tuple(self._readings)

    @property
    def offset(self) -> int:
        """The offset up to which the slowest replica has been read."""
        return min((reading.offset for reading in self._readings.values()), default=self.end)

    def wants(self) -> list[tuple[int, int]]:
        """Return (broker, offset) of each fetch that is needed to continue; empty once everything is compared."""
        if len(self._readings) < 2:
            return []
        return [(b, r.offset) for b, r in self._readings.items() if not r.left_bytes and r.offset < self.end]

    def on_records(self, broker: int, records: bytes) -> None:
        """Add a broker's batches from the fetch offset on. Raises CORRUPT_MESSAGE if they are not such batches."""
        reading = self._readings[broker]
        size_bytes, offset = whole_batches(records, self._read_limit)
        if not size_bytes:  # a batch that reaches beyond the end belongs to the comparison all the same
            header = _first_header(records, reading.offset)
            size_bytes, offset = header.size_bytes, header.next_offset
        if offset <= reading.offset:
            raise corrupt(
                f"the response contains only batches up to offset {offset}, but offset {reading.offset} was requested"
            )
        reading.records, reading.at, reading.offset = records[:size_bytes], 0, offset
        self._skip_deleted(reading)

    def on_log_start(self, offset: int) -> None:
        """Note a log's new start. Earlier records were deleted, on this broker already and on the others soon."""
        if offset > self.start:
            self.start = offset
            for reading in self._readings.values():
                self._skip_deleted(reading)

    def drop(self, broker: int) -> None:
        """Drop a replica that can't be read any longer."""
        del self._readings[broker]

    def compare(self) -> None:
        """Compare and drop the bytes that all replicas have."""
        while len(self._readings) > 1 and (common := min(r.left_bytes for r in self._readings.values())):
            (reference, ours), *rest = self._readings.items()
            expected = ours.records[ours.at : ours.at + common]
            for broker, theirs in rest:
                if theirs.records[theirs.at : theirs.at + common] != expected:
                    self.differences[broker] = _first_difference(reference, ours.records[ours.at :], theirs)
                    del self._readings[broker]
            for reading in self._readings.values():
                reading.skip(common)
            self.compared_bytes += common

    def _skip_deleted(self, reading: Reading) -> None:
        reading.offset = max(reading.offset, self.start)
        reading.skip(whole_batches(memoryview(reading.records)[reading.at :], self.start)[0])


def _first_header(records: bytes, offset: int) -> BatchHeader:
    if not records:
        raise corrupt(f"the response contains no batches from offset {offset} on, which is below the high watermark")
    header = read_header(records)
    if next(iter_headers(records), None) is None:
        raise corrupt(f"the response from offset {offset} on is not a complete batch")
    return header


def _first_difference(reference: int, expected: bytes, theirs: Reading) -> Difference:
    """Return the first difference.

    Both are whole batches that differ before either ends, so one pair of batches differs.
    """
    found = theirs.records[theirs.at :]
    for (at, ours), (_, other) in zip(iter_headers(expected), iter_headers(found), strict=False):
        mine, its = expected[at : at + ours.size_bytes], found[at : at + other.size_bytes]
        if mine != its:
            named = (label for field, label in _FIELDS if getattr(ours, field) != getattr(other, field))
            offset = min(ours.base_offset, other.base_offset)
            return Difference(next(named, "bytes"), reference, offset, seen(ours, mine), seen(other, its))
    raise AssertionError("every byte that differs is in a batch")


def seen(header: BatchHeader, batch: bytes) -> BatchSeen:
    """Return the report of a batch that differs."""
    sound = body_crc(batch) == header.crc
    return BatchSeen(header.base_offset, header.leader_epoch, header.crc, header.size_bytes, sound)
