"""The header of a record batch (magic 2) is read and patched in place: it holds all that a broker needs of a batch.

    0  baseOffset int64           | 21 attributes int16      | 43 producerId int64
    8  batchLength int32          | 23 lastOffsetDelta int32 | 51 producerEpoch int16
    12 partitionLeaderEpoch int32 | 27 baseTimestamp int64   | 53 baseSequence int32
    16 magic int8, 17 crc uint32  | 35 maxTimestamp int64    | 57 recordCount int32, 61 records

A header is 61 bytes, its records are thousands. A broker patches headers, and a record's bytes pass from the producer
to the segment file and to the consumer unchanged (I4). The broker goes through them once, before it appends them
(module walk), and recompresses them only if their topic has another codec.

The CRC-32C covers everything from the attributes on. What only the leader knows, the base offset and its leader epoch,
lies before that and can be set without touching the CRC (rule 1). So the CRC that the producer computed protects the
records until the consumer has them. Whoever changes bytes from 21 on computes the CRC again: LogAppendTime, the codec
of a topic, and compaction.

A header's numbers are claims of its sender. `check_batch` compares them with each other and with the bytes
before an offset is given. Functions that say that they check nothing are for bytes that were checked before.

Source: KIP-98, org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

import google_crc32c

from ottla_core.errors import ErrorCode, OttlaError

HEADER_SIZE: Final = 61
LOG_OVERHEAD: Final = 12  # base offset and length: what `batchLength` does not count
MAGIC: Final = 2
_MAGIC_OFFSET: Final = 16
CRC_OFFSET: Final = 17
ATTRIBUTES_OFFSET: Final = 21

CODEC_MASK: Final = 0x07
MAX_CODEC: Final = 4
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_PRODUCER_ID: Final = -1
ANY_OFFSET: Final = 2**63 - 1
"""It means no limit for `whole_batches`."""

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_PREFIX: Final = struct.Struct(">qii")  # base offset, length, leader epoch
# It has base offset, length and last offset delta, and nothing else, because `whole_batches` runs for every batch of
# every fetch.
_SPAN: Final = struct.Struct(">qi11xi")
_TIMESTAMP: Final = struct.Struct(">q")
_MAX_TIMESTAMP_OFFSET: Final = 35


class BatchHeader(NamedTuple):
    """The 13 fields in their order, with `batch_length` as it lies in the bytes (without the first 12)."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """This is the size of the whole batch, header and records."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """This is the codec's number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & CODEC_MASK

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def has_log_append_time(self) -> bool:
        return bool(self.attributes & LOG_APPEND_TIME)


Buffer = bytes | bytearray | memoryview


def read_header(data: Buffer, at: int = 0) -> BatchHeader:
    """Return the header at `at`. Raises CORRUPT_MESSAGE if fewer than 61 bytes are left, and checks nothing else."""
    try:
        return BatchHeader._make(_HEADER.unpack_from(data, at))
    except struct.error:
        raise corrupt(f"{len(data) - at} bytes are left where a batch header of {HEADER_SIZE} should be") from None


def max_timestamp(batch: Buffer) -> int:
    """Return the largest timestamp of the first batch in `batch`, which was checked before; -1 if its records have
    none."""
    largest_ms: int = _TIMESTAMP.unpack_from(batch, _MAX_TIMESTAMP_OFFSET)[0]
    return largest_ms


def write_header(header: BatchHeader) -> bytes:
    """Return the 61 bytes of `header`, with the CRC that it has."""
    return _HEADER.pack(*header)


def framed(header: BatchHeader, payload: Buffer) -> bytes:
    """Return the batch of `header` around its compressed records, `payload`; length and CRC are computed."""
    head = write_header(header._replace(batch_length=HEADER_SIZE - LOG_OVERHEAD + len(payload)))
    crc = extend_crc(extend_crc(0, head[ATTRIBUTES_OFFSET:]), payload)
    return b"".join((head[:CRC_OFFSET], struct.pack(">I", crc), head[ATTRIBUTES_OFFSET:], payload))


def of_no_producer(header: BatchHeader, batch: Buffer) -> bytes:
    """Return the batch at its offsets, without a producer or a transaction: those are valid in one cluster only."""
    # The batch is correct as it is, so its bytes and its CRC are kept.
    if header.producer_id == NO_PRODUCER_ID:
        return bytes(batch)
    attributes = header.attributes & ~TRANSACTIONAL
    nameless = header._replace(producer_id=NO_PRODUCER_ID, producer_epoch=-1, base_sequence=-1, attributes=attributes)
    return framed(nameless, memoryview(batch)[HEADER_SIZE:])


def placed_prefix(header: BatchHeader, base_offset: int, leader_epoch: int) -> bytes:
    """Return the first 16 bytes as the leader writes them: its base offset, the unchanged length, and its leader epoch
    (rule 1)."""
    return _PREFIX.pack(base_offset, header.batch_length, leader_epoch)


def body_crc(batch: Buffer) -> int:
    """Return the CRC-32C of one whole batch, from the attributes on."""
    return int(google_crc32c.value(bytes(memoryview(batch)[ATTRIBUTES_OFFSET:])))


def extend_crc(crc: int, data: Buffer) -> int:
    """Return the CRC-32C of the bytes that `crc` covers followed by `data`, for a batch that comes in pieces. 0 covers
    nothing."""
    return int(google_crc32c.extend(crc, bytes(data)))


def with_log_append_time(batch: Buffer, now_ms: int) -> bytes:
    """Return the batch with the broker's time as every record's timestamp (rule 65: LogAppendTime rewrites attributes,
    maxTimestamp and CRC).

    The records keep their own bytes. A reader that sees the attribute bit takes maxTimestamp for each of them.
    """
    draft = bytearray(batch)
    attributes = read_header(batch).attributes | LOG_APPEND_TIME
    struct.pack_into(">h", draft, ATTRIBUTES_OFFSET, attributes)
    struct.pack_into(">q", draft, _MAX_TIMESTAMP_OFFSET, now_ms)
    struct.pack_into(">I", draft, CRC_OFFSET, body_crc(draft))
    return bytes(draft)


def check_batch(data: Buffer, at: int, *, max_bytes: int) -> BatchHeader:
    """Return the header at `at` of a batch that a producer sent, after all checks that need no records.

    These are sizes, magic, codec, the CRC, and the count against the offset delta (rule 64: headers are always
    checked). `max_bytes` bounds one batch after compression (rule 65, message.max.bytes). Raises CORRUPT_MESSAGE,
    INVALID_RECORD, UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_COMPRESSION_TYPE or MESSAGE_TOO_LARGE.
    """
    header = read_header(data, at)
    _check_format(header)
    check_size(header, max_bytes)
    _check_bytes(data, at, header)
    # The delta decides how many offsets the batch takes, so it must agree with the count. The walk compares that with
    # the records.
    if header.record_count < 1 or header.last_offset_delta != header.record_count - 1:
        raise OttlaError(
            ErrorCode.INVALID_RECORD,
            f"a batch of {header.record_count} records has the last offset delta {header.last_offset_delta}",
            hint="the CRC is right, so the client wrote the batch like this: report it to whoever maintains the client",
        )
    return header


def check_size(header: BatchHeader, max_bytes: int) -> None:
    """Raise MESSAGE_TOO_LARGE for a batch that is larger than the topic's max.message.bytes."""
    if header.size_bytes > max_bytes:
        raise OttlaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {header.size_bytes} bytes is larger than the limit of {max_bytes}",
            hint="send smaller batches or raise the topic's max.message.bytes",
        )


def check_stored(data: Buffer, at: int = 0) -> BatchHeader:
    """Return the header at `at` of a batch that lies in a log, after the checks that hold for stored batches.

    Compaction leaves gaps between offsets, and batches without a record (rule 62). Replicas take any size, because
    their leader has acknowledged the batch already (rule 65). Raises CORRUPT_MESSAGE, UNSUPPORTED_FOR_MESSAGE_FORMAT or
    UNSUPPORTED_COMPRESSION_TYPE.
    """
    header = read_header(data, at)
    check_form(header)
    _check_bytes(data, at, header)
    return header


def check_form(header: BatchHeader) -> None:
    """Check the header alone, as far as `check_stored` does that."""
    _check_format(header)
    if header.last_offset_delta < 0 or not 0 <= header.record_count <= header.last_offset_delta + 1:
        raise corrupt(f"a batch of {header.record_count} records has the last offset delta {header.last_offset_delta}")


def iter_headers(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each whole batch in `data` as (position, header).

    It stops before a batch that is cut off, or whose length can't be right.
    """
    at, end = 0, len(data)
    while end - at >= HEADER_SIZE:
        header = read_header(data, at)
        # A length of zero or less would not advance, and the loop would never end. A batch that is cut off is normal: a
        # broker fills a response with bytes up to its limit.
        if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or at + header.size_bytes > end:
            return
        yield at, header
        at += header.size_bytes


def is_old_format(data: Buffer) -> bool:
    """Return whether `data` begins with a message in a format older than Kafka 0.11 (magic 0 or 1).

    Its magic is in the same place as a batch's.
    """
    return len(data) > _MAGIC_OFFSET and data[_MAGIC_OFFSET] < MAGIC


def at_offsets(headers: Iterable[BatchHeader], base_offset: int) -> Iterator[BatchHeader]:
    """Yield the headers of batches as they are once the batches follow one another from `base_offset` on."""
    for header in headers:
        yield header._replace(base_offset=base_offset)
        base_offset += header.last_offset_delta + 1


def headers_at(data: Buffer, base_offset: int) -> list[BatchHeader]:
    """Return the headers of whole batches like `at_offsets`. Raises CORRUPT_MESSAGE."""
    return list(at_offsets((header for _, header in iter_headers(data)), base_offset))


def whole_batches(data: Buffer, limit_offset: int) -> tuple[int, int]:
    """Return (bytes, next offset) of the leading whole batches that end at or below `limit_offset`; (0, -1) if there
    are none.

    It reads three fields of each header and nothing else, so the data must have been checked by the log. It keeps a
    consumer below the high watermark (I5): a batch that only begins below the limit is left out.
    """
    at, next_offset, end = 0, -1, len(data)
    while end - at >= HEADER_SIZE:
        base_offset, length, last_offset_delta = _SPAN.unpack_from(data, at)
        following, batch_end = base_offset + last_offset_delta + 1, at + length + LOG_OVERHEAD
        if batch_end > end or following > limit_offset or length < HEADER_SIZE - LOG_OVERHEAD:
            break
        at, next_offset = batch_end, following
    return at, next_offset


def corrupt(reason: str) -> OttlaError:
    """Return the error for bytes that are not what they claim to be. The caller raises it."""
    return OttlaError(
        ErrorCode.CORRUPT_MESSAGE,
        reason,
        hint="try again; if the error persists, the client, a proxy or a disk is damaging batches",
    )


def _check_format(header: BatchHeader) -> None:
    if header.magic != MAGIC:
        raise OttlaError(
            ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
            f"a record batch with magic {header.magic} is not accepted",
            hint=f"send record batches with magic {MAGIC} (Kafka 0.11 and later)",
        )
    if header.codec > MAX_CODEC:
        raise OttlaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"compression codec {header.codec} does not exist",
            hint="use none, gzip, snappy, lz4 or zstd",
        )


def _check_bytes(data: Buffer, at: int, header: BatchHeader) -> None:
    # The length is checked first: the CRC is computed over as many bytes as it claims.
    if header.batch_length < HEADER_SIZE - LOG_OVERHEAD or at + header.size_bytes > len(data):
        raise corrupt(f"a batch says it is {header.size_bytes} bytes long where {len(data) - at} are left")
    # A request mostly holds one batch, whose bytes need no view.
    whole = data if at == 0 and header.size_bytes == len(data) else memoryview(data)[at : at + header.size_bytes]
    if (crc := body_crc(whole)) != header.crc:
        raise corrupt(f"the CRC of a batch is {crc:#010x} but its header says {header.crc:#010x}")
