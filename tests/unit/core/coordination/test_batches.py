"""A shard's log in bytes: what is sealed is read back, and what others have put there is what it says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from batches import NOON, sealed
from hypothesis import given
from hypothesis import strategies as st
from owners import laid, stored

from ottla_core.coordination.batches import is_one_batch, read_batches, seal_records, size_limit
from ottla_core.coordination.shard import Entry, Marker, Record, TransactionProducer
from ottla_core.records.batch import CONTROL, TRANSACTIONAL
from ottla_core.records.control import EndTransactionMarker, encode_marker
from ottla_core.records.fence import ShardFence, seal_fence
from ottla_core.records.twins import new_builder

PRODUCERS = st.builds(TransactionProducer, st.sampled_from([7, 1 << 60]), st.sampled_from([0, 32_767]))


def records_of(producers: st.SearchStrategy[Any]) -> st.SearchStrategy[Entry]:
    return st.builds(Entry, st.binary(max_size=300), st.none() | st.binary(max_size=300), producers)


ENTRIES = st.lists(records_of(st.none()), min_size=1, max_size=20)
MIXTURES = st.lists(
    records_of(st.none() | PRODUCERS) | st.builds(Marker, PRODUCERS, st.booleans(), st.integers(0, 2**31 - 1)),
    min_size=1,
    max_size=20,
)


@given(ENTRIES)
def test_entries_come_back_and_take_no_more_room_than_was_said(entries: list[Entry]) -> None:
    batch = seal_records(entries, NOON)
    assert len(batch) <= size_limit(entries)
    [read] = read_batches(stored(batch, 40))
    assert [Entry(*pair) for pair in read.pairs] == entries
    assert (read.next_offset, read.of_transactions, read.fence) == (40 + len(entries), [], None)


@given(MIXTURES)
@pytest.mark.rule(53)
def test_any_mixture_comes_back_in_its_order_in_as_few_batches_as_can_be(records: list[Record]) -> None:
    """What is of nobody, of producers, and markers: all that an owner's round writes is what the next owner reads."""
    data = seal_records(records, NOON)
    assert len(data) <= size_limit(records)
    batches = list(read_batches(laid(data, 40)))
    read = [record for batch in batches for record in (*(Entry(*pair) for pair in batch.pairs), *batch.of_transactions)]
    assert read == records
    assert batches[-1].next_offset == 40 + len(records)
    assert is_one_batch(records) == (len(batches) == 1)
    kinds = [records[0]] + [
        b for a, b in pairwise(records) if (Marker in (type(a), type(b))) or a.producer != b.producer
    ]
    assert len(batches) == len(kinds)


def test_the_largest_varints_have_room() -> None:
    entries = [Entry(b"k" * 70_000, b"v" * 3_000_000), *(Entry(b"", b"") for _ in range(20_000))]
    assert len(seal_records(entries, NOON)) <= size_limit(entries)


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
