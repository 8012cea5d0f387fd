"""The batch header: what is refused from a producer, what may lie in a log, and what the broker writes into it."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from batches import NOON, raw_batch, raw_record, sealed, simple_records, with_fresh_crc

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    check_batch,
    check_stored,
    iter_headers,
    placed_prefix,
    read_header,
    with_log_append_time,
    write_header,
)
from ottla_core.records.reader import read_records

LIMIT = 1 << 20
BATCH = sealed(simple_records(5))


def with_field(layout: str, at: int, value: int) -> bytes:
    draft = bytearray(BATCH)
    struct.pack_into(layout, draft, at, value)
    return with_fresh_crc(bytes(draft))


def refusal(check: Callable[[], object]) -> OttlaError:
    with pytest.raises(OttlaError) as caught:
        check()
    assert caught.value.message
    assert caught.value.hint
    return caught.value


@pytest.mark.feature(88)
def test_header_shows_the_fields_of_a_batch() -> None:
    header = check_batch(BATCH, 0, max_bytes=LIMIT)
    assert header.size_bytes == len(BATCH)
    assert (header.base_offset, header.last_offset, header.next_offset, header.record_count) == (0, 4, 5, 5)
    assert (header.base_timestamp, header.max_timestamp, header.magic, header.codec) == (NOON, NOON + 4, 2, 0)
    assert (header.is_control, header.is_transactional, header.has_log_append_time) == (False, False, False)
    assert write_header(header) == BATCH[:HEADER_SIZE]


def test_header_shows_its_attribute_bits() -> None:
    header = read_header(raw_batch(b"", attributes=4 | TRANSACTIONAL | CONTROL | LOG_APPEND_TIME))
    assert header.codec == 4
    assert header.is_control
    assert header.is_transactional
    assert header.has_log_append_time


@pytest.mark.rule(64)
@pytest.mark.parametrize(
    ("batch", "code"),
    [
        pytest.param(with_field(">b", 16, 1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, id="magic 1"),
        pytest.param(with_field(">b", 16, 3), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, id="magic 3"),
        pytest.param(with_field(">h", 21, 5), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, id="codec 5"),
        pytest.param(with_field(">i", 57, 6), ErrorCode.INVALID_RECORD, id="count too large"),
        pytest.param(with_field(">i", 57, -1), ErrorCode.INVALID_RECORD, id="count negative"),
        pytest.param(raw_batch(b"", 0, last_offset_delta=-1), ErrorCode.INVALID_RECORD, id="no record at all"),
        pytest.param(with_field(">i", 23, 3), ErrorCode.INVALID_RECORD, id="last offset delta too small"),
        pytest.param(with_field(">i", 23, -2), ErrorCode.INVALID_RECORD, id="last offset delta negative"),
        pytest.param(BATCH[:-1], ErrorCode.CORRUPT_MESSAGE, id="cut off"),
        pytest.param(BATCH[: HEADER_SIZE - 1], ErrorCode.CORRUPT_MESSAGE, id="header cut off"),
        pytest.param(b"", ErrorCode.CORRUPT_MESSAGE, id="nothing"),
        pytest.param(with_field(">i", 8, 48), ErrorCode.CORRUPT_MESSAGE, id="length below a header"),
        pytest.param(with_field(">i", 8, -(2**31)), ErrorCode.CORRUPT_MESSAGE, id="length negative"),
        pytest.param(with_field(">i", 8, len(BATCH)), ErrorCode.CORRUPT_MESSAGE, id="length beyond the end"),
        pytest.param(BATCH[:-1] + b"!", ErrorCode.CORRUPT_MESSAGE, id="bit rot in the records"),
        pytest.param(BATCH[:35] + b"!" + BATCH[36:], ErrorCode.CORRUPT_MESSAGE, id="bit rot in the header"),
    ],
)
def test_damaged_batch_is_refused_from_a_producer_and_in_a_log(batch: bytes, code: ErrorCode) -> None:
    """A producer that counts wrongly gets INVALID_RECORD, as from Apache Kafka: the same bytes would be wrong again."""
    assert refusal(lambda: check_batch(batch, 0, max_bytes=LIMIT)).code == code
    stored = ErrorCode.CORRUPT_MESSAGE if code == ErrorCode.INVALID_RECORD else code
    assert refusal(lambda: check_stored(batch)).code == stored


@pytest.mark.rule(65)
def test_one_batch_is_bounded_where_a_producer_sends_it_and_not_in_a_log() -> None:
    assert check_batch(BATCH, 0, max_bytes=len(BATCH)).record_count == 5
    assert refusal(lambda: check_batch(BATCH, 0, max_bytes=len(BATCH) - 1)).code == ErrorCode.MESSAGE_TOO_LARGE
    assert check_stored(BATCH).record_count == 5


def test_batches_are_checked_where_they_lie_in_any_buffer() -> None:
    second = sealed(simple_records(2))
    for data in (BATCH + second, bytearray(BATCH + second), memoryview(BATCH + second)):
        assert check_batch(data, 0, max_bytes=LIMIT).record_count == 5
        assert check_batch(data, len(BATCH), max_bytes=LIMIT).record_count == 2
    assert refusal(lambda: check_batch(BATCH + second, 1, max_bytes=LIMIT))


@pytest.mark.rule(64)
@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(raw_batch(raw_record(1) + raw_record(3), 2, last_offset_delta=4), id="thinned out"),
        pytest.param(raw_batch(b"", 0, last_offset_delta=4), id="emptied"),
    ],
)
def test_what_compaction_leaves_may_lie_in_a_log_but_not_come_from_a_producer(batch: bytes) -> None:
    assert check_stored(batch).next_offset == 5
    assert refusal(lambda: check_batch(batch, 0, max_bytes=LIMIT)).code == ErrorCode.INVALID_RECORD


@pytest.mark.rule(1)
def test_leader_places_a_batch_without_touching_what_the_crc_covers() -> None:
    header = read_header(BATCH)
    placed = placed_prefix(header, 1_000_000_000_007, 42) + BATCH[16:]
    assert len(placed) == len(BATCH)
    assert check_stored(placed)[:3] == (1_000_000_000_007, header.batch_length, 42)
    assert [record[0] for record in read_records(placed)] == [1_000_000_000_007 + n for n in range(5)]


@pytest.mark.rule(65)
def test_log_append_time_rewrites_attribute_max_timestamp_and_crc(pure: bool) -> None:
    before = sealed(simple_records(5), attributes=TRANSACTIONAL)
    after = with_log_append_time(before, NOON + 99)
    header = check_batch(after, 0, max_bytes=LIMIT)
    assert header.has_log_append_time
    assert header.is_transactional
    assert (header.base_timestamp, header.max_timestamp) == (NOON, NOON + 99)
    assert after[HEADER_SIZE:] == before[HEADER_SIZE:]
    assert {record[1] for record in read_records(after, pure=pure)} == {NOON + 99}


def test_headers_are_listed_up_to_the_first_batch_that_is_not_whole() -> None:
    second = sealed(simple_records(2))
    whole = BATCH + second
    assert [(at, header.record_count) for at, header in iter_headers(whole)] == [(0, 5), (len(BATCH), 2)]
    for end in (len(whole) - 1, len(BATCH) + HEADER_SIZE, len(BATCH) + 3, len(BATCH)):
        assert [at for at, _ in iter_headers(memoryview(whole)[:end])] == [0]
    assert list(iter_headers(bytes(200))) == []
    assert list(iter_headers(b"")) == []
