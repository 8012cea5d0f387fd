"""Windows follow each other without a gap, and the total is their sum."""

from __future__ import annotations

import pytest

from ottla.bench.measurement import Measurement


def test_a_window_is_over_after_its_time_and_the_next_one_begins_there() -> None:
    measured = Measurement(100.0, 5.0)
    measured.window.sent = 10
    assert measured.roll(104.9) is None
    over = measured.roll(105.2)
    assert over is not None
    assert (over.began_at, over.ended_at, over.sent) == (100.0, 105.2, 10)
    assert (measured.window.began_at, measured.window.sent) == (105.2, 0)


def test_the_total_counts_everything_and_ends_with_the_last_window() -> None:
    measured = Measurement(0.0, 5.0)
    for end, latency_us in ((5.0, 1_000), (10.0, 3_000), (14.0, 2_000)):
        measured.window.sent, measured.window.sent_bytes, measured.window.failed = 2, 200, 1
        measured.window.received, measured.window.received_bytes, measured.window.backlog = 1, 100, round(end)
        measured.window.publish.add(latency_us, times=2)
        measured.window.end_to_end.add(latency_us)
        measured.window.delay.add(latency_us)
        if end < 14:
            assert measured.roll(end) is not None
    measured.finish(14.0)
    total = measured.total
    assert (total.seconds, total.sent, total.sent_bytes, total.failed) == (14.0, 6, 600, 3)
    assert (total.received, total.received_bytes, total.backlog) == (3, 300, 14)
    assert (total.publish.count, total.publish.mean_us, total.publish.max_us) == (6, 2_000, 3_000)
    assert total.end_to_end.count == total.delay.count == 3


@pytest.mark.parametrize(("ended_at", "windows"), [(10.1, 2), (12.4, 2), (12.6, 3)])
def test_a_last_window_too_short_for_a_rate_counts_in_the_total_alone(ended_at: float, windows: int) -> None:
    measured = Measurement(0.0, 5.0)
    measured.roll(5.0)
    measured.roll(10.0)
    measured.window.sent = 7
    measured.finish(ended_at)
    assert len(measured.windows) == windows
    assert measured.total.sent == 7
    assert measured.total.ended_at == ended_at


def test_a_run_shorter_than_a_window_has_one() -> None:
    measured = Measurement(0.0, 10.0)
    measured.window.sent = 3
    measured.finish(0.5)
    assert [window.sent for window in measured.windows] == [3]
    assert measured.windows[0].seconds == 0.5
