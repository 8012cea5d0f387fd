"""What was gathered is answered, whatever comes of the call that carries it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

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
