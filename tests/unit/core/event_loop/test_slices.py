"""Long work in slices: the result is that of the plain loop, and others have their turns in between."""

from __future__ import annotations

import asyncio
import time

import pytest
from turns import turns_during

from ottla_core.event_loop.slices import SLICE_S, Slice, few_at_once, sliced


def busy(number: int) -> int:
    ends_at = time.perf_counter() + SLICE_S / 4
    while time.perf_counter() < ends_at:
        pass
    return number * 2


async def test_sliced_gives_what_the_loop_gives_and_lets_others_in() -> None:
    work = asyncio.create_task(sliced(busy, range(200)))
    turns = await turns_during(work)
    assert work.result() == [2 * n for n in range(200)]
    assert turns >= 10


async def test_many_times_no_elements_let_others_in() -> None:
    async def many_times() -> list[int]:
        time_slice = Slice()
        for number in range(200):
            busy(number)
            await sliced(busy, [], time_slice)
        return []

    assert await turns_during(asyncio.create_task(many_times())) >= 10


@pytest.mark.parametrize("at_once", [1, 2, 50])
async def test_few_at_once_are_under_way_and_results_are_in_order(at_once: int) -> None:
    under_way, most = 0, 0

    async def work(number: int) -> int:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return busy(number)

    working = asyncio.create_task(few_at_once(work, range(200), at_once=at_once))
    turns = await turns_during(working)
    assert working.result() == [2 * n for n in range(200)]
    assert most == at_once
    assert turns >= 4


async def test_nothing_is_done_with_nothing() -> None:
    assert await sliced(busy, []) == []
    assert await few_at_once(asyncio.sleep, [], at_once=3) == []
