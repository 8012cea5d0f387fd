"""A shard's log in bytes: what is sealed is read back, and what others have put there is what it says."""

from __future__ import annotations

import pytest
from batches import NOON, sealed
from hypothesis import given
from hypothesis import strategies as st
from owners import stored

from ottla_core.coordination.batches import EMPTY_BATCH_BYTES, read_batches, seal_entries, size_limit
from ottla_core.coordination.shard import Entry, Marker, TransactionProducer
from ottla_core.records.batch import CONTROL, TRANSACTIONAL
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.records.twins import new_builder

ENTRIES = st.lists(
    st.builds(Entry, st.binary(max_size=300), st.none() | st.binary(max_size=300), st.none()), min_size=1, max_size=20
)


@given(ENTRIES)
def test_entries_come_back_and_take_no_more_room_than_was_said(entries: list[Entry]) -> None:
    batch = seal_entries(entries, NOON)
    assert len(batch) <= EMPTY_BATCH_BYTES + size_limit(entries)
    [read] = read_batches(stored(batch, 40))
    assert [Entry(*pair) for pair in read.pairs] == entries
    assert (read.next_offset, read.of_transactions, read.fence) == (40 + len(entries), [], None)


def test_the_largest_varints_have_room() -> None:
    entries = [Entry(b"k" * 70_000, b"v" * 3_000_000), *(Entry(b"", b"") for _ in range(20_000))]
    assert len(seal_entries(entries, NOON)) <= EMPTY_BATCH_BYTES + size_limit(entries)


@pytest.mark.rule(53)
def test_transactions_are_read_in_the_same_pass() -> None:
    builder = new_builder(1000)
    builder.append(NOON, b"k", b"v")
    pending = builder.seal(producer_id=9, producer_epoch=2, base_sequence=-1, attributes=TRANSACTIONAL)
    builder = new_builder(1000)
    builder.append(NOON, *encode_marker(EndTransactionMarker(committed=True, coordinator_epoch=4)))
    marker = builder.seal(producer_id=9, producer_epoch=2, attributes=CONTROL | TRANSACTIONAL)
    fence = seal_fence(ShardFence(3, 8), NOON)
    data = stored(pending, 0) + stored(fence, 1) + stored(marker, 2)
    assert [tuple(batch) for batch in read_batches(data)] == [
        (1, [], [Entry(b"k", b"v", TransactionProducer(9, 2))], None),
        (2, [], [], ShardFence(3, 8)),
        (3, [], [Marker(TransactionProducer(9, 2), committed=True, coordinator_epoch=4)], None),
    ]


def test_what_concerns_nobody_here_is_passed_over_and_counted() -> None:
    unknown_control = sealed([(0, NOON, b"\0\0\x12\x34", b"", [])], attributes=CONTROL)
    keyless = sealed([(0, NOON, None, b"v", []), (1, NOON, b"k", b"v", [])])
    data = stored(unknown_control, 7) + stored(keyless, 8) + stored(keyless, 10)[:-1]
    assert [tuple(batch) for batch in read_batches(data)] == [(8, [], [], None), (10, [(b"k", b"v")], [], None)]
