"""How much a round reads: what its handlers finish in a third of the transaction's timeout."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.machines.round_pace import RoundPace


def handled(pace: RoundPace, now: float, count: int, each_s: float) -> float:
    """Read and handle so many records, one after the other. Return when that is over."""
    pace.on_read(now, count)
    for left in reversed(range(count)):
        now += each_s
        pace.on_finished(now, left)
    return now


def test_before_a_rate_is_known_each_handler_gets_one_record() -> None:
    pace = RoundPace(8, 60.0)
    assert pace.room(5.0, 0) == 8
    pace.begin(5.0)
    assert (pace.room(5.0, 3), pace.room(5.0, 8)) == (5, 0)


def test_what_is_read_fits_the_time_that_is_left() -> None:
    pace = RoundPace(1, 60.0)
    pace.begin(0.0)
    now = handled(pace, 0.0, 10, 0.5)
    assert pace.room(now, 0) == 30  # 15 s are left, at two a second
    assert not pace.is_over(now)
    assert pace.is_over(20.0)
    assert pace.room(20.0, 1) == 0


def test_time_without_records_says_nothing_about_the_rate() -> None:
    pace = RoundPace(1, 60.0)
    pace.begin(0.0)
    handled(pace, 0.0, 10, 0.1)
    pace.end(15.0, committed=True)
    pace.begin(100.0)
    assert pace.room(100.0, 0) == 200


@pytest.mark.parametrize("committed", [True, False])
def test_a_round_that_was_too_late_is_half_as_large_until_one_is_in_time(committed: bool) -> None:
    pace = RoundPace(8, 60.0)
    pace.begin(0.0)
    handled(pace, 0.0, 50, 0.5)
    assert pace.end(60.0, committed=committed) is not committed
    assert pace.room(61.0, 0) == (40 if committed else 20)
    pace.begin(61.0)
    pace.end(62.0, committed=True)
    assert pace.room(63.0, 0) == 40


@pytest.mark.story("repeated-rounds-that-read-on")
def test_a_round_that_is_handled_again_reads_as_many_records_as_before() -> None:
    pace = RoundPace(1, 60.0)
    pace.begin(0.0)
    now = handled(pace, 0.0, 10, 0.01)
    assert not pace.end(now, committed=False)
    pace.begin(now)
    assert pace.room(now, 0) == 10
    now = handled(pace, now, 10, 0.01)
    assert pace.room(now, 0) == 0
    pace.end(now, committed=True)
    assert pace.room(now, 0) > 100


def test_a_record_waits_in_its_round_while_the_round_lasts() -> None:
    pace = RoundPace(8, 60.0)
    pace.begin(0.0)
    assert pace.may_wait(5.0, 15.0)
    assert not pace.may_wait(5.1, 15.0)


@given(each_s=st.floats(0.001, 15), timeout_s=st.floats(1, 600), backlog=st.integers(1, 300))
def test_a_steady_handler_gets_through_any_backlog_and_is_never_late(
    each_s: float, timeout_s: float, backlog: int
) -> None:
    """Apart from a record that takes longer than a third of the timeout by itself."""
    pace, now = RoundPace(1, timeout_s), 0.0
    while backlog > 0:
        pace.begin(began := now)
        while backlog > 0 and not pace.is_over(now) and (room := min(backlog, pace.room(now, 0))) > 0:
            now = handled(pace, now, room, each_s)
            backlog -= room
        assert now - began <= timeout_s / 3 + 2 * each_s
        pace.end(now, committed=True)
