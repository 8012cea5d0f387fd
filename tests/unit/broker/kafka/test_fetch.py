"""Fetch in sessions, over replicas: topics by name that go and come anew, and connections that are lost."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.index import load_response_schema
from kio_messages import read
from led import ALONE, TOPIC, Led
from waiting import until

from ottla_broker.kafka.authorization.access import EVERYTHING, Access
from ottla_broker.kafka.authorization.current_authorizer import CurrentAuthorizer
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.fetch_sessions import FetchSessions
from ottla_broker.kafka.handlers import fetch
from ottla_broker.kafka.wire.fetch_request import FINAL_EPOCH, FetchRequest, RequestedPartition, TopicKey
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId, TopicId
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.authorizer_settings import AuthorizerSettings
from ottla_core.security.principal import ANONYMOUS
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation

VERSION = 12
"""The last one that names topics."""
IMAGE = ClusterImage("c")
CALLER = Caller("127.0.0.1", "127.0.0.1")


def told(answer: Any) -> dict[int, tuple[int, int, int, bytes]]:
    """Code, high watermark, log start and records of each partition in it."""
    return {
        part.partition_index: (
            int(part.error_code),
            part.high_watermark,
            part.log_start_offset,
            bytes(part.records or b""),
        )
        for topic in answer.responses
        for part in topic.partitions
    }


class Client:
    """A client of a broker that leads the three partitions of topic `t`, with one fetch session after the other."""

    def __init__(self, led: Led) -> None:
        self.led = led
        self.ids: dict[str, TopicId] = {"t": TOPIC}
        numbers = itertools.count(1)
        self.sessions = FetchSessions(lambda: next(numbers), led.consumers)
        self.session_id = 0
        self.epoch = 0
        self.access: Access = EVERYTHING

    def id_of(self, topic: str, number: int) -> PartitionId | None:
        known = self.ids.get(topic)
        return None if known is None else PartitionId(known, number)

    async def ask(
        self, *named: RequestedPartition, forgotten: Sequence[int] = (), max_wait_ms: int = 0
    ) -> dict[int, tuple[int, int, bytes]]:
        """Code, high watermark and records of each partition that is told of."""
        session_id, epoch = self.session_id, self.epoch
        self.epoch += 1
        answer = await self.send(session_id, epoch, named, forgotten, max_wait_ms)
        self.session_id, self.error = answer.session_id, int(answer.error_code)
        return {n: (code, mark, records) for n, (code, mark, _, records) in told(answer).items()}

    async def send(
        self,
        session_id: int,
        epoch: int,
        named: Sequence[RequestedPartition],
        forgotten: Sequence[int] = (),
        max_wait_ms: int = 0,
    ) -> Any:
        backend = SimpleNamespace(
            replicas=SimpleNamespace(table=self.led),
            sessions=self.sessions,
            id_of=self.id_of,
            image=IMAGE,
            node_id=1,
        )
        gone: list[tuple[TopicKey, int]] = [("t", number) for number in forgotten]
        request = FetchRequest(-1, max_wait_ms, 1, 1 << 20, 0, session_id, epoch, named, gone, "")
        context = KafkaContext(VERSION, 1, "me", Reader(memoryview(b"")), CALLER, self.access)
        written = await fetch.handle(cast(Backend, backend), request, context)
        return read(load_response_schema(1, VERSION), b"".join(written))

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


async def test_a_session_that_no_fetch_comes_for_costs_appends_nothing(client: Client) -> None:
    """A thousand such sessions may exist, of clients that died between fetches or begin a session with each fetch."""
    client.led.append(2)
    client.led.append(2)
    assert len(client.led.consumers) == 2, "of the three partitions those where nothing has happened"
    assert [n for n, (_, mark, records) in (await client.ask()).items() if (mark, bool(records)) == (2, True)] == [2]
    assert len(client.led.consumers) == 3, "each that was looked at is watched again"


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


@pytest.mark.story("revocation-that-a-parked-fetch-outlives")
@pytest.mark.parametrize("others", [0, 1_001], ids=["few ACLs", "many ACLs"])
async def test_a_parked_fetch_is_decided_anew_when_its_acl_is_gone(client: Client, others: int) -> None:
    more = {b"%d" % number: _may_read(f"t{number}") for number in range(others)}
    metadata = SimpleNamespace(image=replace(IMAGE, acls={b"t": _may_read("t"), **more}, acls_revision=1))
    authorizer = CurrentAuthorizer(AuthorizerSettings(), metadata, DiskThreads(), client.led.consumers)
    await authorizer.start()
    client.access = authorizer.access(CALLER)
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)

    before = metadata.image
    metadata.image = replace(before, acls=more, acls_revision=2)
    authorizer.on_image(before, metadata.image)
    told = await asyncio.wait_for(fetching, 20)
    assert {n: code for n, (code, _, _) in told.items()} == dict.fromkeys(
        range(3), ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )
    await authorizer.stop()


async def test_a_parked_fetch_waits_on_when_the_acls_of_others_change(client: Client) -> None:
    metadata = SimpleNamespace(image=replace(IMAGE, acls={b"t": _may_read("t")}, acls_revision=1))
    authorizer = CurrentAuthorizer(AuthorizerSettings(), metadata, DiskThreads(), client.led.consumers)
    await authorizer.start()
    client.access = authorizer.access(CALLER)
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)
    client.led.since()
    before = metadata.image
    metadata.image = replace(before, acls={**before.acls, b"u": _may_read("u")}, acls_revision=2)
    authorizer.on_image(before, metadata.image)
    await until(lambda: client.led.since() == [0, 1, 2] and client.led.consumers.parked)
    client.led.append(2)
    assert list(await asyncio.wait_for(fetching, 20)) == [2]
    await authorizer.stop()


def _may_read(topic: str) -> Acl:
    return Acl(ResourceType.TOPIC, topic, PatternType.LITERAL, ANONYMOUS, "*", Operation.READ, Permission.ALLOW)


@pytest.mark.story("last-fetch-waits")
async def test_a_session_ends_at_once(client: Client) -> None:
    """By a fetch of no partitions, with the time to wait that the client's other fetches have."""
    client.epoch = FINAL_EPOCH
    assert await asyncio.wait_for(client.ask(max_wait_ms=60_000), 20) == {}
    assert (client.error, len(client.sessions)) == (0, 0)


@pytest.mark.story("last-fetch-waits")
async def test_a_session_that_forgets_its_last_partition_ends_at_once(client: Client) -> None:
    assert await asyncio.wait_for(client.ask(forgotten=range(client.led.count), max_wait_ms=60_000), 20) == {}
    assert (client.error, len(client.sessions)) == (0, 0)


async def test_a_broker_that_drains_answers_with_what_there_is(client: Client) -> None:
    fetching = client.parked()
    await until(lambda: client.led.consumers.parked)
    client.led.consumers.close()
    assert await asyncio.wait_for(fetching, 20) == {}
    assert client.error == 0
    assert await asyncio.wait_for(client.parked(), 20) == {}, "nothing waits any more"


class Story:
    """What happens to the topic at random, and a client that follows it in a session."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self.client, self.led, self.chance = client, client.led, chance
        self.wants = {n: RequestedPartition("t", n, -1, 0, 1 << 20) for n in range(self.led.count)}
        self.named: dict[int, RequestedPartition] = {}
        self.forgotten: list[int] = []
        self.known: dict[int, tuple[int, int, int]] = {}
        self.records: dict[int, bytes] = {}

    def happen(self) -> None:
        number = self.chance.choice(list(self.wants) or [0])
        replica = self.led.replicas.get(self.led.id(number))
        what = self.chance.choice(
            ["append", "append", "read", "read", "depose", "lead", "cut", "anew", "forget", "name"]
        )
        if what == "anew" and self.chance.random() < 0.3:
            self._make_anew()
        elif what == "forget" and self.chance.random() < 0.3 and len(self.wants) > 1:
            for each in (self.wants, self.known, self.named):
                each.pop(number, None)
            self.forgotten.append(number)
        elif what == "name" and len(self.wants) < self.led.count:
            number = next(n for n in range(self.led.count) if n not in self.wants)
            self.wants[number] = self.named[number] = RequestedPartition("t", number, -1, 0, 1 << 20)
            if number in self.forgotten:
                self.forgotten.remove(number)
                self.known.pop(number, None)
        elif replica is None or number not in self.wants:
            return
        elif what == "append" and replica.leads:
            self.led.append(number, b"%d" % self.chance.randrange(1000))
        elif what == "read":
            self.wants[number] = self.named[number] = self.wants[number]._replace(offset=replica.offsets.high_watermark)
        elif what == "cut" and replica.leads:
            replica.led_in(None).delete_records(-1)
        elif what == "depose" and replica.leads:
            replica.on_partition(replace(ALONE, replicas=(1, 2), leader=2, leader_epoch=replica.leader_epoch + 1))
        elif what == "lead" and not replica.leads:
            replica.step_back()
            replica.log.assign_epoch(replica.leader_epoch + 1)
            replica.become_leader(replace(ALONE, leader_epoch=replica.leader_epoch + 1))

    def _make_anew(self) -> None:
        if self.client.ids.pop("t", None) is not None:
            for partition_id in list(self.led.replicas):
                self.led.delete(partition_id)
        else:
            self.client.ids["t"] = self.led.topic = TopicId(self.chance.randbytes(16))
            for number in range(self.led.count):
                self.led.add(self.led.id(number))

    async def fetch(self) -> None:
        """What the client knows by then is what a fetch that stands alone is told."""
        client, named = self.client, list(self.named.values())
        answer = await client.send(client.session_id, client.epoch, named, self.forgotten)
        assert int(answer.error_code) == 0
        client.session_id, client.epoch = answer.session_id, client.epoch + 1
        self.named, self.forgotten, self.records = {}, [], {}
        for number, (code, mark, start, records) in told(answer).items():
            self.known[number], self.records[number] = (code, mark, start), records
        alone = told(await client.send(0, -1, list(self.wants.values())))
        assert {n: self.known.get(n) for n in alone} == {n: part[:3] for n, part in alone.items()}
        assert {n: self.records.get(n, b"") for n in alone} == {n: part[3] for n, part in alone.items()}


@pytest.mark.rule(57)
@pytest.mark.parametrize("seed", range(20))
async def test_a_session_knows_what_a_whole_fetch_is_told(client: Client, seed: int) -> None:
    story = Story(client, random.Random(seed))
    story.known = dict.fromkeys(range(client.led.count), (0, 0, 0))
    for _ in range(60):
        for _ in range(story.chance.randrange(4)):
            story.happen()
        await story.fetch()
    assert len(client.sessions) == 1
