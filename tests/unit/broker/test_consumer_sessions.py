"""Consumers' fetch sessions over gRPC: requested once, answered once, and nothing is lost or kept for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from led import Led
from turns import turns_during
from waiting import until

from ottla_broker.consumer_sessions import ConsumerSession, ConsumerSessions
from ottla_broker.replication.fetch import Consumers, FetchLimits, PartitionFetch
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import PartitionId, TopicId
from ottla_core.rpc.context import StreamScope

LONG = FetchLimits(60, 1, 1 << 20)
AT_ONCE = FetchLimits(0, 1, 1 << 20)


class Client:
    """One stream, and the session that it has begun."""

    def __init__(self, led: Led, sessions: ConsumerSessions | None = None) -> None:
        self.led = led
        self.sessions = sessions or ConsumerSessions(led.consumers)
        self.stream = StreamScope()
        self.consumers = Consumers(cast(Any, led), None, any_replica=False)
        self.session = self.begin(1, led.count)

    def begin(self, number: int, named: int) -> ConsumerSession:
        session = self.sessions.begin(number, self.stream, named)
        assert session is not None
        return session

    async def fetch(self, *named: tuple[int, int], limits: FetchLimits = AT_ONCE, forget: tuple[int, ...] = ()) -> Any:
        """What is named, as (partition, offset); partition → whether records came."""
        requests = [PartitionFetch(self.led.id(n), 1, offset, 1 << 20) for n, offset in named]
        forgotten = [self.led.id(n) for n in forget]
        results = await self.session.fetch(requests, forgotten, self.consumers, limits)
        return {part.id.partition: bool(part.records) for part in results}

    async def parked(self, *named: tuple[int, int], limits: FetchLimits = LONG) -> asyncio.Task[Any]:
        fetching = asyncio.create_task(self.fetch(*named, limits=limits))
        await until(lambda: fetching.done() or self.led.consumers.parked == 1)
        assert not fetching.done()
        return fetching

    async def ended(self) -> None:
        with pytest.raises(OttlaError) as raised:
            await self.fetch()
        assert raised.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.fixture
def led(tmp_path: Path) -> Led:
    return Led(tmp_path)


async def test_what_was_named_once_is_requested_until_it_is_answered(led: Led) -> None:
    client = Client(led)
    assert await client.fetch((0, 0), (1, 0), (2, 0)) == {0: False, 1: False, 2: False}
    led.since()
    fetching = await client.parked()
    led.append(1)
    assert await fetching == {1: True}
    assert set(led.since()) == {1}, "nothing else is looked at"
    led.append(1)
    led.append(2)
    assert await client.fetch() == {2: True}, "1 is not requested before it is named again"
    assert await client.fetch((1, 1)) == {1: True}


async def test_a_newer_fetch_ends_one_that_is_parked_and_waits_for_what_both_have_named(led: Led) -> None:
    client = Client(led)
    first = await client.parked((0, 0))
    second = asyncio.create_task(client.fetch((1, 0), limits=LONG))
    assert await asyncio.wait_for(first, 20) == {0: False}
    await until(lambda: led.consumers.parked == 1)
    led.append(0)
    assert await asyncio.wait_for(second, 20) == {0: True, 1: False}


async def test_a_response_is_of_what_was_named_until_then(led: Led) -> None:
    led.append(0)
    client = Client(led)
    replica, later = led.replicas[led.id(0)], []
    read = replica.disk.read

    async def seeks_behind(*arguments: Any, **options: Any) -> bytes:
        replica.disk.read = read
        later.append(asyncio.create_task(client.fetch((0, 1))))
        await asyncio.sleep(0.01)
        return await read(*arguments, **options)

    replica.disk.read = seeks_behind
    assert await client.fetch((0, 0), limits=LONG) == {0: True}
    assert await later[0] == {0: False}, "named anew, and not answered by what was read before"
    led.append(0)
    assert await client.fetch() == {0: True}


async def test_min_bytes_are_waited_for_no_longer_because_of_newer_fetches(led: Led) -> None:
    client = Client(led)
    limits = FetchLimits(0.3, 1 << 19, 1 << 20)
    led.append(0)
    began, now = asyncio.get_running_loop().time(), 0.0
    fetching = [await client.parked((0, 0), limits=limits)]
    while not any(task.done() and task.result().get(0) for task in fetching):
        fetching.append(asyncio.create_task(client.fetch((1, 0), limits=limits)))
        await asyncio.sleep(0.02)
        now = asyncio.get_running_loop().time() - began
        assert now < 10
    assert now > 0.25
    await asyncio.gather(*fetching)


async def test_what_is_forgotten_is_answered_no_more_and_nothing_is_kept_of_it(led: Led) -> None:
    client = Client(led)
    await client.fetch((0, 0), (1, 0))
    led.append(0)
    assert await client.fetch(forget=(0,)) == {}
    await client.fetch(forget=(1, 2))
    assert (client.sessions.room.used, len(led.consumers)) == (0, 0)


async def test_an_error_is_an_answer(led: Led) -> None:
    client = Client(led)
    assert await client.fetch((0, 7)) == {0: False}
    assert client.sessions.room.used == 0
    assert await client.fetch() == {}


async def test_a_fetch_that_is_cut_off_ends_its_session_and_leaves_nothing_behind(led: Led) -> None:
    client = Client(led)
    fetching = await client.parked((0, 0), (1, 0))
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    assert (client.sessions.room.used, len(led.consumers)) == (0, 0)
    await client.ended()


async def test_a_stream_has_one_session_and_its_end_is_the_sessions(led: Led) -> None:
    client = Client(led)
    fetching = await client.parked((0, 0))
    former, client.session = client.session, client.begin(2, 1)
    with pytest.raises(OttlaError, match="no fetch session 1"):
        await asyncio.wait_for(fetching, 20)
    assert client.sessions.find(2, client.stream) is client.session
    with pytest.raises(OttlaError, match="no fetch session 1"):
        client.sessions.find(former.id, client.stream)
    await client.fetch((0, 0), (1, 0))
    assert client.sessions.room.used == 2
    client.stream.begin(None)
    assert (client.sessions.room.used, len(led.consumers)) == (0, 0)
    await client.ended()
    with pytest.raises(OttlaError, match="no fetch session 2"):
        client.sessions.find(2, client.stream)


async def test_where_there_is_no_room_a_request_stands_alone(led: Led) -> None:
    sessions = ConsumerSessions(led.consumers, max_partitions=3)
    client = Client(led, sessions)
    await client.fetch((0, 0), (1, 0))
    assert sessions.begin(1, StreamScope(), 2) is None
    other = Client.__new__(Client)
    other.__dict__ |= client.__dict__ | {"stream": StreamScope()}
    other.session = other.begin(1, 1)
    await other.fetch((0, 0))
    with pytest.raises(OttlaError, match="no fetch session"):
        await other.fetch((1, 0))
    assert sessions.room.used == 2, "that one has ended, and the first is as it was"
    led.append(1)
    assert await client.fetch() == {1: True}


async def test_what_a_session_names_that_there_was_no_room_for_stands_alone(led: Led) -> None:
    stream, sessions = StreamScope(), ConsumerSessions(led.consumers, max_partitions=0)
    assert sessions.begin(1, stream, 1) is None
    assert sessions.find(1, stream) is None, "no error: what it has named before waits for its own response"
    with pytest.raises(OttlaError, match="no fetch session 2"):
        sessions.find(2, stream)


async def test_a_session_keeps_no_long_names_of_what_it_has_not_looked_at(led: Led) -> None:
    client = Client(led)
    long = PartitionFetch(PartitionId(TopicId(b"t" * 17), 0), None, 0, 1)
    with pytest.raises(OttlaError, match="17 bytes"):
        await client.session.fetch([long], [], client.consumers, AT_ONCE)
    assert (client.sessions.room.used, len(led.consumers)) == (0, 0)


@pytest.mark.usefixtures("slices_by_looks")
async def test_what_is_forgotten_by_the_hundred_thousand_keeps_no_other_from_its_turn(led: Led) -> None:
    client = Client(led)
    forgotten = (PartitionId(TopicId(b"t" * 16), number) for number in range(100_000))
    fetching = asyncio.create_task(client.session.fetch([], forgotten, client.consumers, AT_ONCE))
    assert await turns_during(fetching) > 12
    await fetching


async def test_a_session_that_goes_on_while_the_broker_drains_does_not_wait(led: Led) -> None:
    client = Client(led)
    led.consumers.close()
    assert await asyncio.wait_for(client.fetch((0, 0), limits=LONG), 20) == {0: False}
