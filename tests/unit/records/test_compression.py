"""Codecs: what they write, what other clients write, and frames that lie."""

from __future__ import annotations

import gzip
import random
import struct
import tracemalloc
import zlib
from typing import Any

import cramjam
import pytest

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.compression import (
    MAX_OUTPUT_BYTES,
    Codec,
    codec_of,
    compress,
    decompress,
    has_linked_blocks,
    output_limit,
)

TEXT = b"".join(b'{"flight": %d, "carrier": "UA"}' % n for n in range(3000))
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
XERIAL = compress(Codec.SNAPPY, b"x")[:16]
SNAPPY_BLOCK = bytes(cramjam.snappy.compress_raw(b"twenty bytes of data"))
every_codec = pytest.mark.parametrize("codec", COMPRESSING, ids=lambda codec: codec.label)


def assert_damaged(codec: Codec, frame: bytes) -> None:
    with pytest.raises(OttlaError) as caught:
        decompress(codec, frame)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert codec.label in caught.value.message


@pytest.mark.feature(22)
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_what_goes_in_comes_out(codec: Codec) -> None:
    for data in (TEXT, b"x", bytes(1 << 20), TEXT * 12):
        frame = compress(codec, data)
        assert decompress(codec, frame) == data
        assert decompress(codec, memoryview(frame)) == data
    assert codec is Codec.NONE or len(compress(codec, TEXT)) < len(TEXT) / 3
    assert decompress(codec, b"") == b""


def test_codecs_have_kafkas_names_and_numbers() -> None:
    assert [(codec.value, codec.label) for codec in Codec] == [
        (0, "none"),
        (1, "gzip"),
        (2, "snappy"),
        (3, "lz4"),
        (4, "zstd"),
    ]
    assert [codec_of(codec.label) for codec in Codec] == list(Codec)
    for wrong in ("ZSTD", "brotli", ""):
        with pytest.raises(OttlaError) as caught:
            codec_of(wrong)
        assert caught.value.code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        assert "snappy" in caught.value.hint


def test_lz4_blocks_are_independent_as_java_demands() -> None:
    magic, flags = struct.unpack_from("<IB", compress(Codec.LZ4, TEXT))
    assert magic == 0x184D2204
    assert flags & 0x20, "blocks must not be linked"
    assert not flags & 0x04, "no content checksum"


def test_snappy_is_framed_as_xerial_does_in_blocks_of_32_kib() -> None:
    frame = compress(Codec.SNAPPY, TEXT)
    assert frame[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    sizes, at = [], 16
    while at < len(frame):
        (length,) = struct.unpack_from(">i", frame, at)
        sizes.append(cramjam.snappy.decompress_raw_len(frame[at + 4 : at + 4 + length]))
        at += 4 + length
    assert sizes[:-1] == [32768] * (len(TEXT) // 32768)
    assert sum(sizes) == len(TEXT)


def test_frames_of_other_writers_are_read() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT  # librdkafka: no framing
    assert decompress(Codec.LZ4, bytes(cramjam.lz4.compress(TEXT))) == TEXT  # Python clients: linked blocks
    assert decompress(Codec.GZIP, gzip.compress(TEXT, 9)) == TEXT
    assert decompress(Codec.ZSTD, bytes(cramjam.zstd.compress(TEXT, 19))) == TEXT


@pytest.mark.rule(64)
@every_codec
def test_frame_that_is_cut_off_or_nonsense_is_damage(codec: Codec) -> None:
    frame = compress(codec, TEXT)
    for end in (1, 7, 17, len(frame) // 2, len(frame) - 1):
        assert_damaged(codec, frame[:end])
    assert_damaged(codec, b"no frame at all, whatever the attributes say")
    assert_damaged(codec, frame + b"\xff\xff\xff\xff\xff trailing")


@pytest.mark.rule(64)
@every_codec
def test_bomb_is_refused_before_it_takes_memory(codec: Codec) -> None:
    bomb = compress(codec, bytes(200 << 20))
    tracemalloc.start()
    try:
        assert_damaged(codec, bomb)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes <= 2 * output_limit(len(bomb)) + (1 << 20)


def test_output_is_limited_by_input_and_at_all() -> None:
    assert output_limit(0) == 1 << 20
    assert output_limit(1000) == 100_000 + (1 << 20)
    assert output_limit(1 << 30) == MAX_OUTPUT_BYTES
    frame = compress(Codec.ZSTD, bytes(1 << 20))
    assert len(decompress(Codec.ZSTD, frame)) == 1 << 20
    assert_damaged(Codec.ZSTD, compress(Codec.ZSTD, bytes((1 << 20) + 10_000)))


@pytest.mark.rule(64)
@pytest.mark.parametrize(
    ("codec", "frame"),
    [
        pytest.param(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 20, id="snappy block of 4 GiB"),
        pytest.param(Codec.SNAPPY, XERIAL + struct.pack(">i", 99) + SNAPPY_BLOCK, id="block beyond the end"),
        pytest.param(Codec.SNAPPY, XERIAL + struct.pack(">i", -5) + SNAPPY_BLOCK, id="block of negative length"),
        pytest.param(Codec.SNAPPY, XERIAL + struct.pack(">i", 0) * 9, id="empty blocks"),
        pytest.param(
            Codec.ZSTD, bytes.fromhex("28b52ffde0") + struct.pack("<Q", 1 << 40) + b"x" * 9, id="zstd of 1 TiB"
        ),
        pytest.param(Codec.ZSTD, bytes.fromhex("28b52ffd00ff290000") + b"hello", id="zstd window of 3 TiB"),
        pytest.param(Codec.GZIP, gzip.compress(b"one") + gzip.compress(b"two"), id="two gzip members"),
        pytest.param(Codec.GZIP, gzip.compress(b"one")[:-8] + struct.pack("<II", zlib.crc32(b"two"), 3), id="gzip CRC"),
    ],
)
def test_frame_that_lies_about_itself_is_damage(codec: Codec, frame: bytes) -> None:
    assert_damaged(codec, frame)


@pytest.mark.parametrize(
    ("codec", "levels"),
    [
        (Codec.GZIP, [None, -1, 1, 9]),
        (Codec.LZ4, [None, 9, 1, 3, 8, 10, 12, 13, 17]),
        (Codec.ZSTD, [None, 0, 3, -131_072, -1, 1, 19, 22]),
    ],
)
def test_a_frame_of_any_level_is_read(codec: Codec, levels: list[int | None]) -> None:
    data = random.Random(7).randbytes(3_000).hex().encode() * 20
    frames = [compress(codec, data, level) for level in levels]
    assert [decompress(codec, frame) for frame in frames] == [data] * len(levels)
    assert frames[0] == frames[1], "Kafka's default"
    assert len(set(frames)) > 2
    assert codec is not Codec.LZ4 or not has_linked_blocks(codec, frames[-1])


def test_lz4_lets_other_threads_work_while_it_compresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The library holds the interpreter during a call."""
    sizes: list[int] = []

    class Compressor:
        def __init__(self, **settings: Any) -> None:
            self._actual = actual(**settings)

        def compress(self, data: bytes) -> None:
            sizes.append(len(data))
            self._actual.compress(data)

        def finish(self) -> bytes:
            return bytes(self._actual.finish())

    actual = cramjam.lz4.Compressor
    monkeypatch.setattr(cramjam.lz4, "Compressor", Compressor)
    data = random.Random(7).randbytes(1_000_001)
    assert decompress(Codec.LZ4, compress(Codec.LZ4, data, 17)) == data
    assert max(sizes) <= 64 << 10
