"""What only a real etcd can show: it is killed, it stops, it splits large answers, it is one of several."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from uuid import uuid4

import pytest
from children import stop
from waiting import until

from ottla_core.cluster import keys
from ottla_core.cluster.codec import encode
from ottla_core.cluster.etcd import EtcdStore
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Topic
from ottla_core.cluster.session import RENEWALS, LeaseSession
from ottla_core.cluster.store import Delete, EventBatch, Put, StoreUnavailableError
from ottla_core.model import TopicId
from ottla_core.telemetry import Counter
from ottla_stack.embedded_etcd import EmbeddedEtcd

T = 5.0


@pytest.fixture
async def store(etcd: EmbeddedEtcd) -> AsyncIterator[EtcdStore]:
    store = EtcdStore([etcd.endpoint])
    yield store
    await store.close()


@pytest.fixture
async def follower(etcd: EmbeddedEtcd) -> AsyncIterator[MetadataFollower]:
    """On a store of its own, as in another process, and with a cluster of its own."""
    store = EtcdStore([etcd.endpoint])
    follower = MetadataFollower(store, f"test-{uuid4().hex[:8]}")
    follower.start()
    yield follower
    await follower.stop()
    await store.close()


def creation(cluster_id: str, n: int) -> list[Put | Delete]:
    """What a controller writes: a topic, and the next `seq` in the same transaction. Every third goes again at once."""
    name = f"t{n}"
    topic = Topic(name, TopicId(n.to_bytes(16, "big")), 1)
    ops: list[Put | Delete] = [
        Put(keys.key_text(cluster_id, keys.topic(name)), encode(keys.topic(name), topic)),
        Put(keys.key_text(cluster_id, keys.SEQ), encode(keys.SEQ, n)),
    ]
    return ops if n % 3 else [*ops, Delete(keys.key_text(cluster_id, keys.topic(f"t{n - 1}")))]


@pytest.mark.feature(122)
@pytest.mark.feature(123)
@pytest.mark.feature(124)
async def test_a_follower_misses_nothing_while_etcd_is_killed_and_started_again(
    etcd: EmbeddedEtcd, store: EtcdStore, follower: MetadataFollower
) -> None:
    cluster = follower.image.cluster_id
    seen_seqs: list[int] = []
    seen_topics: set[str] = set()

    def note(_: object, image: object) -> None:
        seen_seqs.append(follower.image.seq)
        seen_topics.update(follower.image.topics)

    follower.on_change(note)
    revision = 0
    for n in range(1, 61):
        if n in (20, 40):
            assert etcd.pid is not None
            os.kill(etcd.pid, signal.SIGKILL)
            await until(lambda: etcd.pid is None)
            with pytest.raises(StoreUnavailableError):
                await store.txn([], creation(cluster, n), timeout=T)
            await asyncio.to_thread(etcd.start)
        while True:
            try:
                revision = (await store.txn([], creation(cluster, n), timeout=T)).revision
                break
            except StoreUnavailableError:
                continue
    image = await follower.wait_for(revision, timeout=T)
    expected = {f"t{n}" for n in range(1, 61) if (n + 1) % 3}
    assert set(image.topics) == expected
    assert image.seq == 60
    assert seen_topics >= expected
    assert seen_seqs == sorted(seen_seqs), "never backwards"
    (snapshot,) = [await store.snapshot(keys.prefix(cluster), timeout=T)]
    assert len(snapshot.entries) == len(expected) + 1


@pytest.mark.feature(123)
async def test_a_stopped_etcd_fails_calls_at_their_deadline_and_goes_on_afterwards(
    etcd: EmbeddedEtcd, store: EtcdStore, follower: MetadataFollower
) -> None:
    """A stopped etcd responds to nothing. A read fails definitely; a write may have been carried out (rule C4)."""
    cluster = follower.image.cluster_id
    first = await store.txn([], creation(cluster, 1), timeout=T)
    await follower.wait_for(first.revision, timeout=T)
    assert etcd.pid is not None
    stop(etcd.pid)
    try:
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError) as write:
            await store.txn([], creation(cluster, 2), timeout=1.0)
        with pytest.raises(StoreUnavailableError) as read:
            await store.snapshot("/", timeout=0.5)
        took = time.monotonic() - began
        assert (write.value.indefinite, read.value.indefinite) == (True, False)
        assert 1.5 <= took < 10.0
        await until(lambda: follower.staleness_s > 3.0)
        assert "t1" in follower.image.topics, "the last image stays"
    finally:
        os.kill(etcd.pid, signal.SIGCONT)
    third = await store.txn([], creation(cluster, 3), timeout=T)
    image = await follower.wait_for(third.revision, timeout=10)
    assert image.topics.keys() - {"t2"} == {"t1", "t3"}
    await until(lambda: follower.staleness_s < 3.0)


async def exhaust(watch: AsyncIterator[EventBatch]) -> None:
    async for _ in watch:
        pass


async def test_a_watch_on_a_stopped_etcd_ends_by_itself(
    etcd: EmbeddedEtcd, store: EtcdStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing breaks the connection, so the unanswered questions have to."""
    monkeypatch.setattr("ottla_core.cluster.etcd.PROGRESS_S", 0.4)
    assert etcd.pid is not None
    async with aclosing(store.watch("/quiet/", from_revision=1)) as watch:
        await anext(watch)
        stop(etcd.pid)
        try:
            with pytest.raises(StoreUnavailableError):
                await asyncio.wait_for(exhaust(watch), 20)
        finally:
            os.kill(etcd.pid, signal.SIGCONT)
    await store.snapshot("/quiet/", timeout=T)


@pytest.mark.feature(117)
async def test_a_session_outlives_an_etcd_that_is_killed(etcd: EmbeddedEtcd, store: EtcdStore) -> None:
    """etcd counts the lease's time from the beginning after its restart (rule C6), so nobody has to register again."""
    registrations: list[int] = []

    async def register(lease: int) -> None:
        registrations.append(lease)
        await store.txn([], [Put("/session/brokers/1", b"", lease)], timeout=T)

    renewals: list[float] = []

    async def sleep(seconds: float) -> None:
        renewals.append(seconds)
        await asyncio.sleep(seconds)

    session = LeaseSession(store, 2, register, sleep=sleep)
    await session.start(timeout=T)
    assert etcd.pid is not None
    os.kill(etcd.pid, signal.SIGKILL)
    await until(lambda: etcd.pid is None)
    await asyncio.to_thread(etcd.start)
    renewals.clear()
    await until(lambda: renewals.count(2 / RENEWALS) > 7)  # for more than the time to live
    assert len((await store.snapshot("/session/", timeout=T)).entries) == 1
    assert registrations == [session.lease]
    await session.stop(timeout=T)
    assert (await store.snapshot("/session/", timeout=T)).entries == ()


_WINDOW_UPDATE_BYTES = 60
"""A message of HTTP/2's own has fewer bytes than an answer of etcd."""


class Relay:
    """A way to etcd that can fall silent, with its connections open, as a cut cable or a stopped machine does."""

    def __init__(self, endpoint: str) -> None:
        self._endpoint = endpoint
        self._open = asyncio.Event()
        self._open.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None
        self._cut = False

    async def start(self) -> str:
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def fall_silent(self) -> None:
        self._open.clear()

    def cut_answers(self) -> None:
        """Pass on what etcd is asked, and close the connection instead of passing on its answer."""
        self._cut = True

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._endpoint.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        ways = ((reader, back, False), (there, writer, True))
        self._tasks += [asyncio.create_task(self._pass(*way)) for way in ways]

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, are_answers: bool) -> None:
        try:
            while data := await reader.read(1 << 16):
                if are_answers and self._cut and len(data) > _WINDOW_UPDATE_BYTES:
                    return
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        finally:
            writer.close()


async def test_a_write_whose_connection_breaks_before_the_answer_may_have_happened(etcd: EmbeddedEtcd) -> None:
    """gRPC reports it with the words that it has for a connection which never came about."""
    relay = Relay(etcd.endpoint)
    store = EtcdStore([await relay.start()])
    await store.snapshot("/cut/", timeout=T)
    relay.cut_answers()
    with pytest.raises(StoreUnavailableError) as write:
        await store.txn([], [Put("/cut/k", b"v")], timeout=T)
    assert write.value.indefinite
    await store.close()
    await relay.stop()
    store = EtcdStore([etcd.endpoint])
    assert [entry.key for entry in (await store.snapshot("/cut/", timeout=T)).entries] == ["/cut/k"]
    await store.close()


@pytest.mark.feature(117)
async def test_a_lease_outlives_an_endpoint_that_falls_silent(etcd: EmbeddedEtcd) -> None:
    """It is not waited for: the next renewal goes to another endpoint, well before the lease is over."""
    relay, losses, registrations = Relay(etcd.endpoint.removeprefix("http://")), Counter(), list[int]()
    store = EtcdStore([await relay.start(), etcd.endpoint])

    async def register(lease: int) -> None:
        registrations.append(lease)

    session = LeaseSession(store, 3, register, losses=losses)
    await session.start(timeout=T)
    relay.fall_silent()
    await asyncio.sleep(5.0)
    assert (losses.value, len(registrations)) == (0, 1)
    assert await store.keep_alive(registrations[0], timeout=T) > 0
    await session.stop(timeout=T)
    await store.close()
    await relay.stop()


async def test_revisions_that_etcd_sends_in_fragments_come_whole(store: EtcdStore) -> None:
    """4 revisions of 100 keys and 1.4 MB each: etcd sends at most 2 MB at once, so it cuts within revisions."""
    for _ in range(4):
        await store.txn([], [Put(f"/large/{n:02d}", b"x" * 14_000) for n in range(100)], timeout=T)
    first = (await store.snapshot("/large/", timeout=T)).revision - 3
    batches: list[EventBatch] = []
    async with asyncio.timeout(T), aclosing(store.watch("/large/", from_revision=first)) as watch:
        async for batch in watch:
            batches += [batch] if batch.events else []
            if batch.revision == first + 3:
                break
    revisions = [e.entry.mod_revision for batch in batches for e in batch.events]
    assert revisions == [first + n for n in range(4) for _ in range(100)]
    assert all(len(batch.events) % 100 == 0 for batch in batches)


async def test_of_several_endpoints_the_one_that_answers_is_used(etcd: EmbeddedEtcd) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    store = EtcdStore([nobody, f"http://{etcd.endpoint}"])
    result = await store.txn([], [Put("/several/k", b"v")], timeout=T)
    assert result.succeeded
    async with asyncio.timeout(T), aclosing(store.watch("/several/", from_revision=result.revision)) as watch:
        batches = [await anext(watch) for _ in range(2)]
    assert [len(batch.events) for batch in batches] == [0, 1]
    await store.close()


async def test_where_nobody_listens_a_write_fails_definitely_and_at_once() -> None:
    """Admin requests must not hang while etcd is away (rule C12)."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        store = EtcdStore([f"127.0.0.1:{closed.getsockname()[1]}"])
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError) as refused:
        await store.txn([], [Put("/k", b"")], timeout=T)
    assert not refused.value.indefinite
    assert time.monotonic() - began < T / 2
    await store.close()
