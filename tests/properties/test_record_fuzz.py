"""Bytes from a stranger: whatever is flipped, cut or invented, both twins answer with records or an OttlaError."""

from __future__ import annotations

from contextlib import suppress

import pytest
from batches import NOON, raw_batch, sealed, with_fresh_crc
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla_core.errors import OttlaError
from ottla_core.records.batch import HEADER_SIZE, check_batch, iter_headers
from ottla_core.records.compression import Codec, compress, decompress, output_limit
from ottla_core.records.control import decode_marker
from ottla_core.records.reader import read_records
from ottla_core.records.record import RawRecord

RECORDS: list[RawRecord] = [
    (
        n,
        NOON + n * 1000,
        None if n % 3 == 0 else b"key",
        None if n % 5 == 0 else b"v" * n,
        [("h", b"1"), ("n", None)][: n % 3],
    )
    for n in range(12)
]
BATCHES = {codec: sealed(RECORDS, codec) for codec in Codec}

codecs = st.sampled_from(Codec)
flips = st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=4)


def outcome(batch: bytes, *, pure: bool) -> list[RawRecord] | int:
    """The records, or the code of the one kind of exception that may come."""
    try:
        return list(read_records(batch, pure=pure))
    except OttlaError as error:
        return error.code


def damaged(data: bytes, flips: list[tuple[int, int]], begin: int = 0) -> bytes:
    draft = bytearray(data)
    for position, mask in flips:
        draft[begin + position % (len(draft) - begin)] ^= mask
    return bytes(draft)


@pytest.mark.rule(64)
@given(codec=codecs, flips=flips)
def test_flipped_bytes_are_found_by_the_crc_or_lie_outside_it(codec: Codec, flips: list[tuple[int, int]]) -> None:
    batch = damaged(BATCHES[codec], flips)
    if (seen := outcome(batch, pure=False)) != outcome(BATCHES[codec], pure=False):
        assert isinstance(seen, int) or batch[:8] != BATCHES[codec][:8]


@pytest.mark.rule(64)
@settings(max_examples=400)
@given(codec=codecs, flips=flips)
def test_damage_with_a_fresh_crc_is_seen_alike_by_both_twins(codec: Codec, flips: list[tuple[int, int]]) -> None:
    batch = with_fresh_crc(damaged(BATCHES[codec], flips))
    assert outcome(batch, pure=False) == outcome(batch, pure=True)


@pytest.mark.rule(64)
@settings(max_examples=400)
@given(flips=flips, codec=codecs)
def test_damage_below_the_compression_is_seen_alike_by_both_twins(flips: list[tuple[int, int]], codec: Codec) -> None:
    records = damaged(BATCHES[Codec.NONE][HEADER_SIZE:], flips)
    batch = raw_batch(compress(codec, records), len(RECORDS), attributes=codec)
    assert outcome(batch, pure=False) == outcome(batch, pure=True)


@given(codec=codecs, end=st.integers(0, 10_000))
def test_batch_that_is_cut_off_is_refused(codec: Codec, end: int) -> None:
    batch = BATCHES[codec][: end % len(BATCHES[codec])]
    for pure in (False, True):
        assert isinstance(outcome(batch, pure=pure), int)
    with pytest.raises(OttlaError):
        check_batch(batch, 0, max_bytes=1 << 20)
    assert list(iter_headers(batch)) == []


@settings(max_examples=300)
@given(records=st.binary(max_size=120), count=st.integers(-3, 20))
def test_invented_records_are_seen_alike_by_both_twins(records: bytes, count: int) -> None:
    batch = raw_batch(records, count)
    assert outcome(batch, pure=False) == outcome(batch, pure=True)


@settings(max_examples=300)
@given(
    codec=codecs,
    frame=st.one_of(
        st.binary(max_size=200),
        st.builds(damaged, st.sampled_from([compress(c, bytes(range(256)) * 9) for c in Codec]), flips),
    ),
)
def test_invented_frames_are_damage_or_stay_within_the_limit(codec: Codec, frame: bytes) -> None:
    with suppress(OttlaError):
        assert len(decompress(codec, frame)) <= output_limit(len(frame))


@given(data=st.binary(max_size=400))
def test_headers_of_anything_end(data: bytes) -> None:
    positions = [at for at, _ in iter_headers(data)]
    assert positions == sorted(set(positions))
    assert len(positions) <= len(data) // HEADER_SIZE


@given(key=st.one_of(st.none(), st.binary(max_size=8)), value=st.one_of(st.none(), st.binary(max_size=8)))
def test_invented_control_records_are_markers_skipped_or_refused(key: bytes | None, value: bytes | None) -> None:
    with suppress(OttlaError):
        marker = decode_marker(key, value)
        assert marker is None or (key, value) != (None, None)
