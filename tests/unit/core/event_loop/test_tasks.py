"""Ending tasks: all of them, whatever one of them died of."""

from __future__ import annotations

import asyncio

import pytest

from ottla_core.event_loop.tasks import end_tasks


async def test_tasks_end_though_one_before_them_has_died_and_their_errors_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended: list[int] = []

    async def live(number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01 * number)
            ended.append(number)

    async def die(error: Exception) -> None:
        raise error

    tasks = [asyncio.create_task(work) for work in (live(0), die(KeyError("first")), live(1), die(ValueError()))]
    await asyncio.sleep(0)
    await end_tasks(tasks)
    assert [type(record.exc_info[1]) for record in caplog.records if record.exc_info] == [KeyError, ValueError]
    assert ended == [0, 1]
    assert all(task.done() for task in tasks)
    await end_tasks([])
