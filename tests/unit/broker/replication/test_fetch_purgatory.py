"""Parked fetches: woken by enough bytes or by a change, never lost, never left behind."""

from __future__ import annotations

import asyncio

import pytest

from ottla_broker.machines.fetch_session import FetchSession
from ottla_broker.replication.fetch_purgatory import DelayedFetch, FetchPurgatory
from ottla_core.model import PartitionId, TopicId

ONE = PartitionId(TopicId(b"t" * 16), 1)
TWO = PartitionId(TopicId(b"t" * 16), 2)


def soon(seconds: float = 5.0) -> float:
    return asyncio.get_running_loop().time() + seconds


@pytest.mark.feature(134)
async def test_bytes_of_all_its_partitions_add_up() -> None:
    waiters = FetchPurgatory()
    with waiters.delayed([ONE, TWO]) as waiter:
        assert len(waiters) == 2
        waiters.on_bytes(ONE, 60)
        assert not await waiter.sleep(soon(0), 100)
        waiters.on_bytes(TWO, 40)
        assert await waiter.sleep(soon(), 100)
    assert len(waiters) == 0


@pytest.mark.rule(55)
async def test_what_happens_between_the_mark_and_the_sleep_is_not_lost() -> None:
    waiters = FetchPurgatory()
    with waiters.delayed([ONE]) as waiter:
        waiters.on_bytes(ONE, 1)
        assert await waiter.sleep(soon(), 1)
        waiter.mark()
        assert not await waiter.sleep(soon(0), 1), "what came before the mark was in the look"
        waiter.mark()
        waiters.wake(ONE)
        assert await waiter.sleep(soon(), 1)


@pytest.mark.rule(55)
async def test_who_sleeps_is_woken_by_the_byte_that_was_missing() -> None:
    waiters = FetchPurgatory()
    with waiters.delayed([ONE]) as waiter:
        sleeping = asyncio.create_task(waiter.sleep(soon(), 3))
        await asyncio.sleep(0)
        waiters.on_bytes(ONE, 2)
        await asyncio.sleep(0)
        assert not sleeping.done()
        waiters.on_bytes(ONE, 1)
        assert await sleeping


@pytest.mark.rule(56)
async def test_a_change_of_the_partition_wakes_whoever_waits_for_it() -> None:
    waiters = FetchPurgatory()
    with waiters.delayed([ONE]) as one, waiters.delayed([TWO]) as two:
        waiters.wake(ONE)
        assert await one.sleep(soon(), 1000)
        assert not await two.sleep(soon(0), 1000)


async def test_a_broker_that_drains_lets_go_of_all_and_parks_nobody_any_more() -> None:
    waiters = FetchPurgatory()
    with waiters.delayed([ONE]) as waiter:
        sleeping = asyncio.create_task(waiter.sleep(soon(), 1000))
        await asyncio.sleep(0)
        waiters.close()
        assert not await sleeping
    with waiters.delayed([ONE]) as late:
        assert not await late.sleep(soon(), 1000)


async def test_an_append_where_nobody_waits_is_nothing() -> None:
    waiters = FetchPurgatory()
    waiters.on_bytes(ONE, 10)
    waiters.wake(TWO)
    assert len(waiters) == 0


async def test_a_session_of_thousands_of_partitions_ends_in_more_than_one_turn() -> None:
    waiters = FetchPurgatory()
    session: FetchSession[PartitionId, None, DelayedFetch] = FetchSession(waiters, DelayedFetch())
    for number in range(10_000):
        partition = PartitionId(ONE.topic_id, number)
        session.name(partition, None)
        session.look_at(partition, partition)
    session.end()
    assert session.parked.is_closed
    left = [len(waiters)]
    while left[-1]:
        waiters.wake(PartitionId(ONE.topic_id, 9_999))
        await asyncio.sleep(0)
        left.append(len(waiters))
        assert 0 < left[-2] - left[-1] <= 1_000
    assert left[0] == 9_000
    assert not waiters.partitions
