"""Reading: what a log may hold, and every way in which the inside of a batch can lie (rule 64)."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest
from batches import NOON, raw_batch, raw_record, sealed, simple_records, with_fresh_crc

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import LOG_APPEND_TIME, iter_headers
from ottla_core.records.compression import Codec, compress
from ottla_core.records.reader import BatchRecords, read_records
from ottla_core.records.record import OFFSET, VALUE
from ottla_core.records.varint import encode_varint as varint

NULL = varint(-1)
LARGEST = 2**63 - 1


def test_batch_with_log_append_time_has_one_timestamp(pure: bool) -> None:
    batch = raw_batch(raw_record(0) + raw_record(1), 2, attributes=LOG_APPEND_TIME, max_timestamp=NOON + 77)
    assert [record[:2] for record in read_records(batch, pure=pure)] == [(0, NOON + 77), (1, NOON + 77)]


def test_record_without_a_timestamp_has_minus_one(pure: bool) -> None:
    batch = raw_batch(raw_record(0) + raw_record(1), 2, base_timestamp=-1, max_timestamp=-1)
    assert [record[1] for record in read_records(batch, pure=pure)] == [-1, -1]
    appended = raw_batch(raw_record(0), attributes=LOG_APPEND_TIME, base_timestamp=-1)
    assert [record[1] for record in read_records(appended, pure=pure)] == [NOON]


def test_timestamp_that_overflows_wraps_around_as_in_java(pure: bool) -> None:
    batch = raw_batch(raw_record(0, timestamp_delta=5), base_timestamp=LARGEST)
    assert [record[1] for record in read_records(batch, pure=pure)] == [-(2**63) + 4]


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_batch_that_compaction_emptied_has_no_records(codec: Codec, pure: bool) -> None:
    batch = raw_batch(b"", 0, last_offset_delta=9, attributes=codec, base_offset=100)
    assert list(read_records(batch, pure=pure)) == []


def test_offsets_that_compaction_thinned_out_are_kept(pure: bool) -> None:
    batch = raw_batch(raw_record(1) + raw_record(4), 2, last_offset_delta=6, base_offset=100)
    assert [record[0] for record in read_records(batch, pure=pure)] == [101, 104]


def test_header_name_that_is_not_utf8_does_not_block_a_partition(pure: bool) -> None:
    fields = NULL + NULL + varint(1) + varint(3) + b"a\xffb" + varint(1) + b"v"
    batch = raw_batch(raw_record(0, fields=fields))
    assert [record[4] for record in read_records(batch, pure=pure)] == [[("a\ufffdb", b"v")]]


def test_any_buffer_is_read_and_the_end_stays_the_end(pure: bool) -> None:
    batch = sealed(simple_records(3), Codec.LZ4)
    for data in (batch, bytearray(batch), memoryview(b"??" + batch)[2:]):
        records = read_records(data, pure=pure)
        assert list(records) == list(records) == simple_records(3)
        iterator = iter(records)
        assert (list(iterator), next(iterator, None)) == (simple_records(3), None)


def test_columns_are_the_fields_of_the_records(pure: bool) -> None:
    for count in (3, 5000):  # few are checked all at once, and many step by step
        records = read_records(sealed(simple_records(count), Codec.NONE), pure=pure)
        assert len(records) == count
        assert [*records.columns(*range(5))] == [list(column) for column in zip(*simple_records(count), strict=True)]
        assert [*records.columns(VALUE, OFFSET)] == [*reversed(records.columns(OFFSET, VALUE))]


def test_each_batch_of_a_fetch_is_read_by_itself(pure: bool) -> None:
    data = memoryview(sealed(simple_records(3), Codec.ZSTD) + sealed(simple_records(5)))
    counts = [len(list(read_records(data[at : at + h.size_bytes], pure=pure))) for at, h in iter_headers(data)]
    assert counts == [3, 5]
    with pytest.raises(OttlaError, match="bytes follow a batch"):
        read_records(data, pure=pure)


@pytest.mark.rule(64)
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.label)
@pytest.mark.parametrize(
    ("records", "count"),
    [
        pytest.param(raw_record(0) + raw_record(1), 1, id="more records than counted"),
        pytest.param(raw_record(0) + raw_record(1), 3, id="fewer records than counted"),
        pytest.param(raw_record(0), 2**31 - 1, id="two billion records counted"),
        pytest.param(raw_record(0) + raw_record(0), 2, id="offset twice"),
        pytest.param(raw_record(1) + raw_record(0), 2, id="offsets backwards"),
        pytest.param(raw_record(0) + raw_record(2), 2, id="offset skipped"),
        pytest.param(raw_record(-1), 1, id="offset before the batch"),
        pytest.param(raw_record(1), 1, id="offset behind the batch"),
        pytest.param(raw_record(LARGEST), 1, id="offset overflows"),
        pytest.param(raw_record(0, length=5), 1, id="record length too small"),
        pytest.param(raw_record(0, length=7), 1, id="record length too large"),
        pytest.param(raw_record(0, length=-6), 1, id="record length negative"),
        pytest.param(raw_record(0, length=LARGEST), 1, id="record length enormous"),
        pytest.param(raw_record(0, fields=varint(9) + b"key" + NULL + b"\0"), 1, id="key beyond the end"),
        pytest.param(raw_record(0, fields=NULL + varint(9) + b"value" + b"\0"), 1, id="value beyond the end"),
        pytest.param(raw_record(0, fields=varint(LARGEST) + NULL + b"\0"), 1, id="key length overflows"),
        pytest.param(raw_record(0, fields=NULL + varint(LARGEST - 40) + b"\0"), 1, id="value length all but overflows"),
        pytest.param(raw_record(0, fields=NULL + NULL + varint(-1)), 1, id="header count negative"),
        pytest.param(raw_record(0, fields=NULL + NULL + varint(3)), 1, id="headers missing"),
        pytest.param(raw_record(0, fields=NULL + NULL + varint(LARGEST)), 1, id="header count enormous"),
        pytest.param(raw_record(0, fields=NULL + NULL + varint(1) + NULL + NULL), 1, id="header without a name"),
        pytest.param(raw_record(0, fields=NULL + NULL + varint(1) + varint(9) + b"h"), 1, id="header name too long"),
        pytest.param(raw_record(0, fields=NULL + NULL + varint(1) + b"\0" + varint(LARGEST)), 1, id="header value too"),
        pytest.param(raw_record(0, fields=NULL + NULL + b"\x81"), 1, id="varint cut off by the end"),
        pytest.param(b"\x80" * 11 + b"\1", 1, id="varint of 12 bytes"),
        pytest.param(raw_record(0)[:-1], 1, id="last byte missing"),
        pytest.param(b"\0" * 20, 20, id="nothing but zeros"),
        pytest.param(b"\xff" * 20, 1, id="nothing but ones"),
    ],
)
def test_inside_that_lies_is_corrupt_whole(records: bytes, count: int, codec: Codec, pure: bool) -> None:
    batch = raw_batch(compress(codec, records), count, attributes=codec, base_offset=500)
    with pytest.raises(OttlaError) as caught:
        read_records(batch, pure=pure)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
    assert "offset 500" in caught.value.message
    assert f"offset {500 + count}" in caught.value.hint


@pytest.mark.rule(64)
def test_corruption_in_the_last_record_keeps_the_first_from_leaving(pure: bool) -> None:
    records = b"".join(raw_record(n) for n in range(5000))
    assert len(list(read_records(raw_batch(records, 5000), pure=pure))) == 5000
    with pytest.raises(OttlaError) as caught:
        read_records(raw_batch(records[:-1] + b"\x02", 5000), pure=pure)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.rule(64)
@pytest.mark.parametrize("codec", [c for c in Codec if c is not Codec.NONE], ids=lambda codec: codec.label)
def test_frame_that_lies_is_corrupt(codec: Codec, pure: bool) -> None:
    for payload in (b"not a frame", compress(codec, bytes(2 << 20)), compress(codec, raw_record(0))[:-3]):
        with pytest.raises(OttlaError) as caught:
            read_records(raw_batch(payload, attributes=codec), pure=pure)
        assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_header_is_checked_before_the_inside(pure: bool) -> None:
    batch = sealed(simple_records(3))
    for damaged, code in (
        (batch[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (raw_batch(b"", magic=1), ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
        (raw_batch(b"", attributes=7), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
        (with_fresh_crc(batch[:-1]), ErrorCode.CORRUPT_MESSAGE),
    ):
        with pytest.raises(OttlaError) as caught:
            read_records(damaged, pure=pure)
        assert caught.value.code == code


@pytest.mark.parametrize("count", [1_000, 20_000])
def test_batches_that_wait_cost_the_memory_of_their_bytes(count: int, pure: bool) -> None:
    """Also where they are read: of twenty thousand records none is kept."""
    batch = raw_batch(b"".join(raw_record(n) for n in range(count)), count)

    def read() -> list[BatchRecords]:
        waiting = [read_records(batch, pure=pure) for _ in range(20_000 // count)]
        assert sum(1 for records in waiting for _ in records) == 20_000
        return waiting

    read()  # what is imported and cached is not counted below
    tracemalloc.start()
    try:
        waiting = read()
        kept_bytes, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    whole = len(batch) * len(waiting)
    assert (kept_bytes < 2 * whole, peak_bytes < 5 * whole) == (True, True), (kept_bytes, peak_bytes, whole)


def test_header_view_imports_neither_codecs_nor_the_compiled_twin() -> None:
    program = (
        "import sys, ottla_core.records.batch\n"
        "assert not {'cramjam', 'aiokafka', 'asyncio'} & set(sys.modules)\n"
        "import ottla_core.records.reader, ottla_core.records.control\n"
        "assert not {'aiokafka', 'asyncio'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
