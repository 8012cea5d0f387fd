"""The pure twin does in Python what the compiled one does. It is for platforms without the wheel, and the compiled
one's oracle in tests.

    length varint | attributes, unused | timestampDelta varint | offsetDelta varint | key length varint, key
    | value length varint, value | header count varint, then per header: name length, name, value length, value

A length of -1 is a null. Source: KIP-98, KIP-82, org.apache.kafka.common.record.DefaultRecord.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any, ClassVar, Final

from ottla_core.records.batch import HEADER_SIZE, MAGIC, NO_PRODUCER_ID, BatchHeader, Buffer
from ottla_core.records.builder import RecordBatchBuilder, check_timestamp
from ottla_core.records.record import Header, Headers, RawRecord
from ottla_core.records.varint import decode_varint, encode_varint

_NULL: Final = encode_varint(-1)
_NO_TIMESTAMP: Final = -1


class PureBuilder(RecordBatchBuilder):
    __slots__ = ("_base_timestamp", "_max_bytes", "_records", "_size", "_takes_records")

    def __init__(self, max_bytes: int) -> None:
        super().__init__()
        self._max_bytes = max_bytes
        self._size = HEADER_SIZE
        self._records: list[tuple[int, bytes]] = []  # with their timestamps
        self._base_timestamp = _NO_TIMESTAMP
        self._takes_records = True

    @property
    def size_bytes(self) -> int:
        return self._size

    @property
    def takes_records(self) -> bool:
        return self._takes_records

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> bool:
        check_timestamp(timestamp_ms)
        if not self._takes_records:
            return False
        self._takes_records = False
        base_timestamp = self._base_timestamp if self.record_count else timestamp_ms
        pieces = [b"\0", encode_varint(timestamp_ms - base_timestamp), encode_varint(self.record_count)]
        _add_bytes(pieces, key)
        _add_bytes(pieces, value)
        pieces.append(encode_varint(len(headers)))
        for name, header_value in headers:
            _add_bytes(pieces, name.encode())
            _add_bytes(pieces, header_value)
        body = b"".join(pieces)
        record = encode_varint(len(body)) + body
        size = self._size + len(record)
        fits = not self.record_count or size <= self._max_bytes
        if fits:
            self._base_timestamp, self._size = base_timestamp, size
            self._records.append((timestamp_ms, record))
            self.record_count = len(self._records)
        self._takes_records = True
        return fits

    def grow(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes

    def close(self) -> int:
        self.record_count = len(self._records)
        return self.record_count

    def _finish(self) -> tuple[BatchHeader, bytes]:
        self.close()
        header = BatchHeader(
            base_offset=0,
            batch_length=0,
            leader_epoch=-1,
            magic=MAGIC,
            crc=0,
            attributes=0,
            last_offset_delta=self.record_count - 1,
            base_timestamp=self._base_timestamp,
            max_timestamp=max(timestamp_ms for timestamp_ms, _ in self._records),
            producer_id=NO_PRODUCER_ID,
            producer_epoch=-1,
            base_sequence=-1,
            record_count=self.record_count,
        )
        return header, b"".join(record for _, record in self._records)


class PureSource:
    """RecordSource in Python."""

    DAMAGE: ClassVar[tuple[type[Exception], ...]] = (ValueError, IndexError)

    __slots__ = ("_header", "_records")

    def __init__(self, header: BatchHeader, records: Buffer) -> None:
        self._header = header
        self._records = bytes(records)

    def each(self, *fields: int) -> Iterator[Any]:
        return map(itemgetter(*fields), self.records())

    def records(self) -> Iterator[RawRecord]:
        data, at = self._records, 0
        for _ in range(self._header.record_count):
            record, at = self._record(data, at)
            yield record
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes follow the last record")

    def columns(self, *fields: int) -> Sequence[list[Any]]:
        columns: list[list[Any]] = [[] for _ in fields]
        for record in self.records():
            for field, column in zip(fields, columns, strict=True):
                column.append(record[field])
        return columns

    def _record(self, data: bytes, at: int) -> tuple[RawRecord, int]:
        length, start = decode_varint(data, at)
        _attributes, at = decode_varint(data, start)
        timestamp_delta, at = decode_varint(data, at)
        offset_delta, at = decode_varint(data, at)
        key, at = _read_bytes(data, at)
        value, at = _read_bytes(data, at)
        headers, at = _read_headers(data, at)
        if at - start != length:
            raise ValueError(f"a record claims to be {length} bytes long, but it is {at - start}")
        header = self._header
        timestamp = header.max_timestamp if header.has_log_append_time else header.base_timestamp + timestamp_delta
        return (header.base_offset + offset_delta, _as_int64(timestamp), key, value, headers), at


def _add_bytes(pieces: list[bytes], data: bytes | None) -> None:
    if data is None:
        pieces.append(_NULL)
    else:
        pieces += (encode_varint(len(data)), data)


def _read_bytes(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = decode_varint(data, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(data):
        raise IndexError(f"{length} bytes are expected, but only {len(data) - at} are left")
    return data[at:end], end


def _read_headers(data: bytes, at: int) -> tuple[Headers, int]:
    count, at = decode_varint(data, at)
    if count < 0:
        raise ValueError(f"a record has {count} headers")
    headers: Headers = []
    for _ in range(count):
        name, at = _read_bytes(data, at)
        if name is None:
            raise ValueError("a header has no name")
        value, at = _read_bytes(data, at)
        headers.append((name.decode(errors="replace"), value))  # as Java reads a name that is not UTF-8
    return headers, at


def _as_int64(value: int) -> int:
    """Return a sum of two int64 as Java and C compute it. A timestamp that overflows is wrong, but no reason to reject
    a batch."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)
