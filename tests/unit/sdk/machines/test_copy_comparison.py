"""What a copy lacks, has twice, or has in another order, is found; what is as it should be is not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest

from ottla.machines.comparisons.copies import CopyComparison, Fault, Finding, Seen


def seen(contents: Iterable[object]) -> list[Seen]:
    return [Seen(offset, each) for offset, each in enumerate(contents)]


def compared(source: Iterable[object], copy: Iterable[object], window: int = 100) -> list[Finding]:
    return list(CopyComparison(iter(seen(source)), iter(seen(copy)), window).findings())


@pytest.mark.parametrize("contents", ["", "abc", "aaaa", "abababcc"])
def test_a_true_copy_is_true(contents: str) -> None:
    assert compared(contents, contents) == []


def test_what_is_missing_is_named_by_its_offset_in_the_source() -> None:
    assert compared("abcdef", "acdef") == [Finding(Fault.MISSING, 1)]
    assert compared("abcdef", "abcde") == [Finding(Fault.MISSING, 5)]
    assert compared("abcdef", "cdef") == [Finding(Fault.MISSING, 0), Finding(Fault.MISSING, 1)]
    assert compared("abc", "") == [Finding(Fault.MISSING, n) for n in range(3)]


def test_what_was_copied_again_is_doubled() -> None:
    assert compared("abcdef", "abcdbcdef") == [Finding(Fault.DOUBLED, n) for n in (4, 5, 6)]
    assert compared("abc", "abcc") == [Finding(Fault.DOUBLED, 3)]
    assert compared("aaa", "aaaa") == [Finding(Fault.DOUBLED, 3)]


def test_what_comes_later_than_it_should_is_reordered() -> None:
    assert compared("abcdef", "acbdef") == [Finding(Fault.REORDERED, 2)]
    assert compared("abcdef", "bcdefa") == [Finding(Fault.REORDERED, 5)]


def test_what_the_source_has_not_is_foreign() -> None:
    assert compared("abc", "abxc") == [Finding(Fault.FOREIGN, 2)]


def test_each_fault_of_many_is_found_where_it_was_planted() -> None:
    chance = random.Random(7)
    for _ in range(50):
        source = list(range(2000))
        copy = list(source)
        gone, again, swapped = (chance.randrange(k, k + 300) for k in (100, 700, 1300))
        copy[swapped], copy[swapped + 1] = copy[swapped + 1], copy[swapped]
        copy[again:again] = copy[again - 5 : again]
        del copy[gone]
        found = Counter(finding.fault for finding in compared(source, copy))
        assert found == {Fault.MISSING: 1, Fault.DOUBLED: 5, Fault.REORDERED: 1}


def test_memory_stays_within_the_window_whatever_is_missing() -> None:
    comparison = CopyComparison(iter(seen(range(10_000))), iter(seen(range(0, 10_000, 50))), window=60)
    found = list(comparison.findings())
    assert [finding.offset for finding in found] == [n for n in range(10_000) if n % 50]
    assert comparison.compared == 200
    assert max(len(comparison._passed), len(comparison._recent), len(comparison._ahead)) <= 61
    assert comparison.next == 9951
