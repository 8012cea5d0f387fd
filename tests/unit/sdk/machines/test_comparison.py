"""What it is that differs between replicas, and what a replica may not answer."""

from __future__ import annotations

import pytest
from batches import raw_batch, raw_record

from ottla.machines.comparisons.replicas import Comparison
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.records.batch import read_header


def batch(offset: int, count: int = 1, *, epoch: int = 0, value: bytes = b"v") -> bytes:
    fields = b"\1" + bytes([2 * len(value)]) + value + b"\0"
    records = b"".join(raw_record(n, fields=fields) for n in range(count))
    return raw_batch(records, count, base_offset=offset, leader_epoch=epoch)


FIRST = batch(0, 2)


@pytest.mark.parametrize(
    ("second", "what", "offset"),
    [
        (batch(3), "base offset", 2),
        (batch(2, epoch=1), "leader epoch", 2),
        (batch(2, value=b"w"), "CRC", 2),
        (batch(2, value=b"longer"), "CRC", 2),
        (batch(2, 2), "CRC", 2),
    ],
)
def test_what_differs_is_named_with_both_batches(second: bytes, what: str, offset: int) -> None:
    comparison = Comparison([1, 2], 0, 10)
    comparison.on_records(1, FIRST + batch(2))
    comparison.on_records(2, FIRST + second)
    comparison.compare()
    found = comparison.differences[2]
    assert (found.what, found.offset, found.reference) == (what, offset, 1)
    assert found.expected is not None
    assert found.found is not None
    assert found.expected.crc == read_header(batch(2)).crc
    assert (found.found.base_offset, found.found.size_bytes) == (read_header(second).base_offset, len(second))
    assert found.expected.is_sound
    assert found.found.is_sound
    assert comparison.wants() == [], "one replica alone has nothing to be compared with"


def test_nothing_is_wanted_where_there_is_nothing_to_compare() -> None:
    assert Comparison([1, 2], 5, 5).wants() == []
    assert Comparison([1], 0, 5).wants() == []
    assert Comparison([], 0, 5).equal == ()


def test_who_has_been_read_further_waits_for_the_others() -> None:
    comparison = Comparison([1, 2], 0, 4)
    assert comparison.wants() == [(1, 0), (2, 0)]
    comparison.on_records(1, FIRST + batch(2) + batch(3) + batch(4))
    comparison.on_records(2, FIRST)
    comparison.compare()
    assert comparison.wants() == [(2, 2)]
    assert comparison.offset == 2
    comparison.on_records(2, batch(2) + batch(3))
    comparison.compare()
    assert (comparison.wants(), comparison.equal, comparison.offset) == ([], (1, 2), 4)
    assert comparison.compared_bytes == len(FIRST + batch(2) + batch(3)), "what is beyond the end is nobody's business"


def test_a_batch_that_reaches_beyond_the_end_is_compared_too() -> None:
    comparison = Comparison([1, 2], 0, 3)
    comparison.on_records(1, FIRST + batch(2))
    comparison.on_records(2, FIRST)
    comparison.compare()
    comparison.on_records(2, batch(2, 5))
    comparison.compare()
    assert comparison.differences[2].offset == 2


def test_what_was_deleted_meanwhile_is_left_out() -> None:
    comparison = Comparison([1, 2], 0, 4)
    comparison.on_records(1, batch(0, value=b"x") + batch(1) + batch(2) + batch(3))
    comparison.on_log_start(2)
    assert comparison.wants() == [(2, 2)]
    comparison.on_records(2, batch(2) + batch(3))
    comparison.compare()
    assert (comparison.differences, comparison.start) == ({}, 2)
    assert comparison.compared_bytes == len(batch(2) + batch(3))
    comparison.on_log_start(1)
    assert comparison.start == 2, "a log never begins earlier"


def test_a_log_that_was_deleted_altogether_ends_the_comparison() -> None:
    comparison = Comparison([1, 2], 0, 4)
    comparison.on_records(1, FIRST)
    comparison.on_log_start(9)
    assert (comparison.wants(), comparison.differences, comparison.compared_bytes) == ([], {}, 0)


def test_a_replica_that_is_given_up_does_not_stop_the_others() -> None:
    comparison = Comparison([1, 2, 3], 0, 2)
    comparison.on_records(2, FIRST)
    comparison.on_records(3, batch(0, 2, value=b"w"))
    comparison.drop(1)
    comparison.compare()
    assert comparison.differences[3].reference == 2


@pytest.mark.parametrize(
    ("records", "words"),
    [
        (b"", "the response contains no batches from offset 2 on"),
        (b"\0" * 70, "not a complete batch"),
        (b"short", "5 bytes are left"),
        (batch(2)[:-1], "not a complete batch"),
        (batch(0, 2), "only batches up to offset 2, but offset 2 was requested"),
    ],
)
def test_what_is_no_batch_from_there_on_is_refused_and_changes_nothing(records: bytes, words: str) -> None:
    comparison = Comparison([1, 2], 0, 4)
    for broker in (1, 2):
        comparison.on_records(broker, FIRST)
    comparison.compare()
    with pytest.raises(OttlaError, match=words) as refused:
        comparison.on_records(1, records)
    assert refused.value.code == ErrorCode.CORRUPT_MESSAGE
    assert comparison.wants() == [(1, 2), (2, 2)]
