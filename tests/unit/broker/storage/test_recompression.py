"""Batches are stored in their topic's codec, and apart from that as their producer has sent them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from batches import NOON, raw_batch, sealed, simple_records, with_fresh_crc
from logs import headers_of, open_log, values_batch

from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_broker.storage.owned import append_owned, check_owned
from ottla_broker.storage.recompression import recompressed
from ottla_broker.storage.validator import Walk
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import HEADER_SIZE, LOG_APPEND_TIME, TRANSACTIONAL, check_stored, read_header
from ottla_core.records.compression import Codec, Compression, compress, decompress
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord

OTHERS = [(source, target) for source in Codec for target in Codec if source != target]
RECORDS: list[RawRecord] = [
    (0, NOON, b"key", b"value" * 50, [("name", b"x"), ("name", None), ("", b"")]),
    (1, NOON - 5, None, None, []),
    (2, NOON + 7, b"", b"", []),
    (3, NOON + 7, b"k" * 300, b"value" * 50, []),
]


def opened(tmp_path: Path, codec: Codec | None, level: int | None = None, /, **config: Any) -> Log:
    compression = None if codec is None else Compression(codec, level)
    return open_log(tmp_path / "log", LogConfig(compression=compression, **config))


def stored(log: Log) -> bytes:
    return log.read(0, 64 << 20, log.log_end_offset)


def plain(batch: bytes) -> bytes:
    return decompress(read_header(batch).codec, batch[HEADER_SIZE:])


def refused(log: Log, records: bytes) -> ErrorCode:
    with pytest.raises(OttlaError) as caught:
        log.append(records, 1, NOON)
    assert log.log_end_offset == 0
    return ErrorCode(caught.value.code)


def words(size_bytes: int) -> bytes:
    """Text that compresses to a third or so."""
    chosen = random.Random(7)

    def pieces() -> Iterator[bytes]:
        while True:
            yield b"%08x" % chosen.getrandbits(16)

    made, more = bytearray(), pieces()
    while len(made) < size_bytes:
        made += next(more)
    return bytes(made[:size_bytes])


@pytest.mark.story("codec-of-the-topic-is-ignored")
@pytest.mark.rule(64)
@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL], ids=["idempotent", "transactional"])
@pytest.mark.parametrize(("source", "target"), OTHERS)
def test_a_batch_in_another_codec_is_stored_in_that_of_the_topic(
    tmp_path: Path, source: Codec, target: Codec, attributes: int
) -> None:
    log = opened(tmp_path, target)
    built = sealed(RECORDS)
    header = read_header(built)._replace(producer_id=7, producer_epoch=3, attributes=attributes | source)
    fields = {**header._asdict(), "base_sequence": 0}
    del fields["batch_length"]
    sent = raw_batch(compress(source, built[HEADER_SIZE:]), 4, **fields)
    log.append(values_batch(b"before"), 5, NOON)
    done = log.append(sent, 5, NOON, transactional=True)
    batch = log.read(1, 1 << 20, log.log_end_offset)
    kept = check_stored(batch)
    assert (done.size_bytes, done.record_count) == (len(batch), 4)
    assert kept == read_header(sent)._replace(
        base_offset=1,
        leader_epoch=5,
        attributes=attributes | target,
        batch_length=kept.batch_length,
        crc=kept.crc,
    )
    assert plain(batch) == plain(sent)
    assert [(n + 1, *rest) for n, *rest in RECORDS] == [tuple(record) for record in read_records(batch)]
    assert log.append(sent, 5, NOON, transactional=True).duplicate


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("target", [None, *Codec])
def test_a_batch_in_the_topics_codec_keeps_its_bytes(tmp_path: Path, target: Codec | None, codec: Codec) -> None:
    log, sent = opened(tmp_path, target, 1 if target in (Codec.GZIP, Codec.LZ4, Codec.ZSTD) else None), values()
    batch = sent if codec is Codec.NONE else in_codec(sent, codec)
    log.append(batch, 1, NOON)
    assert (stored(log)[16:] == batch[16:]) == (target in (None, codec))


def values() -> bytes:
    return values_batch(*(b"a value with a value %d" % n for n in range(90)))


def in_codec(batch: bytes, codec: Codec, level: int | None = None) -> bytes:
    made = recompressed(read_header(batch), plain(batch), Compression(codec, level))
    assert made is not None
    return made


@pytest.mark.parametrize(("codec", "low", "high"), [(Codec.GZIP, 1, 9), (Codec.LZ4, 9, 12), (Codec.ZSTD, -5, 19)])
def test_the_topics_level_decides_how_small_a_batch_becomes(tmp_path: Path, codec: Codec, low: int, high: int) -> None:
    log = opened(tmp_path, codec, low)
    batch = values_batch(words(50_000))
    first = log.append(batch, 1, NOON)
    log.config = LogConfig(compression=Compression(codec, high))
    assert log.append(batch, 1, NOON).size_bytes < first.size_bytes < len(batch)


def test_each_batch_of_a_request_is_in_the_topics_codec(tmp_path: Path) -> None:
    log, sent = opened(tmp_path, Codec.ZSTD), values()
    several = [in_codec(sent, codec) for codec in (Codec.ZSTD, Codec.GZIP, Codec.NONE)]
    assert log.append(b"".join(several), 1, NOON).record_count == 270
    batches = headers_of(stored(log))
    assert [(header.base_offset, header.codec) for header in batches] == [(n * 90, Codec.ZSTD) for n in range(3)]
    assert stored(log)[16 : len(several[0])] == several[0][16:]


@pytest.mark.rule(65)
def test_log_append_time_is_stamped_on_recompressed_batches(tmp_path: Path) -> None:
    log = opened(tmp_path, Codec.GZIP)
    log.config = LogConfig(compression=Compression(Codec.GZIP), timestamp_type=TimestampType.LOG_APPEND_TIME)
    log.append(sealed(RECORDS), 1, NOON + 99)
    header = check_stored(stored(log))
    assert (header.attributes, header.max_timestamp) == (LOG_APPEND_TIME | Codec.GZIP, NOON + 99)
    assert [time for _, time, *_ in read_records(stored(log))] == [NOON + 99] * 4


@pytest.mark.rule(65)
def test_max_message_bytes_bounds_a_batch_as_sent_and_as_stored(tmp_path: Path) -> None:
    large = values_batch(words(3_000))
    small = in_codec(large, Codec.ZSTD)
    assert len(small) < 2_500 < len(large)
    log = opened(tmp_path, Codec.NONE, max_message_bytes=2_500)
    assert refused(log, small) == ErrorCode.MESSAGE_TOO_LARGE
    log.config = LogConfig(compression=Compression(Codec.ZSTD), max_message_bytes=2_500)
    assert refused(log, large) == ErrorCode.MESSAGE_TOO_LARGE
    log.append(small, 1, NOON)


def test_segment_bytes_bounds_only_what_is_stored(tmp_path: Path) -> None:
    large = values_batch(words(3_000))
    small = in_codec(large, Codec.ZSTD)
    log = opened(tmp_path, Codec.NONE, segment_bytes=2_500)
    assert refused(log, small) == ErrorCode.RECORD_LIST_TOO_LARGE
    log.config = LogConfig(compression=Compression(Codec.ZSTD), segment_bytes=2_500)
    log.append(large, 1, NOON)


def test_a_batch_that_readers_would_take_for_a_bomb_keeps_its_codec(tmp_path: Path) -> None:
    """A reader takes at most a mebibyte and a hundred times its size out of a batch."""
    log = opened(tmp_path, Codec.ZSTD, max_message_bytes=8 << 20)
    sent = values_batch(bytes(4 << 20))
    log.append(sent, 1, NOON)
    assert stored(log)[16:] == sent[16:]
    assert [value for *_, value, _ in read_records(stored(log))] == [bytes(4 << 20)]


def test_a_batch_that_is_damaged_inside_is_refused(tmp_path: Path) -> None:
    log = opened(tmp_path, Codec.ZSTD)
    for codec in Codec:
        batch = raw_batch(compress(codec, b"no record" * 20), 1, attributes=codec)
        assert refused(log, with_fresh_crc(batch)) == ErrorCode.INVALID_RECORD


def test_batches_that_were_walked_before_are_written_unchanged(tmp_path: Path) -> None:
    """The topic's codec has changed since the walk."""
    log, sent = opened(tmp_path, Codec.ZSTD), values()
    log.append(sent, 1, NOON, walk=Walk.DONE)
    assert stored(log)[16:] == sent[16:]


def test_followers_and_imports_write_batches_unchanged(tmp_path: Path) -> None:
    log, batch = opened(tmp_path, Codec.ZSTD), sealed(simple_records(9))
    log.append_replicated(batch, NOON)
    assert stored(log) == batch


def test_a_coordinators_batches_keep_their_codec(tmp_path: Path) -> None:
    log, batch = opened(tmp_path, Codec.ZSTD), sealed(simple_records(9))
    owner = ShardFence(1, 1)
    append_owned(log, check_owned(owner, 0, seal_fence(owner, NOON), log.config), 1, NOON)
    append_owned(log, check_owned(owner, 1, batch, log.config), 1, NOON)
    assert [header.codec for header in headers_of(stored(log))] == [Codec.NONE, Codec.NONE]
