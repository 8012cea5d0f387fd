"""Fetch in sessions, over replicas: topics by name that go and come anew, and connections that are lost."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.index import load_response_schema
from kio_messages import read
from led import TOPIC, Led
from waiting import until

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.fetch_request import FetchRequest, RequestedPartition
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.frames import Caller, KafkaContext
from ottla_broker.kafka.handlers import fetch
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode
from ottla_core.model import PartitionId, TopicId
from ottla_core.primitives import Reader

VERSION = 12
"""The last one that names topics."""


class Client:
    """Of a broker that leads the three partitions of a topic `t`, with one fetch session after the other."""

    def __init__(self, led: Led) -> None:
        self.led = led
        self.ids: dict[str, TopicId] = {"t": TOPIC}
        numbers = itertools.count(1)
        self.sessions = FetchSessions(lambda: next(numbers), led.consumers)
        self.session_id = 0
        self.epoch = 0

    def id_of(self, topic: str, number: int) -> PartitionId | None:
        known = self.ids.get(topic)
        return None if known is None else PartitionId(known, number)

    async def ask(self, *named: RequestedPartition, max_wait_ms: int = 0) -> dict[int, tuple[int, int, bytes]]:
        """Code, high watermark and records of each partition that is told of."""
        backend = SimpleNamespace(
            replicas=self.led, sessions=self.sessions, id_of=self.id_of, image=ClusterImage("c"), node_id=1
        )
        request = FetchRequest(-1, max_wait_ms, 1, 1 << 20, 0, self.session_id, self.epoch, named, [], "")
        context = KafkaContext(VERSION, 1, "me", Reader(memoryview(b"")), Caller("127.0.0.1", "127.0.0.1"))
        self.epoch += 1
        written = await fetch.handle(cast(Backend, backend), request, context)
        answer: Any = read(load_response_schema(1, VERSION), b"".join(written))
        self.session_id, self.error = answer.session_id, int(answer.error_code)
        return {
            part.partition_index: (int(part.error_code), part.high_watermark, bytes(part.records or b""))
            for topic in answer.responses
            for part in topic.partitions
        }

    async def begin(self) -> None:
        told = await self.ask(*(RequestedPartition("t", n, -1, 0, 1 << 20) for n in range(self.led.count)))
        assert (list(told), self.session_id) == ([0, 1, 2], 1)
        self.led.since()

    def parked(self, max_wait_ms: int = 60_000) -> asyncio.Task[Any]:
        return asyncio.create_task(self.ask(max_wait_ms=max_wait_ms))


@pytest.fixture
async def client(tmp_path: Path) -> Client:
    client = Client(Led(tmp_path))
    await client.begin()
    return client


async def test_a_request_costs_what_has_happened(client: Client) -> None:
    assert (await client.ask(), client.led.since()) == ({}, [])
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)
    client.led.append(2)
    told = await asyncio.wait_for(fetching, 20)
    assert {n: (code, mark, bool(records)) for n, (code, mark, records) in told.items()} == {2: (0, 1, True)}
    assert client.led.since() == [2, 2], "once to read, once to count what was read"


async def test_a_topic_that_is_deleted_and_made_anew_is_read_on(client: Client) -> None:
    fetching, led, anew = client.parked(), client.led, TopicId(b"n" * 16)
    await until(lambda: led.consumers.parked)
    del client.ids["t"]
    for number in range(3):
        led.delete(PartitionId(TOPIC, number))
    for told in (await asyncio.wait_for(fetching, 20), await client.ask(max_wait_ms=60_000)):
        assert {n: code for n, (code, _, _) in told.items()} == dict.fromkeys(
            range(3), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )
    client.ids["t"] = led.topic = anew
    for number in range(3):
        led.add(PartitionId(anew, number))
    assert {n: code for n, (code, _, _) in (await client.ask()).items()} == {0: 0, 1: 0, 2: 0}
    assert await client.ask() == {}
    led.append(1)
    assert list(await client.ask()) == [1]


async def test_a_connection_that_is_lost_takes_its_session_with_it(client: Client) -> None:
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)
    fetching.cancel()
    await asyncio.wait({fetching})
    assert (len(client.sessions), len(client.led.consumers)) == (0, 0)
    await client.ask()
    assert client.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_two_connections_in_one_session_both_begin_anew(client: Client) -> None:
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)
    session_id = client.session_id
    assert await client.ask() == {}
    assert client.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    client.error = 0
    assert await asyncio.wait_for(fetching, 20) == {}
    assert client.error == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert (session_id, len(client.led.consumers)) == (1, 0)


async def test_a_full_fetch_ends_the_parked_one_of_the_session_that_it_replaces(client: Client) -> None:
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)
    client.epoch = 0
    assert list(await client.ask(RequestedPartition("t", 1, -1, 0, 1 << 20))) == [1]
    assert await asyncio.wait_for(fetching, 20) == {}
    assert set(client.led.consumers.partitions) == {client.led.id(1)}


async def test_a_broker_that_drains_answers_with_what_there_is(client: Client) -> None:
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)
    client.led.consumers.close()
    assert await asyncio.wait_for(fetching, 20) == {}
    assert client.error == 0
    assert await asyncio.wait_for(client.parked(), 20) == {}, "nothing waits any more"
