"""Giving checked batches their offsets: only the bytes that have to change on the way into the log are changed.
Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.records.batch import BatchHeader, Buffer, iter_headers, placed_prefix, read_header, with_log_append_time

_PREFIX_SIZE: Final = 16  # what `placed_prefix` replaces


class PositionedBatch(NamedTuple):
    """What a segment needs to know of a batch that is written to it."""

    size_bytes: int
    last_offset: int
    max_timestamp_ms: int


def stamped(records: Buffer, headers: list[BatchHeader], now_ms: int) -> tuple[bytes, list[BatchHeader]]:
    """Return the batches with the broker's time (rule 65), and their new headers."""
    at, stamped = 0, []
    for header in headers:
        stamped.append(with_log_append_time(records[at : at + header.size_bytes], now_ms))
        at += header.size_bytes
    return b"".join(stamped), [read_header(batch) for batch in stamped]


def positioned(
    records: Buffer, headers: list[BatchHeader], base_offset: int, leader_epoch: int
) -> tuple[list[bytes | memoryview], list[PositionedBatch]]:
    """Return the buffers to write, and the positions of the batches. For each batch 16 bytes are new and the rest is
    not copied."""
    view, at = memoryview(records), 0
    buffers: list[bytes | memoryview] = []
    batches = []
    for header in headers:
        end, next_offset = at + header.size_bytes, base_offset + header.last_offset_delta + 1
        buffers += (placed_prefix(header, base_offset, leader_epoch), view[at + _PREFIX_SIZE : end])
        batches.append(PositionedBatch(end - at, next_offset - 1, header.max_timestamp))
        at, base_offset = end, next_offset
    return buffers, batches


def in_epoch(records: bytes, leader_epoch: int) -> bytes:
    """Return the batches at their own offsets, with this leader epoch."""
    draft = bytearray(records)
    for at, header in iter_headers(records):
        draft[at : at + _PREFIX_SIZE] = placed_prefix(header, header.base_offset, leader_epoch)
    return bytes(draft)


def kept(records: bytes, headers: list[BatchHeader]) -> tuple[memoryview, list[PositionedBatch]]:
    """Return what a follower writes: the leader's batches with these headers, unchanged, and their positions."""
    batches = [PositionedBatch(header.size_bytes, header.last_offset, header.max_timestamp) for header in headers]
    return memoryview(records)[: sum(batch.size_bytes for batch in batches)], batches
