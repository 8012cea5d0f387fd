"""A shard's log in bytes: entries into the batch that is appended, and what is stored back into records.

A transactional batch names its producer in its header, outside of the records; a control batch holds one marker of a
transaction, or one fence. Control records of any other type are passed over, as Kafka's own tools do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ottla_core.coordination.shard import Entry, Marker, Record, TransactionProducer
from ottla_core.records.batch import HEADER_SIZE, NO_PRODUCER_ID, BatchHeader, Buffer, iter_headers
from ottla_core.records.control import decode_marker
from ottla_core.records.fence import ShardFence, fence_of
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder

_FRAMING_BYTES: Final = 24
"""Of a record without headers whose timestamp is its batch's first: attributes, five varints of an int32, the count."""


class StoredBatch(NamedTuple):
    """One batch of the log. It has keys with values, or entries and markers of transactions, or a fence, or nothing
    that means something to a coordinator."""

    next_offset: int
    pairs: list[tuple[bytes, bytes | None]]
    of_transactions: list[Record]
    fence: ShardFence | None = None


def size_limit(entries: Sequence[Entry]) -> int:
    """An upper bound of the bytes that the entries add to a batch."""
    return sum(_FRAMING_BYTES + len(entry.key) + len(entry.value or b"") for entry in entries)


EMPTY_BATCH_BYTES: Final = HEADER_SIZE


def seal_entries(entries: Sequence[Entry], timestamp_ms: int) -> bytes:
    """One batch with the entries, all dated `timestamp_ms`, none of them transactional."""
    builder = new_builder(EMPTY_BATCH_BYTES + size_limit(entries))
    for entry in entries:
        assert entry.producer is None, "an entry of a transaction goes into a batch of its producer"
        fits = builder.append(timestamp_ms, entry.key, entry.value)
        assert fits, "the limit of a record's size is too low"
    return builder.seal()


def read_batches(data: Buffer) -> Iterator[StoredBatch]:
    """The whole batches in `data`, as they lie in the log. Raises CORRUPT_MESSAGE."""
    view = memoryview(data)
    for at, header in iter_headers(data):
        batch = view[at : at + header.size_bytes]
        if header.is_control:
            fence = fence_of(batch)
            yield StoredBatch(header.next_offset, [], [] if fence else _markers(header, batch), fence)
            continue
        pairs = [(key, value) for _, _, key, value, _ in read_records(batch) if key is not None]
        if header.is_transactional:
            producer = TransactionProducer(header.producer_id, header.producer_epoch)
            yield StoredBatch(header.next_offset, [], [Entry(key, value, producer) for key, value in pairs])
        else:
            yield StoredBatch(header.next_offset, pairs, [])


def _markers(header: BatchHeader, batch: Buffer) -> list[Record]:
    if header.producer_id == NO_PRODUCER_ID:
        return []
    producer = TransactionProducer(header.producer_id, header.producer_epoch)
    found = (decode_marker(key, value) for _, _, key, value, _ in read_records(batch))
    return [Marker(producer, marker.committed, marker.coordinator_epoch) for marker in found if marker is not None]
