"""The bytes of a batch's records: where one ends and the next begins, and how one gets another base.

length varint | attributes | timestampDelta varint | offsetDelta varint | key, value, headers
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ottla_core.records.varint import decode_varint, encode_varint

_INT64_RANGE: Final = 1 << 64
_INT64_HALF: Final = 1 << 63


def split(records: bytes) -> Iterator[bytes]:
    """Yield each of the records, which `read_records` has found to be sound."""
    start = 0
    while start < len(records):
        length, at = decode_varint(records, start)
        yield records[start : at + length]
        start = at + length


def with_base_timestamp(record: bytes, old_ms: int, new_ms: int) -> bytes:
    """Return a record of a batch whose base timestamp changes. The record's own timestamp does not change."""
    _, start = decode_varint(record, 0)
    delta, end = decode_varint(record, start + 1)
    delta = (old_ms + delta - new_ms + _INT64_HALF) % _INT64_RANGE - _INT64_HALF  # wraps, as readers' sums do
    return _measured(record[start : start + 1] + encode_varint(delta) + record[end:])


def deltas_of(record: bytes) -> tuple[int, int]:
    """Return the record's timestamp delta and its offset delta: their distances from the batch's base values."""
    _, start = decode_varint(record, 0)
    timestamp, at = decode_varint(record, start + 1)
    return timestamp, decode_varint(record, at)[0]


def with_base_offset(record: bytes, start: int) -> bytes:
    """Return a record for a batch that begins `start` offsets after its present one. The record's offset does not
    change."""
    _, body_at = decode_varint(record, 0)
    _, at = decode_varint(record, body_at + 1)
    delta, end = decode_varint(record, at)
    return _measured(record[body_at:at] + encode_varint(delta - start) + record[end:])


def _measured(body: bytes) -> bytes:
    return encode_varint(len(body)) + body
