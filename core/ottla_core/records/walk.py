"""The walk of a batch: all its records are gone through, from the first byte to the last, and nothing of them is kept.

A broker walks what is produced before it gives offsets, and so every batch in a log can be read (I44, ADR 0040). A
reader walks a batch before its first record leaves. What the walk sees to: the lengths of records, keys, values and
headers, the count, that offsets rise, and that nothing follows the last record.

The compiled code that reads a record returns once the record is read, and lets no other thread work meanwhile. So a
large batch is walked in pieces of whole records, as their lengths claim. Whatever lies behind a false length is then at
most a piece away.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import lt
from typing import Any, Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CODEC_MASK, HEADER_SIZE, BatchHeader, Buffer
from ottla_core.records.compression import MAX_OUTPUT_BYTES, Codec, decompress
from ottla_core.records.record import KEY, OFFSET, RecordSource
from ottla_core.records.twins import twin
from ottla_core.records.varint import decode_varint

PIECE_BYTES: Final = 1 << 20
MOST_HEADERS: Final = PIECE_BYTES // 2
"""The most headers of a record. A record that fits into a piece has no room for more. Read, so many take 50 MB."""
_QUICK_OUTPUT_BYTES: Final = 64 << 10
_STEP: Final = 4096
"""Between two steps of so many records a thread lets others have the interpreter."""
_NUMBERS: Final = [*range(_STEP)]


class DamagedRecordsError(Exception):
    """It says in a clause why a batch can't be read."""


class SlowWalkError(Exception):
    """The walk may take long, and was to be quick."""


class Walked(NamedTuple):
    """The decompressed records of a batch, and, if they were wanted, the numbers of the records without a key."""

    records: Buffer
    keyless: list[int]


def without_codec(header: BatchHeader, batch: Buffer, most_bytes: int = MAX_OUTPUT_BYTES) -> tuple[BatchHeader, Buffer]:
    """Return the header and the records of a batch as they are without its codec. Raises what `decompress` raises."""
    records = memoryview(batch)[HEADER_SIZE:]
    if header.codec == Codec.NONE:
        return header, records
    return header._replace(attributes=header.attributes & ~CODEC_MASK), decompress(header.codec, records, most_bytes)


def walk(
    header: BatchHeader, batch: Buffer, *, keys: bool = False, quickly: bool = False, pure: bool = False
) -> Walked:
    """Walk the records of `batch`, which has the form and the CRC that `header` claims. With `keys`, note which have no
    key.

    A mebibyte of records takes a millisecond or two, or fifty if they are all headers. With `quickly`, SlowWalkError is
    raised where it may take longer. Raises CORRUPT_MESSAGE, also if a record has more than `MOST_HEADERS`.
    """
    try:
        plain, records = without_codec(header, batch, _QUICK_OUTPUT_BYTES if quickly else MAX_OUTPUT_BYTES)
    except OttlaError:
        if quickly:  # it may only be too large
            raise SlowWalkError from None
        raise
    if quickly and len(records) > PIECE_BYTES:
        raise SlowWalkError
    number, after, keyless = 0, header.base_offset, list[int]()
    fields = (OFFSET, KEY) if keys else (OFFSET,)
    try:
        for count, piece in _pieces(records, header.record_count):
            part = plain._replace(record_count=count)
            try:
                after, without = walk_source(twin(pure=pure).source(part, piece), after, header.next_offset, fields)
            except UnicodeDecodeError:
                # A header's name is not UTF-8, which Kafka takes. Only the pure twin reads it as Java does, slowly.
                if quickly:
                    raise SlowWalkError from None
                after, without = walk_source(twin(pure=True).source(part, piece), after, header.next_offset, fields)
            keyless += [number + each for each in without]
            number += count
    except DamagedRecordsError as damage:
        raise OttlaError(ErrorCode.CORRUPT_MESSAGE, f"the records of a batch can't be read: {damage}") from None
    return Walked(records, keyless)


def walk_source(
    source: RecordSource, first_offset: int, end_offset: int, fields: Sequence[int] = (OFFSET,)
) -> tuple[int, list[int]]:
    """Walk the records, whose offsets rise from `first_offset` on and are below `end_offset`. Return the offset after
    the last one, and the numbers of those without a key if `fields` are OFFSET and KEY.

    Raises DamagedRecordsError, and UnicodeDecodeError for a header's name that only the pure twin reads.
    """
    number, after, keyless = 0, first_offset, list[int]()
    try:
        for step in _steps(source.each(*fields)):
            if len(fields) == 1:
                after = _offset_after(step, after)
            elif step:
                offsets, keys = zip(*step, strict=True)
                after = _offset_after(list(offsets), after)
                if None in keys:
                    keyless += [number + n for n, key in enumerate(keys) if key is None]
            if after > end_offset:
                raise DamagedRecordsError(
                    f"a record has the offset {after - 1}, after the batch's last, {end_offset - 1}"
                )
            number += len(step)
    except UnicodeDecodeError:
        raise
    except source.DAMAGE as error:
        raise DamagedRecordsError(str(error.args[0] if error.args else error)) from None
    return after, keyless


def _steps(values: Iterator[Any]) -> Iterator[list[Any]]:
    while True:
        step = list(islice(values, _STEP))
        yield step
        if len(step) < _STEP:
            return


def _offset_after(offsets: list[int], first: int) -> int:
    """Return the offset after the last, if they rise from `first` on. Mostly none is left out, which is compared all at
    once."""
    end = first + len(offsets)
    if offsets == (_NUMBERS[first:end] if first >= 0 and end <= _STEP else [*range(first, end)]):
        return end
    if offsets[0] < first or not all(map(lt, offsets, islice(offsets, 1, None))):
        raise DamagedRecordsError("its records' offsets don't rise from the first to the last")
    return offsets[-1] + 1


def _pieces(records: Buffer, count: int) -> Iterator[tuple[int, Buffer]]:
    """Yield (count, whole records) of up to `PIECE_BYTES`, or of one record that is larger.

    Raises DamagedRecordsError.
    """
    if len(records) <= PIECE_BYTES:
        yield count, records
        return
    data = bytes(records)
    view = memoryview(data)
    begin = at = begun = 0
    limit = PIECE_BYTES
    try:
        for number in range(count):
            # A call would cost as much as all the rest, and most lengths are 64 to 8191, which take two bytes.
            first, second = data[at], data[at + 1]
            if first >= 0x80 > second and not first & 1:
                end = at + 2 + ((first & 0x7F | second << 7) >> 1)
            else:
                length, start = decode_varint(data, at)
                if length < 0:
                    raise DamagedRecordsError(f"a record has the length {length}")
                end = start + length
            if end > limit:
                if end > len(data):
                    raise DamagedRecordsError(f"a record ends {end - len(data)} bytes after the batch")
                if number > begun:
                    yield number - begun, view[begin:at]
                    begin, begun = at, number
                    limit = at + PIECE_BYTES
                if end > limit:
                    _check_header_count(data, at)
            at = end
    except (IndexError, ValueError) as error:
        raise DamagedRecordsError(str(error)) from None
    if at < len(data):
        raise DamagedRecordsError(f"{len(data) - at} bytes follow the last record")
    yield count - begun, view[begin:]


def _check_header_count(data: bytes, at: int) -> None:
    for _ in ("length", "attributes", "timestamp", "offset"):
        _, at = decode_varint(data, at)
    for _ in ("key", "value"):
        length, at = decode_varint(data, at)
        at += max(0, length)
    count, _ = decode_varint(data, at)
    if count > MOST_HEADERS:
        raise DamagedRecordsError(f"a record has {count} headers, and may have {MOST_HEADERS}")
