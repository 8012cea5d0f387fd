"""The same table for asyncio: nothing blocks the loop, and what is cancelled loses nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tables import filled, seen, send, take_first
from waiting import until

import ottla.aio
from ottla.errors import ConfigError
from ottla.fakes.scripted import ScriptedCluster

pytestmark = pytest.mark.feature(171)


def table_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.aio.Table[Any, Any]:
    defaults = {"bootstrap": "b0:1", "config": {"fetch.max.wait.ms": 50}, "_transport": cluster.connect}
    return ottla.aio.Table("t", **{**defaults, **arguments})


async def test_it_loads_follows_and_is_watched() -> None:
    cluster = filled([("a", 1), ("b", 2)])
    async with table_of(cluster) as table:
        await table.wait_until_caught_up(10)
        assert (table["a"], table.get("x", 0), "b" in table, len(table)) == (1, 0, True, 2)
        assert dict(table.items()) == {"a": 1, "b": 2} == dict(table)
        watch = table.watch()
        place = await asyncio.to_thread(send, cluster, [("a", None), ("c", 3)])
        await table.wait_for(place.partition, place.offset, 10)
        assert (table.caught_up, table.position, table.metrics["keys"]) == (True, {0: 4}, 2)
        assert [seen(await anext(watch))[:3], seen(await anext(watch))[:3]] == [("a", 1, None), ("c", None, 3)]
        assert await watch.poll(0.01) is None


async def test_a_hundred_who_wait_need_no_threads_and_are_cancelled_at_once() -> None:
    cluster = filled([("a", 1)])
    async with table_of(cluster) as table:
        await table.wait_until_caught_up(10)
        watch = table.watch()
        waiting = [asyncio.create_task(table.wait_for(0, 1, 30)) for _ in range(100)]
        changes = asyncio.create_task(anext(watch))
        cancelled = [asyncio.create_task(table.wait_for(0, 99, 30)) for _ in range(10)]
        await until(lambda: len(table._sync._view.goals) == 110)
        for task in (*cancelled, changes):
            task.cancel()
        await asyncio.gather(*cancelled, changes, return_exceptions=True)
        await asyncio.to_thread(send, cluster, [("a", 2)])
        await asyncio.gather(*waiting)
        assert seen(await anext(watch)) == ("a", 1, 2, 0, 1)
        assert not table._sync._view.goals
        assert not table._sync._view._listeners


async def test_a_wait_ends_in_time_and_with_the_table() -> None:
    table = table_of(filled([("a", 1)])).start()
    with pytest.raises(ottla.TimeoutError, match=r"\{0: 100\} within 0.05 s"):
        await table.wait_for(0, 99, 0.05)
    watch = table.watch()
    rest = asyncio.create_task(_rest(watch))
    waiting = asyncio.create_task(table.wait_for(0, 99, 30))
    await until(lambda: table.caught_up)
    await table.close()
    with pytest.raises(ConfigError, match="is closed"):
        await waiting
    assert await rest == []


async def _rest(watch: ottla.aio.Watch[Any, Any]) -> list[Any]:
    return [change async for change in watch]


def test_a_loop_that_was_closed_while_it_waited_costs_the_table_nothing() -> None:
    cluster = filled([("a", 1)])
    loop = asyncio.new_event_loop()
    table = table_of(cluster).start()
    loop.run_until_complete(table.wait_until_caught_up(10))
    waiting = loop.create_task(table.wait_for(0, 1, 30))
    loop.run_until_complete(until(lambda: table._sync._view._listeners))
    loop.close()
    place = send(cluster, [("a", 2)])
    table._sync.wait_for(0, place.offset, 10)
    table._sync.close()
    waiting._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio.gather does it, too


async def test_an_error_is_raised_by_who_waits() -> None:
    async with table_of(filled([("a", 1)]), key=lambda _: 1 / 0) as table:
        for _ in range(2):
            with pytest.raises(ottla.SerializationError, match="offset 0"):
                await table.wait_until_caught_up(10)


async def test_a_watch_goes_on_where_another_task_was_faster() -> None:
    table = table_of(filled([("a", 1), ("b", 2)]))
    watch = table.watch()
    async with table:
        take_first(watch._sync)
        assert (await anext(watch)).key == "b"


async def test_changes_that_are_there_leave_the_loop_to_others() -> None:
    cluster = filled([("a", 1)])
    async with table_of(cluster) as table:
        watch = table.watch()
        await asyncio.to_thread(send, cluster, [(f"k{n}", n) for n in range(20_000)])
        await table.wait_until_caught_up(10)
        other = asyncio.create_task(asyncio.sleep(0))
        async for _ in watch:
            if other.done():
                break
        assert len(watch._sync._waiting) > 0
