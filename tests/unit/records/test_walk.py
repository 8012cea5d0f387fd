"""The walk finds whatever is wrong inside a batch with a right CRC, in bounded memory, and takes what Kafka takes."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial

import pytest
from batches import NOON, raw_batch, raw_record, sealed, simple_records

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import check_batch, read_header
from ottla_core.records.compression import Codec, compress
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord
from ottla_core.records.varint import encode_varint as varint
from ottla_core.records.walk import MOST_HEADERS, PIECE_BYTES, SlowWalkError, walk

PAIR = varint(1) + b"k" + varint(1) + b"v"


def record(offset_delta: int, headers: bytes = varint(0), **fields: int) -> bytes:
    return raw_record(offset_delta, fields=PAIR + headers, **fields)


BODY = len(record(0)) - 1
TWO = record(0) + record(1)
DAMAGED = {
    "garbage": (b"\xff" * 30, 1),
    "nothing": (b"", 1),
    "one record less than counted": (TWO, 3),
    "one record more than counted": (TWO, 1),
    "a byte after the last record": (TWO + b"\0", 2),
    "the last byte is missing": (TWO[:-1], 2),
    "a record claims to be longer": (record(0, length=BODY + 1) + record(1), 2),
    "the last record claims to be longer": (record(0) + record(1, length=BODY + 1), 2),
    "a record claims to be shorter": (record(0, length=BODY - 1) + record(1), 2),
    "a record has a negative length": (record(0, length=-4) + record(1), 2),
    "a record claims two gigabytes": (record(0, length=2**31 - 1) + record(1), 2),
    "offsets repeat": (record(0) + record(0), 2),
    "offsets leave a gap": (record(0) + record(2), 2),
    "offsets go back": (record(1) + record(0), 2),
    "an offset is negative": (record(-1) + record(1), 2),
    "a key goes beyond the end": (raw_record(0, fields=varint(99) + b"k" + varint(1) + b"v\0"), 1),
    "a value goes beyond the end": (raw_record(0, fields=varint(1) + b"k" + varint(99) + b"v\0"), 1),
    "a negative count of headers": (record(0, varint(-1)), 1),
    "headers are missing": (record(0, varint(3)), 1),
    "a header without a name": (record(0, varint(1) + varint(-1) + varint(-1)), 1),
    "a varint of eleven bytes": (varint(20) + b"\0\0\0" + b"\x82" + b"\x80" * 9 + b"\0" + b"k" + varint(1) + b"v\0", 1),
}
SOUND = {
    "plain": (TWO, 2),
    "null key and value": (raw_record(0), 1),
    "a key of the length -2 is null": (raw_record(0, fields=varint(-2) + varint(1) + b"v\0"), 1),
    "times go back": (record(0) + record(1, timestamp_delta=-5), 2),
    "a header's name is not UTF-8": (record(0, varint(1) + varint(1) + b"\xff" + varint(-1)) + record(1), 2),
}


def walked(batch: bytes, *, keys: bool = False, quickly: bool = False, pure: bool = False) -> list[int]:
    header = check_batch(batch, 0, max_bytes=1 << 30)
    return walk(header, batch, keys=keys, quickly=quickly, pure=pure).keyless


def refused(call: Callable[[], object]) -> OttlaError:
    with pytest.raises(OttlaError) as caught:
        call()
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    return caught.value


@pytest.mark.rule(64)
@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("what", DAMAGED)
def test_whatever_is_wrong_inside_a_batch_is_found(what: str, codec: Codec, keys: bool, pure: bool) -> None:
    data, count = DAMAGED[what]
    batch = raw_batch(compress(codec, data), count, attributes=codec)
    assert refused(lambda: walked(batch, keys=keys, pure=pure)).message
    refused(lambda: read_records(batch, pure=pure))


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("what", SOUND)
def test_what_kafka_takes_is_sound(what: str, codec: Codec, pure: bool) -> None:
    data, count = SOUND[what]
    assert walked(raw_batch(compress(codec, data), count, attributes=codec), pure=pure) == []


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec])
@pytest.mark.parametrize("damage", ["another format", "cut off", "a bomb"])
def test_what_does_not_decompress_is_damaged(damage: str, codec: Codec) -> None:
    packed = compress(codec, bytes(80 << 20) if damage == "a bomb" else TWO * 200)
    payload = {"another format": b"not gzip at all" * 3, "cut off": packed[:-9], "a bomb": packed}[damage]
    refused(lambda: walked(raw_batch(payload, 400, attributes=codec)))


@pytest.mark.parametrize("count", [1, 4095, 4096, 4097, 60_000])
def test_records_without_keys_are_told_by_their_numbers(count: int, pure: bool) -> None:
    """60,000 of them are more than a piece."""
    keyless = {0, count // 2, count - 1}
    records: list[RawRecord] = [(n, NOON, None if n in keyless else b"k", b"v" * 20, []) for n in range(count)]
    batch = sealed(records)
    assert walked(batch, keys=True, pure=pure) == sorted(keyless)
    assert walked(batch, pure=pure) == []


def test_offsets_with_gaps_are_sound_in_a_log() -> None:
    """Compaction leaves them, and an import brings them."""
    for count in (3, 60_000):
        data = b"".join(record(2 * n) for n in range(count))
        batch = raw_batch(data, count, last_offset_delta=2 * count, base_offset=7)
        assert walk(read_header(batch), batch).keyless == []
        short = raw_batch(data, count, last_offset_delta=2 * count - 3, base_offset=7)
        assert "after the batch's last" in refused(partial(walk, read_header(short), short)).message


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("where", [0, 30_000, 59_999])
def test_a_large_batch_is_walked_to_its_end(codec: Codec, where: int) -> None:
    records = [record(n) + b"" for n in range(120_000)]
    records[where] = record(where, length=BODY + 1)
    refused(lambda: walked(raw_batch(compress(codec, b"".join(records)), len(records), attributes=codec)))
    data = b"".join(record(n) for n in range(120_000))
    for damaged, count in ((data + b"\0", 120_000), (data[:-1], 120_000), (data, 119_999), (data, 120_001)):
        refused(partial(walked, raw_batch(compress(codec, damaged), count, attributes=codec)))


def test_records_larger_than_a_piece_are_walked() -> None:
    records: list[RawRecord] = [(n, NOON, b"k", bytes(PIECE_BYTES + n), [("h", b"x")]) for n in range(3)]
    assert walked(sealed([*simple_records(3), *records, *simple_records(3)])) == []


def bomb(count: int, length: int | None = None) -> bytes:
    """A record of so many headers, without names and values, which may lie about its length."""
    return record(0, varint(count) + bytes(2 * count), **({} if length is None else {"length": length}))


@pytest.mark.story("headers-take-gigabytes")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("length", [None, 10])
def test_millions_of_headers_take_no_memory(codec: Codec, length: int | None) -> None:
    """Each would be an object of 70 bytes: 33 million of them fit into what a batch may decompress to."""
    data = bomb(2_000_000, length)
    batch = raw_batch(compress(codec, data), 1, attributes=codec)
    walked(sealed(simple_records(3)))
    tracemalloc.start()
    try:
        refused(lambda: walked(batch))
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(SlowWalkError):
        walked(batch, quickly=True)


def test_a_piece_of_headers_is_taken() -> None:
    assert walked(raw_batch(bomb(MOST_HEADERS - 20), 1)) == []


@pytest.mark.parametrize(
    "batch",
    [
        sealed(simple_records(30_000)),
        sealed(simple_records(4_000), Codec.GZIP),
        raw_batch(compress(Codec.LZ4, b"\0" * (1 << 20)), 1, attributes=Codec.LZ4),
        raw_batch(compress(Codec.LZ4, b"not a record at all"), 1, attributes=Codec.LZ4)[:-3],
        raw_batch(SOUND["a header's name is not UTF-8"][0], 2),
    ],
    ids=["large", "large once it is decompressed", "a bomb", "does not decompress", "a name that is not UTF-8"],
)
def test_a_quick_walk_leaves_to_the_other_what_may_take_long(batch: bytes) -> None:
    with pytest.raises(SlowWalkError):
        walk(read_header(batch), batch, quickly=True)


@pytest.mark.parametrize("codec", Codec)
def test_a_quick_walk_finds_what_the_other_finds(codec: Codec) -> None:
    batch = sealed([(0, NOON, None, b"v", []), *simple_records(300)], codec)
    assert walked(batch, keys=True, quickly=True) == [0]
    refused(
        lambda: walked(raw_batch(compress(codec, DAMAGED["offsets go back"][0]), 2, attributes=codec), quickly=True)
    )
