"""Walking the batches of a segment's file: by their headers alone, or with every byte checked (rule 58)."""

from __future__ import annotations

from collections.abc import Iterator
from errno import EBADMSG
from typing import Final

from ottla_broker.storage.files import DataFile
from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.records.batch import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    extend_crc,
    read_header,
)

HEADERS_CHUNK_BYTES: Final = 16 << 10
_CHECK_CHUNK_BYTES: Final = 1 << 20
_MOST_READS: Final = 5


def headers(file: DataFile, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each batch of [start, end) as (position, header). It stops before the first bytes that can't be a batch.

    It reads 16 KB at a time and skips bodies: that takes a few system calls per large batch, or one for many small
    ones.
    """
    chunk, chunk_at, at = b"", start, start
    while end - at >= HEADER_SIZE:
        if at - chunk_at + HEADER_SIZE > len(chunk):
            chunk, chunk_at = file.read(at, min(HEADERS_CHUNK_BYTES, end - at)), at
            if len(chunk) < HEADER_SIZE:
                return
        header = read_header(chunk, at - chunk_at)
        if not is_legal(header) or at + header.size_bytes > end:
            return
        yield at, header
        at += header.size_bytes


def sound_batches(
    file: DataFile, size_bytes: int, start: int = 0, *, chunk_bytes: int = _CHECK_CHUNK_BYTES
) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each batch of [start, size_bytes) as (position, header), with its CRC checked. It stops before the first
    bad byte.

    A batch with a wrong CRC is read again, because a bit may be flipped on the way from the disk. Raises OSError
    (EBADMSG) if no two reads of it agree.

    It takes at most the memory for a megabyte and a batch. If a bit flip has made a length huge, the bytes are read in
    pieces.
    """
    for at, header, is_sound in _walk(file, start, size_bytes, chunk_bytes):
        if not is_sound:
            return
        yield at, header


def settled_batches(file: DataFile, start: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield each batch of [start, end) as (position, header), and stop before the first bytes that can't be a batch.

    It reads as `sound_batches` does. But a batch that the disk has damaged for good is yielded, too, because nothing
    better is known than what its header says.
    """
    for at, header, _ in _walk(file, start, end, _CHECK_CHUNK_BYTES):
        yield at, header


def _walk(file: DataFile, start: int, end: int, chunk_bytes: int) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Yield each batch of [start, end) as (position, header, whether its CRC is right), and stop before the first bytes
    that can't be a batch."""
    chunk, chunk_at, at = b"", start, start
    while end - at >= HEADER_SIZE:
        if at - chunk_at + HEADER_SIZE > len(chunk):
            chunk, chunk_at = file.read(at, chunk_bytes), at
        header = read_header(chunk, at - chunk_at)
        size = header.size_bytes
        if _is_within(header, at, end) and at - chunk_at + size > len(chunk):
            chunk, chunk_at = file.read(at, chunk_bytes), at
        is_sound = _is_sound(header, chunk, at - chunk_at)
        if not is_sound:
            header, crc = _settled(file, at, end)
            if not _is_within(header, at, end):
                return
            is_sound = crc == header.crc
        yield at, header, is_sound
        at += header.size_bytes


def _is_sound(header: BatchHeader, chunk: bytes, begin: int) -> bool:
    """Return whether the batch that begins there in the chunk is whole, and its CRC is right."""
    end = begin + header.size_bytes
    return (
        is_legal(header) and end <= len(chunk) and extend_crc(0, chunk[begin + ATTRIBUTES_OFFSET : end]) == header.crc
    )


def _settled(file: DataFile, at: int, end: int) -> tuple[BatchHeader, int]:
    """Return the header there and the CRC of what follows it, once that CRC is right or two reads in turn agree. Raises
    OSError (EBADMSG)."""
    before: tuple[BatchHeader, int] | None = None
    for _ in range(_MOST_READS):
        header, crc = found = _header_and_crc(file, at, end)
        if crc == header.crc or found == before:
            return found
        before = found
    raise OSError(EBADMSG, f"{_MOST_READS} reads of the batch at {at} of {file.path} differ")


def _header_and_crc(file: DataFile, at: int, end: int) -> tuple[BatchHeader, int]:
    """Return the header there and the CRC of what follows it, or 0 if that can't be a batch's. The bytes are read in
    pieces.

    The CRC is that of the returned header: another read of the header may differ from it in a flipped bit.
    """
    first = file.read(at, HEADER_SIZE)
    header = read_header(first)
    if not _is_within(header, at, end):
        return header, 0
    crc = extend_crc(0, first[ATTRIBUTES_OFFSET:])
    return header, crc_in_pieces(file, at + HEADER_SIZE, at + header.size_bytes, crc)


def _is_within(header: BatchHeader, at: int, end: int) -> bool:
    return is_legal(header) and at + header.size_bytes <= end


def is_legal(header: BatchHeader) -> bool:
    """Return whether these 61 bytes can be the start of a batch at all. The CRC shows the rest."""
    return (
        header.magic == MAGIC
        and header.batch_length >= HEADER_SIZE - LOG_OVERHEAD
        and header.last_offset_delta >= 0
        and header.base_offset >= 0
    )


def is_torn(file: DataFile, start: int, end: int) -> bool:
    """Return whether [start, end) is what a killed process leaves of an append: nothing, or the first bytes of one
    batch.

    A flipped bit may have made a batch look longer than the file. The CRC, which does not cover the length, is then
    right up to the file's end, or the next batch follows where this one really ends. It is looked for a megabyte at a
    time.
    """
    found = file.read(start, min(end - start, HEADER_SIZE))
    if len(found) < HEADER_SIZE:
        return True
    header = read_header(found)
    if not is_legal(header) or header.size_bytes <= end - start:
        return False
    last = min(end, start + MAX_BATCH_BYTES + HEADER_SIZE)
    if crc_in_pieces(file, start + ATTRIBUTES_OFFSET, last) == header.crc:
        return False
    pieces = range(start + HEADER_SIZE, last, _CHECK_CHUNK_BYTES)
    return not any(_has_batch_at(header.next_offset, file, at, last) for at in pieces)


def _has_batch_at(offset: int, file: DataFile, start: int, end: int) -> bool:
    """Return whether what may be a batch with that base offset begins in the megabyte from `start` on."""
    wanted = offset.to_bytes(8)
    # A header that begins in this piece may go on in the next one, and the file may end within it.
    piece = file.read(start, min(_CHECK_CHUNK_BYTES + HEADER_SIZE, end - start)) + bytes(HEADER_SIZE)
    at = piece.find(wanted, 0, _CHECK_CHUNK_BYTES + len(wanted) - 1)
    while at >= 0:
        if is_legal(read_header(piece, at)):
            return True
        at = piece.find(wanted, at + 1, _CHECK_CHUNK_BYTES + len(wanted) - 1)
    return False


def crc_in_pieces(file: DataFile, start: int, end: int, crc: int = 0) -> int:
    """Return the CRC-32C of the bytes [start, end) behind others with this `crc`, with at most a megabyte in memory at
    a time."""
    for at in range(start, end, _CHECK_CHUNK_BYTES):
        crc = extend_crc(crc, file.read(at, min(_CHECK_CHUNK_BYTES, end - at)))
    return crc
