"""A bound of bytes a second."""

from __future__ import annotations

import pytest

from ottla_broker.compaction.throttle import Throttle


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize("pieces", [1, 10, 10_000])
def test_it_takes_as_long_as_its_bytes_need(pieces: int) -> None:
    clock = Clock()
    throttle = Throttle(1000, clock=lambda: clock.now, sleep=clock.sleep)
    for _ in range(pieces):
        throttle.take(10_000 // pieces)
    assert clock.now == pytest.approx(110, abs=0.02)
    clock.now += 60
    throttle.take(1000)
    assert clock.now == pytest.approx(171, abs=0.02), "what was not used before is not used later"


def test_without_a_bound_it_never_sleeps() -> None:
    clock = Clock()
    Throttle(0, clock=lambda: clock.now, sleep=clock.sleep).take(1 << 40)
    assert clock.now == 100
