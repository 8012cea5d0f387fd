"""The batch, or the batches, that hold what a clean leaves of one batch. Pure.

Records of one batch may compress far better than the whole batch did. Readers take a batch that grows to more than a
hundred times its size for a bomb (`compression.output_limit`), and storing it without a codec would turn half a
megabyte into 64. Such records are divided among several batches, each of which readers take as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final, NamedTuple

from ottla_broker.compaction.record_bytes import deltas_of, with_base_offset
from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.records import compression
from ottla_core.records.batch import CODEC_MASK, HEADER_SIZE, NO_PRODUCER_ID, BatchHeader, framed
from ottla_core.records.compression import output_limit

_PIECE_BYTES: Final = output_limit(0)
"""Readers decompress this many bytes from any batch, however well it is compressed."""
_SEQUENCES: Final = 1 << 31


class _Piece(NamedTuple):
    """Records in their order; `deltas` are their timestamp and offset deltas in the batch that is divided."""

    records: list[bytes]
    deltas: list[tuple[int, int]]


def sealed(header: BatchHeader, records: list[bytes], *, divisible: bool) -> bytes:
    """Return the batch of `header` with these records, compressed by its codec.

    If its readers would refuse it, return several batches that follow one another, if it is `divisible`, or one without
    a codec. Together they have the offsets and the sequences of `header`.
    """
    whole = _compressed(header, records)
    if _is_readable(header, whole, records):
        return whole
    if divisible and len(records) > 1:
        return b"".join(_divided(header, records))
    return framed(header._replace(attributes=header.attributes & ~CODEC_MASK), b"".join(records))


def _compressed(header: BatchHeader, records: list[bytes]) -> bytes:
    return framed(header, compression.compress(header.codec, b"".join(records)))


def _is_readable(header: BatchHeader, batch: bytes, records: list[bytes]) -> bool:
    """Return whether the batch can be sent, and every reader will decompress it."""
    is_no_bomb = not header.codec or sum(map(len, records)) <= output_limit(len(batch) - HEADER_SIZE)
    return is_no_bomb and len(batch) <= MAX_BATCH_BYTES


def _divided(header: BatchHeader, records: list[bytes]) -> Iterator[bytes]:
    pieces = list(_pieces(records))
    starts = [0, *(piece.deltas[0][1] for piece in pieces[1:]), header.last_offset_delta + 1]
    for piece, (start, end) in zip(pieces, pairwise(starts), strict=True):
        yield sealed(
            header._replace(
                base_offset=header.base_offset + start,
                last_offset_delta=end - 1 - start,
                max_timestamp=_largest_ms(header, piece),
                base_sequence=_sequence(header, start),
                record_count=len(piece.records),
            ),
            [with_base_offset(record, start) for record in piece.records],
            divisible=False,
        )


def _pieces(records: list[bytes]) -> Iterator[_Piece]:
    piece, size_bytes = _Piece([], []), 0
    for record in records:
        if piece.records and size_bytes + len(record) > _PIECE_BYTES:
            yield piece
            piece, size_bytes = _Piece([], []), 0
        piece.records.append(record)
        piece.deltas.append(deltas_of(record))
        size_bytes += len(record)
    yield piece


def _largest_ms(header: BatchHeader, piece: _Piece) -> int:
    """Return the largest timestamp of the piece. A log-append time is that of the whole batch, and is kept."""
    if header.has_log_append_time:
        return header.max_timestamp
    return max(-1, *(header.base_timestamp + timestamp for timestamp, _ in piece.deltas))


def _sequence(header: BatchHeader, start: int) -> int:
    """Return the first sequence of a batch that begins `start` offsets later. A producer's sequences rise with its
    offsets, and begin at 0 again after the largest int32."""
    return -1 if header.producer_id == NO_PRODUCER_ID else (header.base_sequence + start) % _SEQUENCES
