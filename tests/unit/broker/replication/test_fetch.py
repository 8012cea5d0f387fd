"""A consumer's fetch over several partitions: where it looks, how often, and what it keeps meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from led import ALONE, Led
from waiting import until

from ottla_broker.machines.fetch_session import FetchSession
from ottla_broker.replication.fetch import Consumers, FetchLimits, FetchResult, PartitionFetch, fetch, fetch_due, itself
from ottla_broker.replication.fetch_purgatory import DelayedFetch
from ottla_core.errors import ErrorCode
from ottla_core.model import PartitionId

LONG = FetchLimits(60, 1, 1 << 20)
AT_ONCE = FetchLimits(0, 1, 1 << 20)


@pytest.fixture
def led(tmp_path: Path) -> Led:
    return Led(tmp_path)


def consumers(led: Led) -> Consumers:
    return Consumers(cast(Any, led), None, any_replica=False)


def wants(led: Led, offset: int = 0) -> list[PartitionFetch]:
    return [PartitionFetch(led.id(n), 1, offset, 1 << 20) for n in range(led.count)]


class Reader:
    """A consumer in a session: what it has, and where it is, by partition."""

    def __init__(self, led: Led) -> None:
        self.led = led
        self.session: FetchSession[PartitionId, PartitionFetch, DelayedFetch] = FetchSession(
            led.consumers, DelayedFetch()
        )
        for want in wants(led):
            self.session.name(want.id, want)

    async def fetch(self, limits: FetchLimits = AT_ONCE, *, whole: bool = False) -> dict[int, FetchResult]:
        looked = await fetch_due(self.session, itself, consumers(self.led), limits, whole=whole)
        return {each.partition: result for each, result in looked.items()}

    def move(self, number: int, offset: int) -> None:
        """It has what comes before `offset`, and names the partition again."""
        each = self.led.id(number)
        self.session.name(each, self.session.requested[each]._replace(offset=offset))


async def parked(led: Led, fetching: asyncio.Task[Any]) -> None:
    await until(lambda: fetching.done() or led.consumers.parked == 1)
    assert not fetching.done()


@pytest.mark.rule(56)
async def test_who_is_woken_looks_where_something_has_happened_and_answers_for_all(led: Led) -> None:
    fetching = asyncio.create_task(fetch(wants(led), consumers(led), LONG))
    await parked(led, fetching)
    assert led.since() == [0, 1, 2]
    led.append(1)
    told = await asyncio.wait_for(fetching, 20)
    assert led.looked == [1, 1], "once to read, once to count what was read"
    assert [(part.id.partition, bool(part.records), part.high_watermark) for part in told] == [
        (0, False, 0),
        (1, True, 1),
        (2, False, 0),
    ]
    assert (len(led.consumers), led.consumers.parked) == (0, 0)


async def test_a_session_looks_at_nothing_where_nothing_has_happened(led: Led) -> None:
    reader = Reader(led)
    assert list(await reader.fetch()) == [0, 1, 2]
    led.since()
    assert (await reader.fetch(), led.since()) == ({}, [])
    led.append(2)
    assert list(await reader.fetch()) == [2]
    reader.move(2, 1)
    assert [bool(part.records) for part in (await reader.fetch()).values()] == [False]
    led.since()
    assert (await reader.fetch(), led.since()) == ({}, [])


@pytest.mark.rule(55)
async def test_what_is_appended_while_it_looks_elsewhere_is_not_slept_over(led: Led) -> None:
    find = led.find
    appended: list[int] = []

    def appends_behind(partition_id: PartitionId) -> Any:
        if partition_id.partition == 2 and not appended:
            appended.append(led.append(0))
        return find(partition_id)

    led.find = appends_behind
    told = await asyncio.wait_for(fetch(wants(led), consumers(led), LONG), 20)
    assert [bool(part.records) for part in told] == [True, False, False]


@pytest.mark.rule(57)
async def test_a_hot_partition_does_not_starve_the_others(led: Led) -> None:
    sizes = [led.append(n) for n in (0, 0, 0, 0, 1, 2)]
    reader, one_batch = Reader(led), FetchLimits(0, 1, max(sizes))
    order = []
    for offset in (1, 2, 3):
        for _ in range(3):
            ((number, part),) = (await reader.fetch(one_batch)).items()
            assert part.records
            order.append(number)
            reader.move(number, offset)
        led.append(1)
        led.append(2)
    assert order == [0, 1, 2] * 3


async def test_a_response_is_full_once_a_batch_does_not_fit_and_the_next_one_begins_with_that(led: Led) -> None:
    """Else each response of a consumer that is far behind would cost a read of all its partitions."""
    reader, limits = Reader(led), FetchLimits(60, 1_000, 1_000)
    for number in range(3):
        led.append(number, b"v" * 700)
    for number in (0, 1):
        fetched = await asyncio.wait_for(reader.fetch(limits), 5)
        assert [n for n, result in fetched.items() if result.records] == [number]
        assert list(fetched) == [number, number + 1], "what comes behind is not looked at"
        reader.move(number, 1)
    assert [n for n, result in (await reader.fetch()).items() if result.records] == [2]


async def test_a_partitions_own_limit_does_not_end_a_response(led: Led) -> None:
    reader = Reader(led)
    for number in range(3):
        led.append(number, b"v" * 100)
    each = led.id(1)
    reader.session.name(each, reader.session.requested[each]._replace(max_bytes=10))
    assert [n for n, result in (await reader.fetch(AT_ONCE)).items() if result.records] == [0, 2]


@pytest.mark.story("fetch-of-no-bytes-gets-none")
@pytest.mark.parametrize(("of_response", "of_partition"), [(0, 1_000), (1_000, 0), (0, 0)])
async def test_the_first_batch_comes_even_with_a_limit_of_nothing(
    led: Led, of_response: int, of_partition: int
) -> None:
    for number in (1, 2):
        led.append(number)
    requests = [request._replace(max_bytes=of_partition) for request in wants(led)]
    told = await fetch(requests, consumers(led), FetchLimits(0, 1, of_response))
    assert [bool(part.records) for part in told] == [False, True, False]


async def test_records_that_the_consumer_has_not_got_are_read_again(led: Led) -> None:
    """It names a partition only where its position has moved."""
    led.append(1)
    reader = Reader(led)
    for _ in range(3):
        assert (await reader.fetch())[1].records


async def test_what_the_limits_leave_out_is_told_nevertheless_where_all_is_to_be(led: Led) -> None:
    sizes = [led.append(n) for n in range(3)]
    told = await fetch(wants(led), consumers(led), FetchLimits(0, 1, sizes[0]))
    assert [(bool(part.records), part.high_watermark) for part in told] == [(True, 1), (False, 1), (False, 1)]
    reader = Reader(led)
    assert list(await reader.fetch(FetchLimits(0, 1, sizes[0]), whole=True)) == [0, 1, 2]
    assert [n for n, part in (await reader.fetch()).items() if part.records] == [0, 1, 2]


class Room:
    def __init__(self) -> None:
        self.lent = 0

    def lend(self, requested_bytes: int) -> int:
        self.lent += requested_bytes
        return requested_bytes

    def give_back(self, size_bytes: int) -> None:
        self.lent -= size_bytes


async def test_too_few_bytes_are_not_kept_and_read_again_with_the_rest(led: Led) -> None:
    room, reader = Room(), Reader(led)
    few = led.append(0)
    fetching = asyncio.create_task(reader.fetch(FetchLimits(60, 2 * few + 1, 1 << 20, room)))
    await parked(led, fetching)
    assert room.lent == 0
    led.append(1)
    await asyncio.sleep(0)
    assert not fetching.done()
    led.append(1)
    told = await asyncio.wait_for(fetching, 20)
    assert [len(told[n].records) for n in range(3)] == [few, 2 * few, 0]
    assert room.lent == 3 * few


async def test_what_is_not_enough_is_told_in_the_end(led: Led) -> None:
    room, reader = Room(), Reader(led)
    fetching = asyncio.create_task(reader.fetch(FetchLimits(0.2, 1000, 1 << 20, room)))
    await parked(led, fetching)
    size_bytes = led.append(2)
    assert len((await asyncio.wait_for(fetching, 20))[2].records) == size_bytes == room.lent


def closed(led: Led) -> None:
    led.delete(led.id(1))


def deposed(led: Led) -> None:
    led.replicas[led.id(1)].on_partition(replace(ALONE, replicas=(1, 2), leader=2, leader_epoch=2))


@pytest.mark.rule(56)
@pytest.mark.parametrize(
    ("happens", "code"),
    [(closed, ErrorCode.UNKNOWN_TOPIC_ID), (deposed, ErrorCode.FENCED_LEADER_EPOCH)],
)
async def test_a_failure_ends_the_wait_and_is_told_until_it_is_over(
    led: Led, happens: Callable[[Led], None], code: ErrorCode
) -> None:
    reader = Reader(led)
    fetching = asyncio.create_task(reader.fetch(FetchLimits(60, 1 << 20, 1 << 20)))
    await parked(led, fetching)
    happens(led)
    told = await asyncio.wait_for(fetching, 20)
    for _ in range(2):
        assert (told[1].error is not None, told[1].error and told[1].error.code) == (True, code)
        told = await reader.fetch(LONG)
    assert list(told) == [1]


async def test_deleted_records_are_news_for_a_session_and_no_reason_to_wake_it(led: Led) -> None:
    reader, replica = Reader(led), led.replicas[led.id(0)]
    for _ in range(40):
        led.append(0, bytes(100))
    replica.log.flush(0)
    reader.move(0, 40)
    await reader.fetch()
    fetching = asyncio.create_task(reader.fetch(FetchLimits(60, 1, 1 << 20)))
    await parked(led, fetching)
    replica.log.config = replace(replica.log.config, retention_bytes=1000)
    replica.tidy(0)
    assert replica.log.log_start_offset > 0
    assert (reader.session.due, fetching.done()) == ([led.id(0)], False)
    led.append(1)
    told = await asyncio.wait_for(fetching, 20)
    assert told[0].log_start_offset == replica.log.log_start_offset


async def test_a_partition_that_is_named_twice_is_answered_twice_within_the_limits(led: Led) -> None:
    twice = [*wants(led), *wants(led)]
    fetching = asyncio.create_task(fetch(twice, consumers(led), LONG))
    await parked(led, fetching)
    size_bytes = led.append(0)
    told = await asyncio.wait_for(fetching, 20)
    assert [(part.id.partition, len(part.records)) for part in told] == [
        (n, size_bytes if n == 0 else 0) for n in (0, 1, 2, 0, 1, 2)
    ]
    assert len(led.consumers) == 0
    told = await fetch(twice, consumers(led), FetchLimits(0, 1, size_bytes))
    assert [len(part.records) for part in told] == [size_bytes, 0, 0, 0, 0, 0]


async def test_what_is_cancelled_leaves_nothing_behind(led: Led) -> None:
    fetching = asyncio.create_task(fetch(wants(led), consumers(led), LONG))
    await parked(led, fetching)
    assert len(led.consumers) == 3
    fetching.cancel()
    await asyncio.wait({fetching})
    assert (len(led.consumers), led.consumers.parked) == (0, 0)


async def test_a_session_that_ends_while_it_looks_watches_nothing_afterwards(led: Led) -> None:
    reader, find = Reader(led), led.find

    def ends_it_once(partition_id: PartitionId) -> Any:
        led.find = find
        reader.session.end()
        return find(partition_id)

    led.find = ends_it_once
    assert list(await asyncio.wait_for(reader.fetch(LONG), 20)) == [0, 1, 2]
    assert len(led.consumers) == 0


async def test_who_is_woken_for_nothing_looks_once_and_sleeps_on(led: Led) -> None:
    fetching = asyncio.create_task(fetch(wants(led), consumers(led), LONG))
    await parked(led, fetching)
    led.since()
    led.consumers.wake(led.id(2))
    for _ in range(50):
        await asyncio.sleep(0)
    assert (led.looked, fetching.done()) == ([2], False)
    fetching.cancel()


@pytest.mark.rule(55)
async def test_what_is_appended_while_a_read_waits_for_the_disk_is_not_slept_over(led: Led) -> None:
    replica, size_bytes = led.replicas[led.id(0)], led.append(0)
    read = replica.disk.read

    async def appends_behind(*arguments: Any, **options: Any) -> bytes:
        replica.disk.read = read
        assert led.id(0) in led.consumers.partitions, "registered first"
        records = await read(*arguments, **options)
        led.append(0)
        return records

    replica.disk.read = appends_behind
    told = await asyncio.wait_for(fetch(wants(led), consumers(led), FetchLimits(60, 2 * size_bytes, 1 << 20)), 20)
    assert len(told[0].records) == 2 * size_bytes


async def test_where_a_consumer_has_everything_nothing_is_read(led: Led) -> None:
    led.append(0)
    reads: list[int] = []
    for replica in led.replicas.values():
        replica.disk.read = lambda offset, *rest, **options: reads.append(offset)  # type: ignore[assignment]  # what it reads is not looked at
    at_the_end = [PartitionFetch(led.id(n), 1, 1 if n == 0 else 0, 1 << 20) for n in range(3)]
    told = await fetch(at_the_end, consumers(led), AT_ONCE)
    assert ([part.high_watermark for part in told], reads) == ([1, 0, 0], [])


class Data(bytes):
    """Records whose end is noted."""

    freed = 0

    def __del__(self) -> None:
        Data.freed += 1


async def test_a_fetch_that_waits_holds_no_records(led: Led) -> None:
    replica = led.replicas[led.id(0)]
    read = replica.disk.read

    async def noted(*arguments: Any, **options: Any) -> bytes:
        return Data(await read(*arguments, **options))

    replica.disk.read = noted
    led.append(0)
    Data.freed = 0
    fetching = asyncio.create_task(fetch(wants(led), consumers(led), FetchLimits(60, 10_000, 1 << 20)))
    await parked(led, fetching)
    assert Data.freed == 1
    fetching.cancel()
