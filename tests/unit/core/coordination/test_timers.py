"""A clock that leaves out pauses, and timers by key."""

from __future__ import annotations

from ottla_core.coordination.timers import GAP_S, NEVER, LoopClock, Timers


def test_the_clock_stands_still_while_the_process_does() -> None:
    clock = LoopClock(50.0)
    assert clock.on_time(50.5) == 50.5
    assert clock.on_time(110.5) == 50.5  # a minute of SIGSTOP
    assert clock.gap_s == 60.0
    assert clock.on_time(110.75) == 50.75
    assert clock.gap_s == 0.0
    assert clock.monotonic_at(51.75) == 111.75


def test_what_a_busy_loop_does_is_no_gap() -> None:
    clock = LoopClock(0.0)
    assert clock.on_time(GAP_S) == GAP_S
    assert clock.gap_s == 0.0


def test_timers_go_off_in_their_order_and_once() -> None:
    timers = Timers()
    timers.set("late", 3.0)
    timers.set("early", 1.0)
    timers.set("also early", 1.0)
    assert timers.next_at == 1.0
    assert timers.pop_due(0.9) is None
    assert [timers.pop_due(2.0) for _ in range(3)] == ["early", "also early", None]
    assert timers.pop_due(3.0) == "late"
    assert (timers.next_at, len(timers)) == (NEVER, 0)


def test_a_key_has_one_timer_which_moves_and_can_be_cancelled() -> None:
    timers = Timers()
    timers.set("session", 1.0)
    timers.set("session", 5.0)
    assert timers.pop_due(4.0) is None
    timers.set("session", 2.0)
    assert timers.pop_due(4.0) == "session"
    assert timers.pop_due(6.0) is None
    timers.set("session", 7.0)
    timers.set("session", None)
    timers.set("never set", None)
    assert timers.next_at == NEVER


def test_all_timers_can_be_moved_at_once() -> None:
    timers = Timers()
    timers.set("moved before", 9.0)
    timers.set("moved before", 2.0)
    timers.set("late", 3.0)
    timers.shift(10.0)
    assert timers.pop_due(11.9) is None
    assert [timers.pop_due(13.0) for _ in range(3)] == ["moved before", "late", None]


def test_a_timer_that_moves_for_ever_takes_no_room() -> None:
    timers = Timers()
    for n in range(10_000):
        timers.set("session", float(n))
        timers.set("other", 1e9 + n)
    assert len(timers._heap) < 200
    assert timers.next_at == 9999.0
