"""Parked fetches: woken by enough bytes or by a change, never lost, never left behind."""

from __future__ import annotations

import asyncio

import pytest

from ottla_broker.waiters import Waiters
from ottla_core.model import PartitionId, TopicId

ONE = PartitionId(TopicId(b"t" * 16), 1)
TWO = PartitionId(TopicId(b"t" * 16), 2)


def soon(seconds: float = 5.0) -> float:
    return asyncio.get_running_loop().time() + seconds


@pytest.mark.feature(133, 134)
async def test_bytes_of_all_its_partitions_add_up() -> None:
    waiters = Waiters()
    with waiters.parked([ONE, TWO], 100) as waiter:
        assert len(waiters) == 2
        waiters.on_append(ONE, 60)
        assert not await waiter.sleep(soon(0))
        waiters.on_append(TWO, 40)
        assert await waiter.sleep(soon())
    assert len(waiters) == 0


@pytest.mark.rule(55)
async def test_what_happens_between_the_look_and_the_sleep_is_not_lost() -> None:
    waiters = Waiters()
    with waiters.parked([ONE], 1) as waiter:
        waiters.on_append(ONE, 1)
        assert await waiter.sleep(soon())
        waiter.expect(10)
        assert not await waiter.sleep(soon(0))


@pytest.mark.rule(56)
async def test_a_change_of_the_partition_wakes_whoever_waits_for_it() -> None:
    waiters = Waiters()
    with waiters.parked([ONE], 1000) as one, waiters.parked([TWO], 1000) as two:
        waiters.wake(ONE)
        assert await one.sleep(soon())
        assert not await two.sleep(soon(0))


async def test_an_append_where_nobody_waits_is_nothing() -> None:
    waiters = Waiters()
    waiters.on_append(ONE, 10)
    waiters.wake(TWO)
    assert len(waiters) == 0
