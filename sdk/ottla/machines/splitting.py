"""How a batch that a broker finds too large is split into two parts of about the same size.

A broker compares the compressed size with the topic's max.message.bytes, which the producer does not know. By halving,
the producer finds a size that the broker takes within a few attempts, and halves compress about as well as the whole. A
batch of one record can't be split, nor can a sealed one (`send_batch`), because its bytes must be written as they are.

Reading the records of 1 MiB and appending them again takes some ten milliseconds. `send` waits for that a few times for
each partition.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.machines.batches import NO_LIMIT, ProducerBatch, ProducerLimits
from ottla_core.records.batch import HEADER_SIZE
from ottla_core.records.builder import RecordBatchBuilder
from ottla_core.records.reader import read_records


def is_divisible(batch: ProducerBatch) -> bool:
    """Return whether the batch may be sent in parts."""
    return batch.count > 1 and not batch.sealed


def half_of(size_bytes: int) -> int:
    """Return the size of a batch with half of the records."""
    return HEADER_SIZE + (size_bytes - HEADER_SIZE + 1) // 2


def split(
    batch: ProducerBatch, limits: ProducerLimits, new_builder: Callable[[int], RecordBatchBuilder]
) -> list[ProducerBatch]:
    """Return the two parts of a closed batch, which take its place. They have no stamps."""
    # The second part has no limit. It takes the rest, even if that has become larger, because a batch has timestamps as
    # differences to its first one.
    first, second = new_builder(half_of(batch.charged_bytes)), new_builder(NO_LIMIT)
    filling = first
    for _, timestamp_ms, key, value, headers in read_records(batch.encode(limits.codec)):
        if not filling.append(timestamp_ms, key, value, headers):
            filling = second
            second.append(timestamp_ms, key, value, headers)
    whole = batch.whole or batch
    parts = [_part(whole, builder, limits) for builder in (first, second)]
    at = whole.parts.index(batch) if whole.parts else 0
    whole.parts[at : at + 1] = parts
    whole.parts_open += len(parts) - (batch is not whole)
    batch.charged_bytes = 0
    batch.error = None
    batch.release()
    return parts


def _part(whole: ProducerBatch, builder: RecordBatchBuilder, limits: ProducerLimits) -> ProducerBatch:
    part = ProducerBatch(whole.partition, builder, whole.ticket, whole.opened_at, limits, builder.size_bytes)
    part.whole = whole
    part.count = builder.record_count
    part.sampled_keys = whole.sampled_keys
    return part
