"""What an append gives, what it writes, and that a refused one leaves no trace."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import cramjam
import pytest
from batches import NOON, raw_batch, raw_record, sealed, simple_records
from logs import all_records, fill, headers_of, open_log, records_of, values_batch

from ottla_broker.machines.bad_records import MOST_NAMED, BadRecordsError
from ottla_broker.machines.offsets import HighWatermark
from ottla_broker.storage.files import DataFile
from ottla_broker.storage.index import SegmentIndexes
from ottla_broker.storage.log import Log
from ottla_broker.storage.log_config import LogConfig, TimestampType
from ottla_broker.storage.validator import Walk
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, body_crc
from ottla_core.records.compression import Codec, compress, output_limit
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord
from ottla_core.records.varint import encode_varint as varint

HOUR_MS = 3_600_000


def lz4_frame(*, linked: bool) -> bytes:
    compressor = cramjam.lz4.Compressor(level=1, block_linked=linked, content_checksum=False)
    compressor.compress(raw_record(0))
    return bytes(compressor.finish())


@pytest.fixture
def log(tmp_path: Path) -> Log:
    return open_log(tmp_path / "log", LogConfig())


def refused(log: Log, records: bytes, *, now_ms: int = NOON, walk: Walk = Walk.WHOLE) -> OttlaError:
    """The error of an append that must leave the log as it was."""
    before = log.log_end_offset, log.size_bytes
    with pytest.raises(OttlaError) as caught:
        log.append(records, 1, now_ms, walk=walk)
    assert (log.log_end_offset, log.size_bytes) == before
    return caught.value


@pytest.mark.feature(82, 83)
def test_offsets_are_given_in_order_and_once(log: Log) -> None:
    first = log.append(values_batch(b"a", b"b"), 1, NOON)
    second = log.append(values_batch(b"c"), 1, NOON)
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 1, 2)
    assert (second.base_offset, second.last_offset) == (2, 2)
    assert all_records(log) == [(0, b"a"), (1, b"b"), (2, b"c")]
    assert log.log_end_offset == 3


@pytest.mark.rule(1)
@pytest.mark.feature(89)
def test_a_batch_keeps_its_bytes_but_for_offset_and_leader_epoch(log: Log) -> None:
    sent = values_batch(b"kept as it is")
    log.append(values_batch(b"before"), 6, NOON)
    log.append(sent, 7, NOON)
    stored = log.read(1, 1 << 20, 2)
    assert stored[16:] == sent[16:]
    assert [(h.base_offset, h.leader_epoch) for h in headers_of(stored)] == [(1, 7)]
    assert [tuple(entry) for entry in log.epochs.entries] == [(6, 0), (7, 1)]


@pytest.mark.rule(64)
def test_all_batches_of_a_request_are_checked_before_any_gets_an_offset(log: Log) -> None:
    good, bad = values_batch(b"good"), bytearray(values_batch(b"bad"))
    bad[-1] ^= 1
    assert refused(log, good + bytes(bad)).code == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, good + good[:-1]).code == ErrorCode.CORRUPT_MESSAGE
    assert refused(log, good + b"\0" * 10).code == ErrorCode.CORRUPT_MESSAGE
    done = log.append(good + good + good, 1, NOON)
    assert (done.base_offset, done.last_offset) == (0, 2)
    assert [value for _, value in all_records(log)] == [b"good"] * 3


@pytest.mark.rule(64)
def test_what_is_the_brokers_to_write_a_client_may_not(log: Log) -> None:
    record = raw_record(0)
    for attribute in (CONTROL, DELETE_HORIZON, LOG_APPEND_TIME):
        assert refused(log, raw_batch(record, attributes=attribute)).code == ErrorCode.INVALID_RECORD
    assert refused(log, raw_batch(record, attributes=TRANSACTIONAL)).code == ErrorCode.INVALID_REQUEST
    assert refused(log, raw_batch(record, magic=1)).code == ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT
    assert refused(log, raw_batch(b"", 0)).code == ErrorCode.INVALID_RECORD
    for walk in (Walk.WHOLE, Walk.QUICK):
        assert refused(log, b"", walk=walk).code == ErrorCode.INVALID_RECORD
        assert refused(log, raw_batch(record)[:-1], walk=walk).code == ErrorCode.CORRUPT_MESSAGE
        assert refused(log, raw_batch(record)[:40], walk=walk).code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.rule(64)
def test_a_compacted_topic_takes_no_record_without_a_key(log: Log) -> None:
    keyed, bare = sealed(simple_records(3)), values_batch(b"bare")
    log.config = LogConfig(compacts=True)
    error = refused(log, keyed + bare)
    assert error.code == ErrorCode.INVALID_RECORD
    assert "record 0 of a batch has no key" in error.message
    assert isinstance(error, BadRecordsError)
    assert [record.number for record in error.records] == [0]
    assert "cleanup.policy" in error.hint
    for codec in Codec:
        last = sealed([*simple_records(5), (5, NOON, None, b"x", [])], codec)
        assert "record 5" in refused(log, last).message
    assert log.append(keyed, 1, NOON).last_offset == 2
    log.config = LogConfig()
    assert log.append(bare, 1, NOON).base_offset == 3, "elsewhere no key is needed"


@pytest.mark.story("unreadable-batch-is-acknowledged")
@pytest.mark.rule(64)
@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("walk", [Walk.WHOLE, Walk.QUICK])
@pytest.mark.parametrize("compacts", [False, True])
def test_a_batch_that_no_one_could_read_is_refused(log: Log, codec: Codec, walk: Walk, compacts: bool) -> None:
    """The CRC is right in each of them. Apache Kafka answers INVALID_RECORD, too."""
    log.config = LogConfig(compacts=compacts)
    one = raw_record(0, fields=varint(1) + b"k" + varint(1) + b"v" + varint(0))
    for data, count in ((b"\xff" * 30, 1), (one, 2), (one + one, 1), (one + one, 2), (one + b"\0", 1), (one[:-1], 1)):
        error = refused(log, raw_batch(compress(codec, data), count, attributes=codec), walk=walk)
        assert (error.code, error.retriable) == (ErrorCode.INVALID_RECORD, False)
        assert error.hint
    log.append(raw_batch(compress(codec, one), 1, attributes=codec), 1, NOON, walk=walk)


@pytest.mark.story("unreadable-batch-is-acknowledged")
def test_a_batch_that_does_not_decompress_is_refused(log: Log) -> None:
    for codec in (codec for codec in Codec if codec):
        assert refused(log, raw_batch(b"not gzip at all" * 3, 1, attributes=codec)).code == ErrorCode.INVALID_RECORD


@pytest.mark.story("only-the-first-bad-record")
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_every_record_without_a_key_is_named_up_to_a_bound(log: Log, codec: Codec) -> None:
    log.config = LogConfig(compacts=True)
    mixed: list[RawRecord] = [(n, NOON, None if n in (1, 4, 5) else b"k", b"v", []) for n in range(7)]
    error = refused(log, sealed(mixed, codec))
    assert isinstance(error, BadRecordsError)
    assert [record.number for record in error.records] == [1, 4, 5]
    assert "record 1 of a batch has no key (2 others neither)" in error.message
    assert log.append(sealed([record for record in mixed if record[2]], codec), 1, NOON).last_offset == 3
    error = refused(log, sealed([(n, NOON, None, b"", []) for n in range(3 * MOST_NAMED)], codec))
    assert isinstance(error, BadRecordsError)
    assert [record.number for record in error.records] == list(range(MOST_NAMED))


def counting(count: int, records: bytes = raw_record(0), **fields: int) -> bytes:
    """A batch that says it holds `count` records, whatever is in it."""
    return raw_batch(records, count, **fields)


@pytest.mark.story("count-that-lies-takes-offsets")
@pytest.mark.rule(64)
def test_a_batch_that_counts_more_records_than_it_has_room_for_gets_no_offset(log: Log) -> None:
    smallest = len(raw_record(0))
    for count in (2, 2**26, 2**31 - 1):
        error = refused(log, counting(count))
        assert (error.code, error.retriable) == (ErrorCode.INVALID_RECORD, False)
    assert refused(log, raw_batch(raw_record(0)) + counting(2**26)).code == ErrorCode.INVALID_RECORD
    several = b"".join(raw_record(n) for n in range(9))
    assert len(several) == 9 * smallest
    assert log.append(counting(9, several), 1, NOON).last_offset == 8, "none is smaller"
    assert refused(log, counting(10, several)).code == ErrorCode.INVALID_RECORD
    for codec in (codec for codec in Codec if codec is not Codec.NONE):
        packed = compress(codec, several)
        for count in (1, 8, 10, 2**26):
            assert refused(log, counting(count, packed, attributes=codec)).code == ErrorCode.INVALID_RECORD
        assert refused(log, counting(1, b"", attributes=codec)).code == ErrorCode.INVALID_RECORD
        log.append(counting(9, packed, attributes=codec), 1, NOON)


@pytest.mark.story("request-of-more-offsets-than-a-segment")
@pytest.mark.rule(59, 64)
def test_a_request_of_more_offsets_than_a_segment_holds_is_refused_whole(log: Log) -> None:
    log.append(values_batch(b"honest"), 1, NOON)
    data = Path(log.segments[0].path).read_bytes()
    packed = b"\0" * 700_000  # it stands for a batch that was walked, and announces what may come out of it at most
    count = output_limit(len(packed)) // 7
    batch = counting(count, packed, attributes=Codec.ZSTD)
    batches = 2**31 // count + 1
    log.config = LogConfig(segment_bytes=batches * len(batch))
    with pytest.raises(OttlaError) as caught:
        log.append(batch * batches, 1, NOON, walk=Walk.DONE)
    assert caught.value.code == ErrorCode.RECORD_LIST_TOO_LARGE
    assert Path(log.segments[0].path).read_bytes() == data
    assert log.append(batch * (batches - 1), 1, NOON, walk=Walk.DONE).last_offset == (batches - 1) * count
    assert len(log.segments) == 1


@pytest.mark.story("refused-batches-come-to-life", "interrupted-write-stays")
@pytest.mark.rule(58)
@pytest.mark.parametrize("where", ["in the index", "after the write"])
def test_whatever_goes_wrong_after_a_write_the_file_ends_where_the_log_ends(
    log: Log, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else what was refused would be taken for sound by a start after a crash."""
    log.append(values_batch(b"kept"), 1, NOON)
    data = Path(log.segments[0].path).read_bytes()

    def writes_and_is_interrupted(file: DataFile, buffers: list[bytes], position: int) -> int:
        os.pwritev(file._fd, buffers, position)
        raise KeyboardInterrupt

    def overflows(*_: object) -> None:
        raise struct.error("'i' format requires -2147483648 <= number <= 2147483647")

    with monkeypatch.context() as patched:
        if where == "in the index":
            patched.setattr(SegmentIndexes, "note", overflows)
        else:
            patched.setattr(DataFile, "write", writes_and_is_interrupted)
        with pytest.raises((struct.error, KeyboardInterrupt)):
            log.append(values_batch(b"refused") * 30, 1, NOON)
    assert Path(log.segments[0].path).read_bytes() == data
    log.append(values_batch(b"kept, too"), 1, NOON)
    log.abandon()
    again = open_log(log.directory, LogConfig())
    assert all_records(again) == [(0, b"kept"), (1, b"kept, too")]


@pytest.mark.rule(65)
def test_the_size_limit_is_one_of_each_batch(log: Log) -> None:
    batch = values_batch(b"x" * 100)
    log.config = LogConfig(max_message_bytes=len(batch))
    assert log.append(batch + batch, 1, NOON).last_offset == 1
    log.config = LogConfig(max_message_bytes=len(batch) - 1)
    assert refused(log, batch).code == ErrorCode.MESSAGE_TOO_LARGE
    log.config = LogConfig(segment_bytes=2 * len(batch) - 1)
    assert refused(log, batch + batch).code == ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.story("times-out-of-bounds-blame-all")
@pytest.mark.rule(63)
def test_timestamps_far_from_the_brokers_clock_are_refused(log: Log) -> None:
    log.append(values_batch(b"an hour ahead", at_ms=NOON + HOUR_MS), 1, NOON)
    ahead = refused(log, values_batch(b"more", at_ms=NOON + HOUR_MS + 1))
    assert ahead.code == ErrorCode.INVALID_TIMESTAMP
    assert "message.timestamp.after.max.ms" in str(ahead)
    log.append(values_batch(b"long ago", at_ms=0), 1, NOON)
    log.config = LogConfig(timestamp_before_max_ms=HOUR_MS)
    assert refused(log, values_batch(b"old", at_ms=NOON - HOUR_MS - 1)).code == ErrorCode.INVALID_TIMESTAMP
    times = [NOON, NOON + HOUR_MS + 1, NOON - HOUR_MS, NOON - HOUR_MS - 1, NOON + 2 * HOUR_MS]
    mixed: list[RawRecord] = [(n, at, b"k", b"v" * 1000, []) for n, at in enumerate(times)]
    named = refused(log, sealed(mixed))
    assert isinstance(named, BadRecordsError)
    assert (named.code, [record.number for record in named.records]) == (ErrorCode.INVALID_TIMESTAMP, [1, 3, 4])
    for unnamed in (sealed(mixed, Codec.GZIP), raw_batch(b"unreadable", max_timestamp=NOON + 2 * HOUR_MS)):
        error = refused(log, unnamed)
        assert isinstance(error, BadRecordsError)
        assert (error.code, error.records) == (ErrorCode.INVALID_TIMESTAMP, [])
    log.append(raw_batch(raw_record(0), base_timestamp=-1, max_timestamp=-1), 1, NOON)
    assert refused(log, raw_batch(raw_record(0), max_timestamp=NOON - 1)).code == ErrorCode.INVALID_TIMESTAMP
    assert log.log_end_offset == 3


@pytest.mark.rule(65)
def test_with_append_time_every_record_has_the_brokers_clock(log: Log) -> None:
    log.config = LogConfig(timestamp_type=TimestampType.LOG_APPEND_TIME)
    sent = values_batch(b"a", b"b", at_ms=5)
    done = log.append(sent + sent, 1, NOON)
    assert done.log_append_time_ms == NOON
    stored = log.read(0, 1 << 20, 4)
    for header in headers_of(stored):
        assert header.has_log_append_time
        assert header.max_timestamp == NOON
    assert body_crc(stored[: len(sent)]) == headers_of(stored)[0].crc
    assert records_of(stored) == [(0, b"a"), (1, b"b"), (2, b"a"), (3, b"b")]
    log.config = LogConfig()
    assert log.append(sent, 1, NOON).log_append_time_ms == -1


def test_a_request_of_more_batches_than_the_kernel_takes_buffers(log: Log) -> None:
    count = 1500
    done = log.append(values_batch(b"tiny") * count, 1, NOON)
    assert (done.base_offset, done.last_offset) == (0, count - 1)
    assert len(all_records(log, max_bytes=1 << 20)) == count


@pytest.mark.feature(88, 102)
def test_every_field_of_a_record_comes_back_null_and_binary_too(log: Log) -> None:
    records = [
        (0, NOON, None, None, []),
        (1, NOON + 5, b"", b"\xff\x00\xfe", [("trace", b"1"), ("trace", None)]),
        (2, NOON, b"\x00key", b"value" * 100, []),
    ]
    for codec in Codec:
        start = log.append(sealed(records, codec), 1, NOON).base_offset
        stored = log.read(start, 1 << 20, log.log_end_offset)
        assert [(o - start, *rest) for o, *rest in read_records(stored)] == records
        assert headers_of(stored)[0].codec in (codec, Codec.NONE)


@pytest.mark.rule(4)
def test_an_epoch_begins_where_the_log_ended_when_it_was_first_led(tmp_path: Path) -> None:
    log = open_log(tmp_path / "log")
    fill(log, 2, leader_epoch=1)
    log.assign_epoch(4)
    log.assign_epoch(4)
    fill(log, 1, leader_epoch=4)
    assert [tuple(entry) for entry in log.epochs.entries] == [(1, 0), (4, 6)]


def test_a_closed_log_takes_and_gives_nothing(log: Log) -> None:
    log.append(sealed(simple_records(3)), 1, NOON)
    log.close(NOON)
    for call in (
        lambda: log.append(values_batch(b"late"), 1, NOON),
        lambda: log.read(0, 100, 3),
        lambda: log.flush(NOON),
        lambda: log.delete_records_before(1, HighWatermark(3)),
    ):
        with pytest.raises(OttlaError, match="is closed"):
            call()


def test_lz4_that_java_could_not_read_is_refused(log: Log) -> None:
    error = refused(log, raw_batch(lz4_frame(linked=True), attributes=Codec.LZ4))
    assert error.code == ErrorCode.INVALID_RECORD
    assert "Java" in str(error)
    log.append(raw_batch(lz4_frame(linked=False), attributes=Codec.LZ4), 1, NOON)
