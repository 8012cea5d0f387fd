"""What was gathered is answered, whatever comes of the call that carries it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from waiting import until

from ottla_core.rpc.gathered import Gathered


async def test_a_call_has_the_longest_time_that_any_of_its_requests_has() -> None:
    limits: list[float] = []

    async def call(requests: list[int], timeout_s: float) -> Sequence[int]:
        limits.append(timeout_s)
        return requests

    gathered = Gathered(call, 0.01, most=10, weigh=lambda each: 1)
    assert [*await asyncio.gather(gathered.ask(1, 0.5), gathered.ask(2, 2.0), gathered.ask(3, 1.0))] == [1, 2, 3]
    assert limits == [2.0]


@pytest.mark.parametrize("responses", [None, [1]])
async def test_a_bug_is_heard_by_all_who_wait(responses: list[int] | None) -> None:
    """Such as too few responses: nobody waits for ever."""

    async def call(requests: list[int], timeout_s: float) -> Sequence[int]:
        if responses is None:
            raise ZeroDivisionError
        return responses

    gathered = Gathered(call, 0.01, most=10, weigh=lambda each: 1)
    asked = [gathered.ask(n, 1.0) for n in range(2)]
    async with asyncio.timeout(10):
        outcomes = await asyncio.gather(*asked, return_exceptions=True)
    expected = ZeroDivisionError if responses is None else ValueError
    assert [type(each) for each in outcomes] == [expected, expected]


class Calls:
    """Each waits until it is let go."""

    def __init__(self, busy_s: float) -> None:
        self.carried: list[list[int]] = []
        self._open: list[asyncio.Future[None]] = []
        self.gathered = Gathered(self._call, 0.0, busy_s=busy_s, most=10, weigh=lambda each: 1)

    async def _call(self, requests: list[int], timeout_s: float) -> Sequence[int]:
        self.carried.append(requests)
        self._open.append(asyncio.get_running_loop().create_future())
        await self._open[-1]
        return requests

    def ask(self, *requests: int) -> list[asyncio.Task[int]]:
        return [asyncio.create_task(self.gathered.ask(each, 1.0)) for each in requests]

    def let_go(self, number: int, error: Exception | None = None) -> None:
        self._open[number].set_result(None) if error is None else self._open[number].set_exception(error)


@pytest.mark.parametrize("error", [None, OSError("cut")])
async def test_what_comes_while_a_call_is_under_way_goes_when_it_is_back(error: OSError | None) -> None:
    calls = Calls(busy_s=1_000.0)
    [first] = calls.ask(1)
    await until(lambda: calls.carried)
    [second, given_up, third] = calls.ask(2, 3, 4)
    for _ in range(10):
        await asyncio.sleep(0)
    assert calls.carried == [[1]]
    given_up.cancel()
    calls.let_go(0, error)
    await until(lambda: len(calls.carried) == 2)
    assert calls.carried[1] == [2, 4]
    calls.let_go(1)
    assert [*await asyncio.gather(first, second, third, return_exceptions=True)] == [error or 1, 2, 4]
    calls.ask(5)
    await until(lambda: len(calls.carried) == 3)


async def test_a_call_that_is_slow_keeps_the_next_for_a_moment_and_no_other() -> None:
    calls = Calls(busy_s=0.02)
    calls.ask(1)
    await until(lambda: calls.carried)
    calls.ask(2)
    await until(lambda: len(calls.carried) == 2)
    calls.let_go(1)
    [third] = calls.ask(3)
    await until(lambda: len(calls.carried) == 3)
    calls.let_go(2)
    assert await third == 3
