"""The newest offset of each key, within its budget of bytes."""

from __future__ import annotations

import pytest

from ottla_broker.compaction.offset_map import LEAST_BYTES, SLOT_BYTES, OffsetMap, bytes_for


@pytest.mark.feature(99)
def test_each_key_has_its_newest_offset() -> None:
    offsets = OffsetMap(1 << 16)
    newest = {}
    for offset in range(5000):
        key = b"%d" % (offset * 7 % 2000)
        assert offsets.put(key, offset)
        newest[key] = offset
    assert {key: offsets.get(key) for key in newest} == newest
    assert (offsets.get(b"another"), offsets.get(b""), offsets.count) == (-1, -1, 2000)


@pytest.mark.parametrize("size_bytes", [LEAST_BYTES, 1000, 100_000])
def test_a_full_map_takes_no_new_key_and_keeps_to_its_bytes(size_bytes: int) -> None:
    offsets = OffsetMap(size_bytes)
    taken = next(n for n in range(size_bytes) if not offsets.put(b"%d" % n, n))
    slots = size_bytes // SLOT_BYTES
    assert slots // 2 <= taken <= 0.9 * slots
    assert offsets._table.itemsize * len(offsets._table) <= size_bytes
    assert offsets.put(b"0", 1 << 40), "a key that it knows needs no room"
    assert [offsets.get(b"%d" % n) for n in range(taken + 1)] == [1 << 40, *range(1, taken), -1]


@pytest.mark.parametrize("keys", [0, 1, 100, 12_345])
def test_a_map_of_the_size_for_so_many_keys_has_room_for_them(keys: int) -> None:
    size_bytes = bytes_for(keys)
    offset_map = OffsetMap(size_bytes)
    assert all(offset_map.put(b"%d" % n, n) for n in range(keys))
    assert size_bytes <= 24 * (keys / 0.9 + 400)
