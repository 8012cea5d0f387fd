"""Builders: what fits, what a sealed batch says of itself, and that both twins write the same bytes."""

from __future__ import annotations

import sys

import pytest
from batches import NOON, sealed, simple_records

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import (
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    check_batch,
    read_header,
)
from ottla_core.records.builder import SealedBatch
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord
from ottla_core.records.twins import new_builder, twin

RECORDS: list[RawRecord] = [
    (0, NOON + 5, b"key", b"value", [("one", b"1"), ("one", b"again"), ("null", None), ("empty", b"")]),
    (1, NOON, None, b"no key", []),
    (2, NOON + 9, b"no value", None, []),
    (3, NOON + 2, None, None, [("größe", "üñï".encode())]),
    (4, NOON + 2, b"", b"", []),
    (5, NOON + 10_000_000, b"k" * 300, b"v" * 70_000, []),
]


def test_compiled_twin_is_the_one_in_use() -> None:
    assert twin().name == "compiled"
    assert twin(pure=True).name == "pure"


def test_pure_twin_stands_in_where_the_wheel_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ottla_core.records.compiled", raising=False)
    monkeypatch.setitem(sys.modules, "aiokafka.record._crecords.default_records", None)
    twin.cache_clear()
    try:
        assert twin().name == "pure"
        assert list(read_records(sealed(RECORDS))) == RECORDS
    finally:
        monkeypatch.undo()
        twin.cache_clear()


@pytest.mark.feature(5)
@pytest.mark.feature(22)
@pytest.mark.feature(102)
@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_records_come_back_as_they_were_given(codec: Codec, pure: bool) -> None:
    batch = sealed(RECORDS, codec, pure=pure)
    assert list(read_records(batch, pure=pure)) == RECORDS
    assert check_batch(batch, 0, max_bytes=1 << 20).codec == codec
    assert len(batch) < 5000 or codec is Codec.NONE


@pytest.mark.parametrize("codec", Codec, ids=lambda codec: codec.label)
def test_twins_write_the_same_bytes(codec: Codec) -> None:
    assert sealed(RECORDS, codec) == sealed(RECORDS, codec, pure=True)


def test_batch_is_full_before_it_exceeds_its_limit(pure: bool) -> None:
    builder = new_builder(1000, pure=pure)
    sizes = [builder.size_bytes]
    while builder.append(NOON, b"key", b"value" * 5):
        sizes.append(builder.size_bytes)
    assert sizes[0] == HEADER_SIZE
    assert builder.size_bytes == sizes[-1] <= 1000 < sizes[-1] + (sizes[-1] - sizes[-2])
    assert builder.record_count == len(sizes) - 1
    assert not builder.append(NOON, b"key", b"value" * 5, [("h", b"v")])
    batch = builder.seal()
    assert len(batch) == sizes[-1]
    assert len(list(read_records(batch, pure=pure))) == builder.record_count


def test_limit_is_met_to_the_byte(pure: bool) -> None:
    def filled(max_bytes: int) -> int:
        builder = new_builder(max_bytes, pure=pure)
        assert builder.append(NOON, None, b"first")
        builder.append(NOON, None, b"second")
        return builder.size_bytes

    both = filled(1000)
    assert filled(both) == both
    assert filled(both - 1) < both


def test_first_record_fits_whatever_its_size(pure: bool) -> None:
    builder = new_builder(100, pure=pure)
    assert builder.append(NOON, None, bytes(5000))
    assert not builder.append(NOON, None, b"")
    assert [record[3] for record in read_records(builder.seal(), pure=pure)] == [bytes(5000)]


def test_sealed_batch_carries_its_producer_and_attributes(pure: bool) -> None:
    builder = new_builder(1000, pure=pure)
    for timestamp_ms in (NOON + 7, NOON, NOON + 9):
        assert builder.append(timestamp_ms, None, b"x")
    header = read_header(builder.seal(producer_id=7000, producer_epoch=3, base_sequence=12, attributes=TRANSACTIONAL))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7000, 3, 12)
    assert (header.base_timestamp, header.max_timestamp, header.leader_epoch) == (NOON + 7, NOON + 9, -1)
    assert header.is_transactional
    assert read_header(sealed(RECORDS, pure=pure))[9:12] == (-1, -1, -1)


@pytest.mark.parametrize("timestamp_ms", [-1, -NOON, 1 << 63])
def test_impossible_timestamp_is_refused_and_adds_nothing(timestamp_ms: int, pure: bool) -> None:
    builder = new_builder(1000, pure=pure)
    with pytest.raises(OttlaError) as caught:
        builder.append(timestamp_ms, None, b"x")
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert (builder.record_count, builder.size_bytes) == (0, HEADER_SIZE)


def test_what_is_not_bytes_is_refused_and_adds_nothing(pure: bool) -> None:
    for key, value in (("text", b"x"), (b"x", "text"), (b"x", 5)):
        builder = new_builder(1000, pure=pure)
        assert builder.append(NOON, None, b"x", (("a tuple", b"will do"),))
        size_bytes = builder.size_bytes
        with pytest.raises(TypeError):
            builder.append(NOON, key, value)  # type: ignore[arg-type]  # what no type allows
        assert (builder.record_count, builder.size_bytes) == (1, size_bytes)
        assert not builder.append(NOON, None, b"y"), "nor anything after it"
        assert [value for *_, value, _ in read_records(builder.seal(), pure=pure)] == [b"x"]


def test_records_that_do_not_shrink_or_shrink_too_well_are_stored_as_they_are(pure: bool) -> None:
    incompressible = sealed([(0, NOON, None, bytes(range(40)), [])], Codec.ZSTD, pure=pure)
    assert read_header(incompressible).codec == Codec.NONE
    zeros: list[RawRecord] = [(0, NOON, None, bytes(8 << 20), [])]
    like_a_bomb = sealed(zeros, Codec.ZSTD, pure=pure)
    assert read_header(like_a_bomb).codec == Codec.NONE
    assert list(read_records(like_a_bomb, pure=pure)) == zeros


def test_simple_records_number_themselves(pure: bool) -> None:
    assert list(read_records(sealed(simple_records(2000), pure=pure), pure=pure)) == simple_records(2000)


def test_a_batch_of_another_log_is_written_once_more_as_it_is() -> None:
    source = sealed(simple_records(20), Codec.LZ4)
    header = read_header(source)._replace(base_offset=100, leader_epoch=7, producer_id=5, base_sequence=30)
    batch = SealedBatch(header, memoryview(source)[HEADER_SIZE:])
    assert (batch.record_count, batch.size_bytes, batch.max_timestamp_ms) == (20, len(source), header.max_timestamp)
    assert not batch.append(0, None, b"more")
    assert batch.seal(Codec.ZSTD) == source, "without a trace of where it was, under its own codec"


@pytest.mark.parametrize(
    "fields",
    [
        {"last_offset_delta": 30},
        {"attributes": DELETE_HORIZON},
        {"attributes": LOG_APPEND_TIME},
        {"attributes": CONTROL},
    ],
)
def test_a_batch_that_no_producer_sends_is_not_written_once_more(fields: dict[str, int]) -> None:
    source = sealed(simple_records(20))
    with pytest.raises(OttlaError) as raised:
        SealedBatch(read_header(source)._replace(**fields), source[HEADER_SIZE:])
    assert raised.value.code == ErrorCode.CORRUPT_MESSAGE


def test_batch_that_grows_equals_one_with_a_larger_limit(pure: bool) -> None:
    grown, at_once = new_builder(100, pure=pure), new_builder(80_000, pure=pure)
    limits = iter([120, 180, 300, 80_000])
    for _, timestamp_ms, key, value, headers in RECORDS:
        while not grown.append(timestamp_ms, key, value, headers):
            grown.grow(next(limits))
        assert at_once.append(timestamp_ms, key, value, headers)
        assert (grown.record_count, grown.size_bytes) == (at_once.record_count, at_once.size_bytes)
    assert grown.seal() == at_once.seal()


def test_batch_meets_its_raised_limit_to_the_byte(pure: bool) -> None:
    def grown(max_bytes: int) -> int:
        builder = new_builder(100, pure=pure)
        assert builder.append(NOON, None, b"first")
        builder.grow(max_bytes)
        builder.append(NOON - 5, None, b"second")
        return builder.size_bytes

    both = grown(1000)
    assert grown(both) == both
    assert grown(both - 1) < both


def test_batch_that_grew_for_nothing_is_unchanged(pure: bool) -> None:
    builders = [new_builder(1000, pure=pure) for _ in range(2)]
    for builder in builders:
        assert builder.append(NOON, None, b"first")
        assert builder.append(NOON + 9, None, b"second")
    builders[0].grow(2000)
    assert builders[0].seal() == builders[1].seal()
