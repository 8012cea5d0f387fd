"""A shard's log in bytes: how records become the batches that are appended, and how stored batches become records.

A transactional batch names its producer in its header, outside of the records. A control batch holds one marker of a
transaction, or one fence. Control records of any other type are passed over, as Kafka's own tools do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from ottla_core.coordination.shard import Entry, Marker, Record, TransactionProducer
from ottla_core.records.batch import HEADER_SIZE, NO_PRODUCER_ID, TRANSACTIONAL, Buffer, iter_headers
from ottla_core.records.control import EndTransactionMarker, marker_of, seal_marker
from ottla_core.records.fence import ShardFence, fence_of
from ottla_core.records.reader import read_records
from ottla_core.records.twins import twin

_TWIN: Final = twin()
"""It is loaded with this module. At the first shard, loading it would hold up the event loop for 0.2 s."""

_FRAMING_BYTES: Final = 24
"""The framing of a record without headers and with its batch's first timestamp: attributes, five int32 varints, the
count."""
_MARKER_BYTES: Final = 10  # its key and value


class StoredBatch(NamedTuple):
    """One batch of the log. It has keys with values, or entries and markers of transactions, or a fence, or nothing
    that means something to a coordinator."""

    next_offset: int
    pairs: list[tuple[bytes, bytes | None]]
    of_transactions: list[Record]
    fence: ShardFence | None = None


def size_limit(records: Sequence[Record]) -> int:
    """Return an upper bound of the bytes of the batches that the records make."""
    return sum(map(_batch_limit, _batches(records)))


def is_one_batch(records: Sequence[Record]) -> bool:
    return len(_batches(records)) <= 1


def seal_records(records: Sequence[Record], timestamp_ms: int) -> bytes:
    """Return batches with the records in their order, all dated `timestamp_ms`. They are as few as can be. Each has
    entries without a producer, or of one producer, or a marker."""
    return b"".join(_sealed(batch, timestamp_ms) for batch in _batches(records))


def _batches(records: Sequence[Record]) -> Sequence[Sequence[Record]]:
    if len(records) <= 1:  # most decisions have one
        return [records] if records else []
    # A new object is equal to no other, so a marker is alone.
    of_one = groupby(records, lambda record: record.producer if isinstance(record, Entry) else object())
    return [list(batch) for _, batch in of_one]


def _batch_limit(records: Sequence[Record]) -> int:
    return HEADER_SIZE + sum(map(record_limit, records))


def record_limit(record: Record) -> int:
    """Return an upper bound of the bytes that a record takes in its batch."""
    if isinstance(record, Marker):
        return _FRAMING_BYTES + _MARKER_BYTES
    return _FRAMING_BYTES + len(record.key) + len(record.value or b"")


def _sealed(records: Sequence[Record], timestamp_ms: int) -> bytes:
    """Return one batch. A producer's batch has no sequence, because the shard's owner sees to it that it is not there
    twice."""
    [first, *_] = records
    if isinstance(first, Marker):
        marker = EndTransactionMarker(first.committed, first.coordinator_epoch)
        return seal_marker(*first.producer, marker, timestamp_ms)
    builder = _TWIN.builder(_batch_limit(records))
    for entry in records:
        assert isinstance(entry, Entry)
        fits = builder.append(timestamp_ms, entry.key, entry.value)
        assert fits, "the limit of a record's size is too low"
    if first.producer is None:
        return builder.seal()
    producer_id, epoch = first.producer
    return builder.seal(producer_id=producer_id, producer_epoch=epoch, attributes=TRANSACTIONAL)


def read_batches(data: Buffer) -> Iterator[StoredBatch]:
    """Yield the whole batches in `data`, as they lie in the log. Raises CORRUPT_MESSAGE."""
    view = memoryview(data)
    for at, header in iter_headers(data):
        batch = view[at : at + header.size_bytes]
        producer = TransactionProducer(header.producer_id, header.producer_epoch)
        if header.is_control:
            fence, marker = fence_of(batch), None if header.producer_id == NO_PRODUCER_ID else marker_of(batch)
            markers: list[Record] = [] if marker is None else [Marker(producer, *marker)]
            yield StoredBatch(header.next_offset, [], markers, fence)
            continue
        pairs = [(key, value) for _, _, key, value, _ in read_records(batch) if key is not None]
        if header.is_transactional:
            yield StoredBatch(header.next_offset, [], [Entry(key, value, producer) for key, value in pairs])
        else:
            yield StoredBatch(header.next_offset, pairs, [])
