"""An alarm goes off at the earliest of its times, whichever of them have passed already."""

from __future__ import annotations

import asyncio

import pytest
from waiting import until

from ottla_core.rpc.alarm import Alarm
from ottla_core.rpc.deadlines import NEVER


class Rung:
    """An alarm that counts how often it has gone off."""

    def __init__(self) -> None:
        self.count = 0
        self.loop = asyncio.get_running_loop()
        self.alarm = Alarm(self.loop, self._on_time)

    def _on_time(self) -> None:
        self.count += 1

    def set_in(self, seconds: float) -> None:
        self.alarm.set(self.loop.time() + seconds)


@pytest.mark.story("alarm-asks-a-timer-for-its-time")
@pytest.mark.parametrize("due_in_s", [-1.0, 0.0, 0.0001])
async def test_a_time_that_has_passed_lets_others_be_set(due_in_s: float) -> None:
    rung = Rung()
    rung.set_in(due_in_s)
    for later_s in (60.0, due_in_s, -2.0, NEVER):
        rung.set_in(later_s)
    await until(lambda: rung.count == 1)
    rung.set_in(0.001)  # once it has gone off, every time is a new one
    await until(lambda: rung.count == 2)


async def test_an_earlier_time_takes_the_place_of_a_later_one() -> None:
    rung = Rung()
    rung.set_in(60.0)
    rung.set_in(0.01)
    rung.set_in(60.0)
    await until(lambda: rung.count == 1)


async def test_a_cancelled_alarm_stays_silent_until_it_is_set_again() -> None:
    rung = Rung()
    rung.set_in(0.0)
    rung.alarm.cancel()
    rung.set_in(0.02)
    await until(lambda: rung.count > 0)
    assert rung.count == 1
    rung.alarm.set(NEVER)
    rung.alarm.cancel()
