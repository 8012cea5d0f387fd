"""Control records: transaction markers to bytes and back, and what is not a marker."""

from __future__ import annotations

import struct

import pytest
from batches import NOON, sealed

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, TRANSACTIONAL, read_header
from ottla_core.records.control import EndTransactionMarker, decode_marker, encode_marker
from ottla_core.records.reader import read_records


@pytest.mark.parametrize("committed", [True, False], ids=["commit", "abort"])
def test_marker_travels_in_a_control_batch(committed: bool, pure: bool) -> None:
    marker = EndTransactionMarker(committed, coordinator_epoch=17)
    key, value = encode_marker(marker)
    assert (key, value) == (struct.pack(">hh", 0, int(committed)), struct.pack(">hi", 0, 17))
    batch = sealed([(0, NOON, key, value, [])], pure=pure, attributes=CONTROL | TRANSACTIONAL)
    assert read_header(batch).is_control
    assert [decode_marker(record[2], record[3]) for record in read_records(batch, pure=pure)] == [marker]


@pytest.mark.parametrize("kind", [2, 3, 4, 5, 6, -1, 999])
def test_control_record_of_another_type_is_skipped(kind: int) -> None:
    assert decode_marker(struct.pack(">hh", 0, kind), b"of no concern") is None
    assert decode_marker(struct.pack(">hh", 1, kind), None) is None


def test_newer_version_is_read_as_ours_with_something_behind() -> None:
    key, value = struct.pack(">hhi", 3, 1, 5), struct.pack(">hiq", 2, 17, 99)
    assert decode_marker(key, value) == EndTransactionMarker(committed=True, coordinator_epoch=17)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b""),
        (b"", b""),
        (b"\0\0\0", b""),
        (struct.pack(">hh", 0, 1), None),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 17)[:-1]),
        (struct.pack(">hh", -1, 1), struct.pack(">hi", 0, 17)),
        (struct.pack(">hh", 0, 1), struct.pack(">hi", -1, 17)),
    ],
)
def test_marker_with_bytes_missing_or_a_negative_version_is_corrupt(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(OttlaError) as caught:
        decode_marker(key, value)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
