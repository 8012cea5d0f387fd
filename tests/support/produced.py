"""Batches of idempotent producers, and what a log knows of them."""

from __future__ import annotations

from pathlib import Path

from batches import NOON

from ottla_broker.machines.producers import Producers, ProducerState
from ottla_broker.storage.log import Log
from ottla_core.records.batch import BatchHeader, iter_headers
from ottla_core.records.twins import new_builder


def produced(
    sequence: int,
    count: int = 1,
    *,
    producer_id: int = 7,
    epoch: int = 0,
    at_ms: int = NOON,
    value: bytes = b"v",
    attributes: int = 0,
) -> bytes:
    """A batch of `count` records, the first of which has that sequence."""
    builder = new_builder(1 << 26)
    for _ in range(count):
        assert builder.append(at_ms, b"key", value)
    return builder.seal(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, attributes=attributes)


def header_of(
    sequence: int, count: int = 1, *, producer_id: int = 7, epoch: int = 0, at_ms: int = NOON, offset: int = 0
) -> BatchHeader:
    """The header of such a batch, at `offset`; its bytes are nobody's."""
    return BatchHeader(offset, 49, 0, 2, 0, 0, count - 1, at_ms, at_ms, producer_id, epoch, sequence, count)


def stored_headers(log: Log) -> list[BatchHeader]:
    """All batches of a log, from its start to its end."""
    headers: list[BatchHeader] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = [header for _, header in iter_headers(log.read(offset, 1 << 20, log.log_end_offset))]
        if not found:
            break
        headers += found
        offset = found[-1].next_offset
    return headers


def stored_bytes(log: Log) -> bytes:
    """All batches of a log, byte by byte, however its segments divide them."""
    return b"".join(Path(segment.path).read_bytes() for segment in log.segments)


def known(producers: Producers) -> dict[int, ProducerState]:
    """All producers, but for when they were last heard of."""
    return {id_: _timeless(producers.get(id_)) for id_ in producers.entries()}


def told_by(headers: list[BatchHeader]) -> dict[int, ProducerState]:
    """What batches tell of their producers, from the first to the last."""
    producers = Producers()
    for header in headers:
        producers.on_stored(header, 0)
    return known(producers)


def _timeless(producer: ProducerState | None) -> ProducerState:
    assert producer is not None
    return producer._replace(seen_at_ms=0)
