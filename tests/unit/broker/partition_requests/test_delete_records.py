"""DeleteRecords of one partition over several brokers: who has to follow before it is answered, and who is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from logs import SMALL, values_batch
from replicas import PARTITION, Brokers

from ottla_broker.partition_requests.delete_records import delete_records
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.log_config import LogConfig
from ottla_core.cluster.image import Partition
from ottla_core.errors import ErrorCode, OttlaError

LED = Partition(replicas=(1, 2, 3), leader=1, leader_epoch=1, isr=(1, 2, 3))


async def replicated(directory: Path, config: LogConfig = SMALL) -> Brokers:
    """Three records, committed and known to be so everywhere."""
    brokers = Brokers(directory, (1, 2, 3), config)
    brokers.apply(LED)
    for value in (b"a", b"b", b"c"):
        brokers.leading(1).append(values_batch(value))
    for follower in (2, 3, 2, 3):
        await brokers.fetch(follower, 1)
    return brokers


@asynccontextmanager
async def deleting(replica: Replica, offset: int, limit_s: float = 30.0) -> AsyncIterator[asyncio.Task[int]]:
    """A call that has begun and waits for the followers."""
    deadline = asyncio.get_running_loop().time() + limit_s
    call = asyncio.create_task(delete_records(replica.led_in(None), offset, deadline))
    await asyncio.sleep(0)
    assert not call.done()
    try:
        yield call
    finally:
        call.cancel()


async def ended(call: asyncio.Task[int]) -> int:
    return await asyncio.wait_for(call, 20)


async def test_it_is_answered_when_the_last_follower_has_told_of_it(tmp_path: Path) -> None:
    brokers = await replicated(tmp_path)
    async with deleting(brokers.replicas[1], 2) as call:
        for follower in (2, 3, 2):  # each is told by one fetch, and tells by the next
            await brokers.fetch(follower, 1)
            await asyncio.sleep(0)
            assert not call.done()
        await brokers.fetch(3, 1)
        assert await ended(call) == 2
        assert [brokers.replicas[n].log.log_start_offset for n in (1, 2, 3)] == [2, 2, 2]
    assert await delete_records(brokers.leading(1), 1, 0) == 2, "what is done needs no time"


async def test_who_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    brokers = await replicated(tmp_path)
    async with deleting(brokers.replicas[1], -1) as call:
        for _ in range(2):
            await brokers.fetch(2, 1)
        await asyncio.sleep(0)
        assert not call.done()
        del brokers.live[3]
        brokers.leading(1).on_tick()
        assert await ended(call) == 3


async def test_a_new_leader_waits_until_everybody_has_fetched(tmp_path: Path) -> None:
    brokers = await replicated(tmp_path)
    brokers.apply(replace(LED, leader=2, leader_epoch=2))
    async with deleting(brokers.replicas[2], 0) as call:
        await brokers.fetch(1, 2)
        await asyncio.sleep(0)
        assert not call.done()
        await brokers.fetch(3, 2)
        assert await ended(call) == 0


async def test_time_is_over(tmp_path: Path) -> None:
    brokers = await replicated(tmp_path)
    async with deleting(brokers.replicas[1], 2, limit_s=0.01) as call:
        with pytest.raises(OttlaError) as told:
            await ended(call)
    assert told.value.code == ErrorCode.REQUEST_TIMED_OUT
    assert brokers.replicas[1].log.log_start_offset == 2, "here it is done"
    assert len(brokers.around[1].deletions) == 0


@pytest.mark.parametrize("change", ["deposed", "closing"])
async def test_a_change_ends_the_wait(tmp_path: Path, change: str) -> None:
    brokers = await replicated(tmp_path)
    async with deleting(brokers.replicas[1], 2) as call:
        if change == "deposed":
            brokers.apply(replace(LED, leader=2, leader_epoch=2), 1)
        else:
            brokers.around[1].deletions.close()
        with pytest.raises(OttlaError) as told:
            await ended(call)
    expected = {"deposed": ErrorCode.NOT_LEADER_OR_FOLLOWER, "closing": ErrorCode.REQUEST_TIMED_OUT}
    assert told.value.code == expected[change]


@pytest.mark.parametrize("offset", [-2, 4])
async def test_an_offset_that_is_not_there(tmp_path: Path, offset: int) -> None:
    brokers = await replicated(tmp_path)
    with pytest.raises(OttlaError) as told:
        await delete_records(brokers.leading(1), offset, 0)
    assert told.value.code == ErrorCode.OFFSET_OUT_OF_RANGE


async def test_a_topic_that_is_only_compacted_keeps_its_records(tmp_path: Path) -> None:
    brokers = await replicated(tmp_path, replace(SMALL, deletes=False))
    with pytest.raises(OttlaError) as told:
        await delete_records(brokers.leading(1), 1, 0)
    assert told.value.code == ErrorCode.POLICY_VIOLATION
    assert brokers.replicas[1].log.log_start_offset == 0


async def test_an_internal_topic_is_the_services_own(tmp_path: Path) -> None:
    brokers = await replicated(tmp_path)
    internal = Replica(PARTITION, "__consumer_offsets", brokers.replicas[1].log, brokers.around[1])
    internal.become_leader(LED)
    with pytest.raises(OttlaError) as told:
        await delete_records(internal.led_in(None), 0, 0)
    assert told.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION
