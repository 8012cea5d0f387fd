"""Background work with one task for each key."""

from __future__ import annotations

import asyncio
import logging

import pytest
from waiting import until

from ottla_core.coordination.effects import not_coordinator
from ottla_core.errors import ErrorCode, OttlaError
from ottla_group_coordinator.keyed_work import KeyedWork


class Work:
    """Work that goes on once a test says so, and fails with the errors that the test adds."""

    def __init__(self) -> None:
        self.done: list[tuple[str, int]] = []
        self.errors: list[Exception] = []
        self.goes_on = asyncio.Event()

    async def __call__(self, key: str, asked: int) -> None:
        self.done.append((key, asked))
        await self.goes_on.wait()
        if self.errors:
            raise self.errors.pop(0)


@pytest.mark.story("requests-lost-as-their-work-ends")
async def test_what_is_asked_for_during_the_work_is_done_after_it() -> None:
    work = Work()
    keyed = KeyedWork("counting", work)
    keyed.ask("a", 1)
    await until(lambda: bool(work.done))
    keyed.ask("a", 2)
    keyed.ask("a", 3)
    keyed.ask("b", 4)
    await until(lambda: len(work.done) == 2)
    work.goes_on.set()
    await until(lambda: not keyed._tasks)
    assert work.done == [("a", 1), ("b", 4), ("a", 3)]


async def test_requests_are_merged_as_the_work_says() -> None:
    work = Work()
    work.goes_on.set()
    keyed = KeyedWork("counting", work, merged=lambda former, new: former + new)
    for asked in (1, 2, 3):
        keyed.ask("a", asked)
    await until(lambda: not keyed._tasks)
    assert work.done == [("a", 6)]


async def test_work_that_fails_takes_nothing_along(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    work = Work()
    keyed = KeyedWork("counting", work)
    work.errors = [not_coordinator(), OttlaError(ErrorCode.RECORD_LIST_TOO_LARGE, "too much"), ValueError()]
    for asked in range(4):
        keyed.ask("a", asked)
        await until(lambda asked=asked: ("a", asked) in work.done)
        work.goes_on.set()
    await until(lambda: not keyed._tasks)
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING", "ERROR"]
    assert all(record.getMessage().startswith("counting a ") for record in caplog.records)


async def test_a_stop_ends_all_work() -> None:
    work = Work()
    keyed = KeyedWork("counting", work)
    keyed.ask("a", 1)
    keyed.ask("b", 2)
    await until(lambda: len(work.done) == 2)
    tasks = list(keyed._tasks.values())
    await keyed.stop()
    assert all(task.done() for task in tasks)
