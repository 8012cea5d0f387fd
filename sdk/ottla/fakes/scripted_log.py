"""The log of one partition in memory, with a broker's rules for idempotent producers and leader epochs, and no others.

Written from the rules (25, 26) and on purpose not from the broker's code: the fakes are also what tests of the producer
compare it with.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla_core.records.batch import (
    CONTROL,
    NO_PRODUCER_ID,
    TRANSACTIONAL,
    BatchHeader,
    check_batch,
    iter_headers,
    placed_prefix,
    read_header,
)
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.twins import new_builder

_REMEMBERED_BATCHES = 5
_SEQUENCES = 1 << 31


class ScriptedBatch(NamedTuple):
    """A batch with its offsets: `first` to below `next`."""

    first: int
    next: int
    max_timestamp: int
    records: bytes
    leader_epoch: int = 0


@dataclass(slots=True)
class _Producer:
    """What a partition knows of one producer: (first sequence, next sequence, offset) of the last batches."""

    epoch: int
    batches: list[tuple[int, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class ScriptedLog:
    """One partition: whole batches with their offsets, each of at most `max_message_bytes`."""

    batches: list[ScriptedBatch] = field(default_factory=list)
    start: int = 0
    max_message_bytes: int = 1 << 30
    producers: dict[int, _Producer] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)  # where open transactions begin, by producer id
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, first offset, marker's offset

    @property
    def last_stable_offset(self) -> int:
        return min(self.open.values(), default=self.end)

    def end_transaction(self, producer_id: int, epoch: int, *, committed: bool) -> None:
        """Write the marker, which carries the raised epoch."""
        marker = encode_marker(EndTransactionMarker(committed, 0))
        builder = new_builder(1000, pure=True)
        builder.append(1000, *marker)
        batch = builder.seal(producer_id=producer_id, producer_epoch=epoch, attributes=CONTROL | TRANSACTIONAL)
        first, end = self.open.pop(producer_id, None), self.end
        self.batches.append(ScriptedBatch(end, end + 1, -1, placed_prefix(read_header(batch), end, 0) + batch[16:]))
        self.producers[producer_id] = _Producer(epoch)
        if first is not None and not committed:
            self.aborted.append((producer_id, first, end))

    @property
    def end(self) -> int:
        return self.batches[-1].next if self.batches else self.start

    def append(self, records: bytes, leader_epoch: int = 0) -> int:
        """The offset of the first record, or of the batch that this one repeats. Raises Kafka's errors."""
        base = self.end
        for at, _ in iter_headers(records):
            check_batch(records, at, max_bytes=self.max_message_bytes)
        for at, header in iter_headers(records):
            repeated = self._offset_of(header)
            if repeated is not None:
                return repeated
            first = self.end
            batch = placed_prefix(header, first, leader_epoch) + records[at + 16 : at + header.size_bytes]
            after = first + header.record_count
            self.batches.append(ScriptedBatch(first, after, header.max_timestamp, batch, leader_epoch))
            self._remember(header, first)
        return base

    def _offset_of(self, header: BatchHeader) -> int | None:
        """Return the offset of a batch that the log already has, None for a new one."""
        if header.producer_id == NO_PRODUCER_ID:
            return None
        known = self.producers.get(header.producer_id)
        if known is None:
            if header.is_transactional and header.base_sequence != 0:  # transactions v2 (KIP-890)
                raise _out_of_order(header, 0)
            return None
        if header.producer_epoch < known.epoch:
            raise OttlaError(ErrorCode.INVALID_PRODUCER_EPOCH, f"the current epoch is {known.epoch}")
        in_epoch = header.producer_epoch == known.epoch and known.batches
        next_sequence = known.batches[-1][1] if in_epoch else 0
        if header.base_sequence == next_sequence:
            return None
        if header.producer_epoch == known.epoch:
            last = (header.base_sequence + header.record_count) % _SEQUENCES
            for first, after, offset in known.batches[-_REMEMBERED_BATCHES:]:
                if (first, after) == (header.base_sequence, last):
                    return offset
            if any(first == header.base_sequence for first, _, _ in known.batches):
                raise OttlaError(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, "the batch is already in the log")
        raise _out_of_order(header, next_sequence)

    def _remember(self, header: BatchHeader, offset: int) -> None:
        if header.producer_id == NO_PRODUCER_ID:
            return
        known = self.producers.get(header.producer_id)
        if known is None or known.epoch != header.producer_epoch:
            known = self.producers[header.producer_id] = _Producer(header.producer_epoch)
        after = (header.base_sequence + header.record_count) % _SEQUENCES
        known.batches.append((header.base_sequence, after, offset))

    def read(self, offset: int, max_bytes: int, end: int | None = None) -> bytes:
        """From the batch that holds `offset` on, the first one whole (KIP-74), and up to `end`."""
        read: list[bytes] = []
        size = 0
        for batch in self.batches:
            if batch.next > offset and (end is None or batch.next <= end):
                if read and size + len(batch.records) > max_bytes:
                    break
                read.append(batch.records)
                size += len(batch.records)
        return b"".join(read)

    def offset_for(self, timestamp_ms: int) -> int:
        """As ListOffsets has it, by batch."""
        if timestamp_ms == EARLIEST_TIMESTAMP:
            return self.start
        if timestamp_ms == LATEST_TIMESTAMP:
            return self.end
        return next((batch.first for batch in self.batches if batch.max_timestamp >= timestamp_ms), -1)

    def epoch_end(self, leader_epoch: int, current_epoch: int) -> tuple[int, int]:
        """The largest epoch at or below `leader_epoch`, and where it ended; (-1, -1) where there is none (KIP-101)."""
        if leader_epoch == current_epoch:
            return current_epoch, self.end
        older = [batch for batch in self.batches if batch.leader_epoch <= leader_epoch]
        return (older[-1].leader_epoch, older[-1].next) if older else (-1, -1)

    def drop_before(self, offset: int) -> None:
        """Drop the batches that end at or below an offset, as retention does."""
        self.batches = [batch for batch in self.batches if batch.next > offset]
        self.start = self.batches[0].first if self.batches else offset

    def drop_after(self, offset: int) -> None:
        """Drop the batches that begin at or after an offset, and what is known of them, as a leader that lacks them."""
        self.batches = [batch for batch in self.batches if batch.first < offset]
        self.producers = {}
        for batch in self.batches:
            self._remember(read_header(batch.records), batch.first)


def _out_of_order(header: BatchHeader, next_sequence: int) -> OttlaError:
    return OttlaError(
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, f"got sequence {header.base_sequence}, but expected {next_sequence}"
    )
