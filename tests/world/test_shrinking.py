"""Shrinking finds what is enough for a failure, with few attempts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.world.findings import kind_of
from tests.world.shrinking import fewest, least


@pytest.mark.parametrize("enough", [[], [0], [99], [3, 4], [0, 50, 99], [7, 21, 22, 23, 80]])
def test_what_is_enough_is_found_among_a_hundred(enough: list[int]) -> None:
    asked: list[Sequence[int]] = []

    def is_red(items: Sequence[int]) -> bool:
        asked.append(items)
        return set(enough) <= set(items)

    assert fewest(range(100), is_red) == enough
    assert len(asked) < 120


def test_nothing_can_be_left_out_of_what_is_found() -> None:
    def is_red(items: Sequence[int]) -> bool:
        return len(items) >= 4 and sum(items) % 3 == 0

    found = fewest(range(1, 31), is_red)
    assert is_red(found)
    assert not any(is_red([*found[:n], *found[n + 1 :]]) for n in range(len(found)))


def test_a_caller_that_has_no_time_left_gets_what_was_found_so_far() -> None:
    left = iter([False, True])
    assert fewest(range(8), lambda items: next(left, False)) == [4, 5, 6, 7]


@pytest.mark.parametrize("enough", [0.3, 5.0, 39.9, 40.0])
def test_the_least_red_number_is_found(enough: float) -> None:
    assert enough <= least(40.0, 0.2, lambda number: number >= enough) <= enough + 0.3


def test_two_runs_of_one_defect_are_of_one_kind() -> None:
    one = "b'v12' was committed at offset 12, which has (b'k1', b'v13')"
    assert kind_of(one) == kind_of("b'v345' was committed at offset 7, which has (b'k9', b'v1')")
    assert kind_of(one) != kind_of("b'v12' was committed at offset 12 and is gone")
