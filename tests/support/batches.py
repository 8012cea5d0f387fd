"""Record batches for tests: sealed by our builder, or put together byte by byte so that they may lie."""

from __future__ import annotations

import struct
from collections.abc import Iterable

from ottla_core.records.batch import CRC_OFFSET, MAGIC, BatchHeader, body_crc, write_header
from ottla_core.records.compression import Codec
from ottla_core.records.record import RawRecord
from ottla_core.records.twins import new_builder
from ottla_core.records.varint import encode_varint

NOON = 1_700_000_000_000


def sealed(
    records: Iterable[RawRecord], codec: Codec = Codec.NONE, *, pure: bool = False, attributes: int = 0
) -> bytes:
    """A batch of `records`, whose offsets are ignored: the builder counts them from 0."""
    builder = new_builder(1 << 26, pure=pure)
    for _offset, timestamp_ms, key, value, headers in records:
        assert builder.append(timestamp_ms, key, value, headers)
    return builder.seal(codec, attributes=attributes)


def simple_records(count: int) -> list[RawRecord]:
    """`count` records with a key, a value of 20 bytes and no headers, a millisecond apart."""
    return [(n, NOON + n, b"key-%d" % (n % 7), b"value-%014d" % n, []) for n in range(count)]


def raw_batch(records: bytes, count: int = 1, **fields: int) -> bytes:
    """A batch around the given bytes, with the right length and CRC; `fields` replace header fields."""
    header = BatchHeader(
        base_offset=0,
        batch_length=49 + len(records),
        leader_epoch=-1,
        magic=MAGIC,
        crc=0,
        attributes=0,
        last_offset_delta=max(count - 1, 0),
        base_timestamp=NOON,
        max_timestamp=NOON,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        record_count=count,
    )
    return with_fresh_crc(write_header(header._replace(**fields)) + records)


NULL_KEY_NULL_VALUE_NO_HEADERS = encode_varint(-1) * 2 + encode_varint(0)


def raw_record(
    offset_delta: int,
    *,
    timestamp_delta: int = 0,
    fields: bytes = NULL_KEY_NULL_VALUE_NO_HEADERS,
    length: int | None = None,
) -> bytes:
    """One record; `fields` are its key, value and headers, `length` may lie."""
    body = b"\0" + encode_varint(timestamp_delta) + encode_varint(offset_delta) + fields
    return encode_varint(len(body) if length is None else length) + body


def with_fresh_crc(batch: bytes) -> bytes:
    """`batch` after it was tampered with, by somebody who knows how to compute a CRC."""
    draft = bytearray(batch)
    struct.pack_into(">I", draft, CRC_OFFSET, body_crc(batch))
    return bytes(draft)
