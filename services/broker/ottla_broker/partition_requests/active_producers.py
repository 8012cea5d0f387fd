"""The producers of a partition, for operators (KIP-664)."""

from __future__ import annotations

from typing import NamedTuple

from ottla_broker.machines.producers import Producers
from ottla_core.event_loop.slices import sliced


class ActiveProducer(NamedTuple):
    """A producer of a partition, with -1 for each number that it does not have.

    `last_sequence` is that of the newest batch in this epoch, `last_timestamp_ms` that of the newest batch or marker.
    `coordinator_epoch` is the highest one of its markers, and `first_offset` that of its open transaction.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    first_offset: int


async def active_producers(producers: Producers) -> list[ActiveProducer]:
    """Return the active producers, which followers know as well as the leader does."""

    def describe(producer_id: int) -> ActiveProducer | None:
        known = producers.get(producer_id)
        if known is None:
            return None
        last = known.batches[-1] if known.batches else None
        sequence, timestamp_ms = -1, known.seen_at_ms
        if last is not None:
            sequence = last.last_sequence
            # A marker has the time at which it was written, which is when its producer was seen last.
            timestamp_ms = last.timestamp_ms if last.last_offset == known.last_offset else known.seen_at_ms
        return ActiveProducer(
            producer_id, known.epoch, sequence, timestamp_ms, known.coordinator_epoch, known.transaction_offset
        )

    return [found for found in await sliced(describe, list(producers.entries())) if found is not None]
