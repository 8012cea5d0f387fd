"""The fence of a shard's owner: to bytes and back, and what is no fence."""

from __future__ import annotations

import struct

import pytest
from batches import NOON, sealed

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import CONTROL, NO_PRODUCER_ID, read_header
from ottla_core.records.control import EndTransactionMarker, decode_marker, encode_marker
from ottla_core.records.fence import FENCE_TYPE, ShardFence, fence_of, seal_fence
from ottla_core.records.reader import read_records

KEY = struct.pack(">hh", 0, FENCE_TYPE)


def test_a_fence_travels_in_a_control_batch_of_no_producer(pure: bool) -> None:
    batch = seal_fence(ShardFence(7, 1 << 40), NOON)
    header = read_header(batch)
    assert (header.attributes, header.producer_id, header.record_count) == (CONTROL, NO_PRODUCER_ID, 1)
    ((_, _, key, value, _),) = read_records(batch, pure=pure)
    assert (key, value) == (KEY, struct.pack(">hiq", 0, 7, 1 << 40))
    assert fence_of(batch) == ShardFence(7, 1 << 40)
    assert decode_marker(key, value) is None, "who looks for transactions passes it over"


def test_what_is_no_fence() -> None:
    value = struct.pack(">hiq", 0, 7, 1)
    assert fence_of(sealed([(0, NOON, KEY, value, [])])) is None, "a client's record may look like one"
    marker = encode_marker(EndTransactionMarker(committed=True, coordinator_epoch=1))
    assert fence_of(sealed([(0, NOON, *marker, [])], attributes=CONTROL)) is None
    assert fence_of(sealed([(0, NOON, b"", value, [])], attributes=CONTROL)) is None
    assert fence_of(sealed([(0, NOON, None, value, [])], attributes=CONTROL)) is None


def test_a_newer_version_is_read_as_ours_with_something_behind() -> None:
    key, value = struct.pack(">hh", 3, FENCE_TYPE), struct.pack(">hiqq", 2, 7, 8, 99)
    assert fence_of(sealed([(0, NOON, key, value, [])], attributes=CONTROL)) == ShardFence(7, 8)


@pytest.mark.parametrize("value", [None, b"", struct.pack(">hiq", 0, 7, 1)[:-1], struct.pack(">hiq", -1, 7, 1)])
def test_a_fence_with_bytes_missing_is_corrupt(value: bytes | None) -> None:
    with pytest.raises(OttlaError) as caught:
        fence_of(sealed([(0, NOON, KEY, value, [])], attributes=CONTROL))
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE
