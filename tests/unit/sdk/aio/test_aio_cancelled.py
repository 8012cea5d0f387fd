"""A reading of ottla.aio.Consumer that is cancelled: what it had gathered is as if nobody had."""

import asyncio
from typing import Any

import pytest
from scripted_groups import T, committed, fill, filled, number

import ottla.aio
from ottla.client.condition import Condition
from ottla.fakes.scripted import ScriptedCluster
from ottla_core.kafka.messages import FetchRequest

WAIT = 10.0


def consumer_of(cluster: ScriptedCluster, **arguments: Any) -> ottla.aio.Consumer[Any, Any]:
    defaults = {"bootstrap": "b0:1", "fetch_max_wait": 0.05, "value": number}
    group = {"group": "g", "auto_offset_reset": "earliest"} if "start" not in arguments else {}
    return ottla.aio.Consumer("t", _transport=cluster.connect, **{**defaults, **group, **arguments})


async def cancelled(consumer: ottla.aio.Consumer[Any, Any], cluster: ScriptedCluster, count: int) -> None:
    """A poll that waits at the end of the log is cancelled; then records come, and it gathers them all the same."""
    task = asyncio.create_task(consumer.poll(WAIT))
    asked = len(cluster.requests(FetchRequest))
    await asyncio.to_thread(cluster.until, lambda: len(cluster.requests(FetchRequest)) > asked)
    under_way = consumer._under_way
    assert under_way is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(fill, cluster, {0: count})
    await asyncio.wait([under_way], timeout=WAIT)
    assert len(under_way.result()) == count


@pytest.mark.story("cancelled-poll-is-committed")
async def test_a_commit_after_a_cancelled_poll_covers_what_was_handed_out() -> None:
    cluster = filled({0: 3})
    async with consumer_of(cluster, commit="manual") as consumer:
        assert (await consumer.poll(WAIT)).values() == [0, 1, 2]
        await cancelled(consumer, cluster, 4)
        await consumer.commit()
        assert committed(cluster) == {0: 3}
        assert await consumer.position(T[0]) == 3
        assert [r.offset for r in await consumer.poll(WAIT)] == [3, 4, 5, 6]
        await consumer.commit()
    assert committed(cluster) == {0: 7}


@pytest.mark.story("cancelled-poll-is-committed")
async def test_the_end_of_a_block_after_a_cancelled_poll_commits_what_was_handed_out() -> None:
    cluster = filled({0: 3})
    async with consumer_of(cluster) as consumer:
        assert (await consumer.poll(WAIT)).values() == [0, 1, 2]
        await cancelled(consumer, cluster, 4)
    assert committed(cluster) == {0: 3}


@pytest.mark.story("cancelled-poll-undoes-a-seek")
@pytest.mark.parametrize("where", [{"start": "earliest"}, {}], ids=["alone", "group"])
async def test_a_seek_after_a_cancelled_poll_holds(where: dict[str, str]) -> None:
    cluster = filled({0: 3})
    async with consumer_of(cluster, **where) as consumer:
        assert (await consumer.poll(WAIT)).values() == [0, 1, 2]
        await cancelled(consumer, cluster, 4)
        await consumer.seek(T[0], 1)
        batch = await consumer.poll(WAIT)
        assert batch[0].offset == 1
        assert await consumer.position(T[0]) == batch[-1].offset + 1


async def test_what_a_cancelled_poll_had_gathered_comes_with_the_next_one() -> None:
    cluster = filled({0: 3})
    async with consumer_of(cluster, start="earliest") as consumer:
        await consumer.poll(WAIT)
        await cancelled(consumer, cluster, 4)
        fetched = len(cluster.requests(FetchRequest))
        batch = await consumer.poll(WAIT)
        assert [r.offset for r in batch] == [3, 4, 5, 6]
        assert len(cluster.requests(FetchRequest)) <= fetched + 1, "it was not fetched again"


async def test_a_call_does_not_wait_for_the_batch_that_nobody_wants_any_more() -> None:
    cluster = filled({0: 3})
    async with consumer_of(cluster, start="earliest") as consumer:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(anext(aiter(consumer.batches(100, max_wait=60))), 0.5)
        assert await asyncio.wait_for(consumer.position(T[0]), 2.0) == 0
        assert len(await consumer.poll(WAIT)) == 3


async def test_a_task_that_commits_beside_the_reading_takes_nothing_away_and_gets_its_turn() -> None:
    cluster = filled({0: 2000}, batch_size=300)
    got: list[int] = []
    commits = 0

    async def commit() -> None:
        nonlocal commits
        while True:
            await consumer.commit()
            assert committed(cluster).get(0, 0) <= len(got)
            commits += 1

    async with consumer_of(cluster, commit="manual") as consumer:
        committing = asyncio.create_task(commit())
        while len(got) < 2000:
            got += [r.offset for r in await consumer.poll(WAIT, max_records=40)]
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
    assert got == list(range(2000))
    assert commits > 10


def test_an_interrupt_can_not_come_between_taking_a_lock_and_its_block() -> None:
    """Where `__enter__` is Python, it may be interrupted after it has taken the lock: nobody gives it back then."""
    assert not hasattr(Condition.__enter__, "__code__")
    assert not hasattr(Condition.__exit__, "__code__")
