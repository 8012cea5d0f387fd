"""Whose turn it is: urgent ones first, a bounded crowd, and nothing left behind by who was cancelled."""

from __future__ import annotations

import asyncio

import pytest

from ottla_controller.turns import Turns
from ottla_core.errors import ErrorCode, OttlaError


async def waiting(turns: Turns, name: str, order: list[str], *, urgent: bool = False) -> None:
    await turns.take(urgent=urgent)
    order.append(name)
    turns.give_back()


async def test_urgent_ones_go_first_and_the_others_in_their_order() -> None:
    turns, order = Turns(10), list[str]()
    await turns.take()
    tasks = [asyncio.create_task(waiting(turns, name, order, urgent=name == "urgent")) for name in ("a", "b", "urgent")]
    await asyncio.sleep(0)
    turns.give_back()
    await asyncio.gather(*tasks)
    assert order == ["urgent", "a", "b"]


async def test_beyond_the_bound_requests_are_refused_and_urgent_ones_are_not() -> None:
    turns, order = Turns(1), list[str]()
    await turns.take()
    tasks = [
        asyncio.create_task(waiting(turns, "a", order)),
        asyncio.create_task(waiting(turns, "u", order, urgent=True)),
    ]
    await asyncio.sleep(0)
    with pytest.raises(OttlaError, match="are already waiting for the controller") as refused:
        await turns.take()
    assert (refused.value.code, refused.value.retriable) == (ErrorCode.REQUEST_TIMED_OUT, True)
    turns.give_back()
    await asyncio.gather(*tasks)
    await turns.take()  # it is free again


async def test_who_is_cancelled_while_waiting_is_passed_over() -> None:
    turns, order = Turns(10), list[str]()
    await turns.take()
    gone, stays = (asyncio.create_task(waiting(turns, name, order)) for name in ("gone", "stays"))
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.sleep(0)
    turns.give_back()
    await stays
    assert order == ["stays"]


async def test_who_is_cancelled_just_as_its_turn_comes_gives_it_on() -> None:
    turns, order = Turns(10), list[str]()
    await turns.take()
    gone, stays = (asyncio.create_task(waiting(turns, name, order)) for name in ("gone", "stays"))
    await asyncio.sleep(0)
    turns.give_back()  # it is handed to `gone`, which has not run since
    gone.cancel()
    await stays
    assert order == ["stays"]


async def test_a_turn_that_is_given_back_before_a_cancelled_one_has_run_passes_it_over() -> None:
    """As with a deadline that strikes in the step in which the write before it ends."""
    turns, order = Turns(10), list[str]()
    await turns.take()
    gone, stays = (asyncio.create_task(waiting(turns, name, order)) for name in ("gone", "stays"))
    await asyncio.sleep(0)
    gone.cancel()
    turns.give_back()
    async with asyncio.timeout(20):
        await stays
        with pytest.raises(asyncio.CancelledError):
            await gone
        assert order == ["stays"]
        await turns.take()  # it is free again


async def test_a_turn_that_only_a_cancelled_one_waited_for_is_free() -> None:
    turns, order = Turns(10), list[str]()
    await turns.take()
    gone = asyncio.create_task(waiting(turns, "gone", order))
    await asyncio.sleep(0)
    gone.cancel()
    turns.give_back()
    async with asyncio.timeout(20):
        await turns.take()
    assert order == []
