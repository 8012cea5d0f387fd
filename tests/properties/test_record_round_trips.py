"""Any records, any codec: what one twin builds the other reads, byte for byte and record for record."""

from __future__ import annotations

import pytest
from batches import sealed
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.records.batch import check_batch, iter_headers
from ottla_core.records.compression import Codec, compress, decompress
from ottla_core.records.reader import read_records
from ottla_core.records.record import MAX_TIMESTAMP_MS, RawRecord
from ottla_core.records.varint import decode_varint, encode_varint

some_bytes = st.one_of(
    st.none(),
    st.binary(max_size=80),
    st.builds(lambda part, times: part * times, st.binary(min_size=1, max_size=3), st.integers(0, 400)),
)
headers = st.lists(st.tuples(st.text(max_size=12), some_bytes), max_size=4)
timestamps = st.one_of(st.integers(1_600_000_000_000, 1_800_000_000_000), st.integers(0, MAX_TIMESTAMP_MS))


@st.composite
def record_lists(draw: st.DrawFn) -> list[RawRecord]:
    rows = draw(st.lists(st.tuples(timestamps, some_bytes, some_bytes, headers), min_size=1, max_size=25))
    return [(offset, *row) for offset, row in enumerate(rows)]


@pytest.mark.feature(22)
@given(records=record_lists(), codec=st.sampled_from(Codec))
def test_records_survive_both_twins_and_every_codec(records: list[RawRecord], codec: Codec) -> None:
    batch = sealed(records, codec)
    assert sealed(records, codec, pure=True) == batch
    assert list(read_records(batch)) == records
    assert list(read_records(batch, pure=True)) == records


@given(records=record_lists(), codec=st.sampled_from(Codec))
def test_header_of_a_sealed_batch_tells_the_truth(records: list[RawRecord], codec: Codec) -> None:
    batch = sealed(records, codec)
    header = check_batch(batch, 0, max_bytes=len(batch))
    assert (header.record_count, header.last_offset) == (len(records), records[-1][0])
    assert header.base_timestamp == records[0][1]
    assert header.max_timestamp == max(record[1] for record in records)
    assert [at for at, _ in iter_headers(batch + batch)] == [0, len(batch)]


@given(value=st.integers(-(2**63), 2**63 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_varints_survive_wherever_they_lie(value: int, before: bytes, after: bytes) -> None:
    encoded = encode_varint(value)
    assert len(encoded) <= 10
    assert decode_varint(before + encoded + after, len(before)) == (value, len(before) + len(encoded))


@given(data=st.binary(max_size=2000), times=st.integers(1, 100), codec=st.sampled_from(Codec))
def test_bytes_survive_every_codec(data: bytes, times: int, codec: Codec) -> None:
    assert decompress(codec, compress(codec, data * times)) == data * times
