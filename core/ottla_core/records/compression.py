"""The five codecs of a record batch, and how much a compressed batch may grow to.

A frame comes from a stranger. Whatever size it announces, no more than `output_limit` bytes come out, and a frame that
has more, ends early or makes no sense is CORRUPT_MESSAGE. Memory follows the real output, not the announced size. A
zstd window (up to the library's limit of 128 MiB) is reserved, but touched only as far as there is output.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Final, NamedTuple

import cramjam

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import Buffer, corrupt

MAX_OUTPUT_BYTES: Final = 64 << 20

_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_GZIP_LEVEL: Final = -1
_ZSTD_LEVEL: Final = 3
_LZ4_LEVEL: Final = 9
"""Kafka's default level, which stands for lz4's fast compressor. Any other level stands for the slow one."""
_FAST_LZ4: Final = 1
_SLOW_LZ4: Final = range(3, 13)
"""The library's levels of the slow compressor. Kafka's go up to 17, but above 12 the output becomes no smaller."""
_LZ4_FLAGS_AT: Final = 4  # after the magic number
_LZ4_INDEPENDENT: Final = 0x20
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # its version, the oldest version that can read it
_XERIAL_BLOCK_BYTES: Final = 32 << 10
_LZ4_STEP_BYTES: Final = 64 << 10
"""The size of one step of lz4. The library holds the interpreter's lock in a step, and others run between steps."""
_BLOCK_LENGTH: Final = struct.Struct(">i")
_FIRST_OUTPUT_BYTES: Final = 64 << 10
_GROWTH: Final = 8


class Codec(IntEnum):
    """Kafka's codecs by the number in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """This is the name in configs: none, gzip, snappy, lz4, zstd."""
        return self.name.lower()


class Compression(NamedTuple):
    """A codec, and one of Kafka's levels for it. None is the default level, which is the only one of snappy."""

    codec: Codec
    level: int | None = None


def codec_of(label: str) -> Codec:
    """Return the codec of a name in configs. Raises UNSUPPORTED_COMPRESSION_TYPE for any other."""
    for codec in Codec:
        if codec.label == label:
            return codec
    raise OttlaError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"there is no compression codec {label!r}",
        hint="use none, gzip, snappy, lz4 or zstd",
    )


def output_limit(input_bytes: int) -> int:
    """Return how many bytes may come out of a compressed batch of `input_bytes`."""
    return min(MAX_OUTPUT_BYTES, 100 * input_bytes + (1 << 20))


def compress(codec: int, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` as the frame that Kafka's Java clients read. The level is Kafka's (KIP-390), or its default."""
    return _COMPRESS[Codec(codec)](data, level)


def decompress(codec: int, data: Buffer, most_bytes: int = MAX_OUTPUT_BYTES) -> bytes:
    """Return the decompressed bytes. Raises CORRUPT_MESSAGE for a frame that is wrong, is cut or exceeds `output_limit`
    or `most_bytes`."""
    if not len(data):
        return b""  # compaction leaves this of a batch without survivors
    return _DECOMPRESS[Codec(codec)](memoryview(data), min(most_bytes, output_limit(len(data))))


def _gzip(data: Buffer, level: int | None) -> bytes:
    compressor = zlib.compressobj(_GZIP_LEVEL if level is None else level, zlib.DEFLATED, _GZIP_FORMAT)
    return compressor.compress(data) + compressor.flush()


def _gunzip(data: memoryview, limit: int) -> bytes:
    decompressor = zlib.decompressobj(_GZIP_FORMAT)
    try:
        output = decompressor.decompress(data, limit)
    except zlib.error as error:
        raise _damaged(Codec.GZIP, str(error)) from None
    if not decompressor.eof:
        raise _damaged(Codec.GZIP, f"it is cut off or holds more than {limit} bytes")
    if decompressor.unused_data:
        raise _damaged(Codec.GZIP, "something follows it")
    return output


def _snappy(data: Buffer, _level: int | None) -> bytes:
    """Return Xerial's framing: a header, then blocks with their length in front (snappy-java, read by every Kafka
    client)."""
    pieces = [_XERIAL_HEADER]
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        pieces += (_BLOCK_LENGTH.pack(len(block)), block)
    return b"".join(pieces)


def _unsnappy(data: memoryview, limit: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _unsnappy_block(data, limit)  # as librdkafka writes it
    pieces, at = [], len(_XERIAL_HEADER)
    while at < len(data):
        try:
            (length,) = _BLOCK_LENGTH.unpack_from(data, at)
        except struct.error:
            raise _damaged(Codec.SNAPPY, "it is cut off") from None
        at += _BLOCK_LENGTH.size
        if not 0 < length <= len(data) - at:
            raise _damaged(Codec.SNAPPY, f"a block of {length} bytes begins where {len(data) - at} are left")
        pieces.append(_unsnappy_block(data[at : at + length], limit))
        limit -= len(pieces[-1])
        at += length
    return b"".join(pieces)


def _unsnappy_block(block: memoryview, limit: int) -> bytes:
    try:
        if (size := cramjam.snappy.decompress_raw_len(block)) > limit:
            raise _damaged(Codec.SNAPPY, f"a block wants {size} bytes, where at most {limit} may come out")
        return bytes(cramjam.snappy.decompress_raw(block))  # it fails unless there are `size` bytes
    except cramjam.DecompressionError as error:
        raise _damaged(Codec.SNAPPY, str(error)) from None


def _lz4(data: Buffer, level: int | None) -> bytes:
    library_level = _FAST_LZ4 if level is None or level == _LZ4_LEVEL else min(max(level, _SLOW_LZ4[0]), _SLOW_LZ4[-1])
    # The library's default links blocks to each other, which Java's reader rejects.
    compressor = cramjam.lz4.Compressor(level=library_level, block_linked=False, content_checksum=False)
    for at in range(0, len(data), _LZ4_STEP_BYTES):
        compressor.compress(bytes(data[at : at + _LZ4_STEP_BYTES]))
    return bytes(compressor.finish())


def has_linked_blocks(codec: int, data: Buffer) -> bool:
    """Return whether it is an LZ4 frame whose blocks build on each other, which Java's clients can't read."""
    return codec == Codec.LZ4 and len(data) > _LZ4_FLAGS_AT and not data[_LZ4_FLAGS_AT] & _LZ4_INDEPENDENT


def _unlz4(data: memoryview, limit: int) -> bytes:
    return _into_growing_buffer(Codec.LZ4, cramjam.lz4.decompress_into, data, limit)


def _zstd(data: Buffer, level: int | None) -> bytes:
    return bytes(cramjam.zstd.compress(data, _ZSTD_LEVEL if level is None else level))


def _unzstd(data: memoryview, limit: int) -> bytes:
    return _into_growing_buffer(Codec.ZSTD, cramjam.zstd.decompress_into, data, limit)


def _into_growing_buffer(
    codec: Codec, decompress_into: Callable[[memoryview, bytearray], int], data: memoryview, limit: int
) -> bytes:
    """Decompress into a buffer that is larger at each try, because neither format says for certain how much will come
    out.

    The library reports a full buffer as it reports damage, so an error is final only at the limit.
    """
    size = min(limit, max(_FIRST_OUTPUT_BYTES, _GROWTH * len(data)))
    while True:
        output = bytearray(size)
        try:
            return bytes(memoryview(output)[: decompress_into(data, output)])
        except cramjam.DecompressionError as error:
            if size == limit:
                raise _damaged(codec, str(error)) from None
            size = min(limit, size * _GROWTH)


def _damaged(codec: Codec, reason: str) -> OttlaError:
    return corrupt(f"the {codec.label} frame of a batch can't be decompressed: {reason}")


_COMPRESS: Final[dict[Codec, Callable[[Buffer, int | None], bytes]]] = {
    Codec.NONE: lambda data, _level: bytes(data),
    Codec.GZIP: _gzip,
    Codec.SNAPPY: _snappy,
    Codec.LZ4: _lz4,
    Codec.ZSTD: _zstd,
}
_DECOMPRESS: Final[dict[Codec, Callable[[memoryview, int], bytes]]] = {
    Codec.NONE: lambda data, _limit: bytes(data),
    Codec.GZIP: _gunzip,
    Codec.SNAPPY: _unsnappy,
    Codec.LZ4: _unlz4,
    Codec.ZSTD: _unzstd,
}
