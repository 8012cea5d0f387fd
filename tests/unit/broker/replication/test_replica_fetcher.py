"""A follower's round: what it tells its leader, and when."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock

import pytest
from batches import NOON
from logs import SMALL, open_log, values_batch
from replicas import PARTITION, Brokers
from waiting import until

from ottla_broker.peers.registration_view import BrokerEpoch
from ottla_broker.replication import replication_config
from ottla_broker.replication.following import Following
from ottla_broker.replication.replica import Replica
from ottla_broker.replication.replica_fetcher import ReplicaFetcher, Replication
from ottla_broker.replication.replication_config import ReplicationSettings
from ottla_core.cluster.image import Broker, ClusterImage, Partition
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import SLICE_S
from ottla_core.model import PartitionId
from ottla_proto import broker_pb2 as pb

BOTH = Partition(replicas=(1, 2), leader=1, leader_epoch=1, isr=(1, 2))


class Seated:
    secret = b"proof"

    def current(self) -> BrokerEpoch:
        return BrokerEpoch(2, 12)


class Settled:
    settings = ReplicationSettings()


class NeverAnswering:
    """A leader's end of the stream that takes a fetch and parks it for ever."""

    def __init__(self) -> None:
        self.asked: list[pb.FetchRequest] = []

    async def send(self, request: pb.FetchRequest, *, timeout_ms: int) -> int:
        self.asked.append(request)
        return 1

    async def response_to(self, number: int, *, timeout: float) -> pb.FetchResponse:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")


@pytest.mark.rule(20)
async def test_a_fetch_says_only_what_is_on_the_platter_where_that_was_asked_for(tmp_path: Path) -> None:
    """flush.messages=1. The follower was killed between its write and its flush, and comes back."""
    brokers = Brokers(tmp_path, (1, 2), replace(SMALL, flush_messages=1))
    brokers.apply(BOTH)
    brokers.replicas[1].led_in(None).append(values_batch(b"a"), -1)
    await brokers.fetch(2, 1)
    await brokers.replicas[2].disk.flushed()
    follower = brokers.open(2)
    brokers.apply(BOTH, 2)
    assert follower.disk.must_flush
    replicas: Any = Settled()
    seat: Any = Seated()
    fetcher = ReplicaFetcher(Broker(1, 11, "d", "localhost:1"), [1], replicas, seat)
    stream: Any = NeverAnswering()
    fetcher.follow(follower)
    fetching = asyncio.create_task(fetcher.round(stream))
    await until(lambda: stream.asked)
    assert stream.asked[0].partitions[0].fetch_offset == 1
    assert follower.log.recovery_point == 1
    fetching.cancel()
    await asyncio.gather(fetching, return_exceptions=True)
    await fetcher.stop()


class Scripted:
    """A leader's end of the stream: the partitions' first answers as given, then nothing new."""

    def __init__(self, *answers: pb.PartitionFetched) -> None:
        self.asked: list[list[int]] = []
        self._answers = {answer.partition: answer for answer in answers}

    async def send(self, request: pb.FetchRequest, *, timeout_ms: int) -> int:
        self.asked.append([part.partition for part in request.partitions])
        empty = pb.PartitionFetched(topic_id=PARTITION.topic_id)
        self._response = pb.FetchResponse()  # of a leader that knows no sessions
        for part in request.partitions:
            self._response.partitions.append(self._answers.pop(part.partition, empty))
            self._response.partitions[-1].partition = part.partition
        return 1

    async def response_to(self, number: int, *, timeout: float) -> pb.FetchResponse:
        return self._response


def fetching(*followed: Replica) -> ReplicaFetcher:
    replicas: Any = Settled()
    seat: Any = Seated()
    fetcher = ReplicaFetcher(Broker(1, 11, "d", "localhost:1"), [1], replicas, seat)
    for replica in followed:
        fetcher.follow(replica)
    return fetcher


async def test_the_responses_of_all_leaders_share_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replication_config, "FETCH_MEMORY_BYTES", 3 << 20)
    replicas: Any = Settled()
    seat: Any = Seated()
    requested = []
    for leaders in ([1], [1, 2, 3]):
        fetcher = ReplicaFetcher(Broker(1, 11, "d", "localhost:1"), leaders, replicas, seat)
        stream: Any = NeverAnswering()
        fetcher.follow(followers(tmp_path / str(len(leaders)), 1)[0])
        fetching = asyncio.create_task(fetcher.round(stream))
        await until(lambda stream=stream: stream.asked)
        requested.append(stream.asked[0].max_bytes)
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        await fetcher.stop()
    assert requested == [3 << 20, 1 << 20]


def followers(path: Path, count: int) -> list[Replica]:
    """As many partitions on broker 2, which follow broker 1."""
    path.mkdir(exist_ok=True)
    around = Brokers(path, (2,)).around[2]
    replicas = []
    for number in range(count):
        log = open_log(path / f"p{number}")
        replicas.append(Replica(PartitionId(PARTITION.topic_id, number), "t", log, around))
        replicas[-1].on_partition(BOTH)
    return replicas


@pytest.mark.story("flush-that-fails-stops-all-fetches")
async def test_a_log_that_can_not_be_flushed_keeps_no_other_from_being_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sick, other = followers(tmp_path, 2)
    sick.log.append(values_batch(b"a"), 1, NOON)
    sick.log.config = replace(SMALL, flush_messages=1)

    def fails(now_ms: int) -> int:
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "no room for its index")

    monkeypatch.setattr(sick.log, "flush", fails)
    fetcher, stream = fetching(sick, other), Scripted()
    streamed: Any = stream
    await fetcher.round(streamed)
    assert stream.asked == [[1]]
    fetcher.leave(other)
    await fetcher.round(streamed)
    assert stream.asked == [[1], []]
    await fetcher.stop()


@pytest.mark.story("fetches-wait-for-cuts")
@pytest.mark.rule(2)
async def test_a_cut_that_takes_long_delays_no_fetch_of_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, other = followers(tmp_path, 2)
    slow.log.append(values_batch(b"another leader's"), 0, NOON)
    cut, reached, gate = slow.log.truncate_to, threading.Event(), threading.Event()

    def waits_for_the_disk(offset: int) -> None:
        reached.set()
        assert gate.wait(20)
        cut(offset)

    monkeypatch.setattr(slow.log, "truncate_to", waits_for_the_disk)
    diverging = pb.PartitionFetched(topic_id=PARTITION.topic_id, partition=0)
    diverging.diverging_epoch.leader_epoch, diverging.diverging_epoch.end_offset = 0, 0
    fetcher, stream = fetching(slow, other), Scripted(diverging)
    streamed: Any = stream
    async with asyncio.timeout(20):
        await fetcher.round(streamed)
        await until(reached.is_set)
        for _ in range(3):
            await fetcher.round(streamed)
        assert stream.asked == [[0, 1], [1], [1], [1]]
        gate.set()
        await slow.disk.until_whole()
        while stream.asked[-1] != [0, 1]:
            await fetcher.round(streamed)
    assert slow.log.log_end_offset == 0
    await fetcher.stop()


@pytest.mark.story("large-answer-is-written-in-one-turn")
async def test_others_have_turns_while_a_large_answer_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, written_at = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    def write(following: Following, *_: object) -> None:
        time.sleep(2 * SLICE_S)
        written_at.append(turns)

    monkeypatch.setattr(Following, "on_fetched", write)
    beside = asyncio.create_task(others())
    fetcher, streamed = fetching(*followers(tmp_path, 4)), cast(Any, Scripted())
    await fetcher.round(streamed)
    assert len(set(written_at)) == 4
    beside.cancel()
    await asyncio.gather(beside, return_exceptions=True)
    await fetcher.stop()


@pytest.mark.story("fetcher-stays-with-a-closed-log")
async def test_a_replica_that_was_opened_anew_in_the_same_epoch_is_the_one_that_follows(tmp_path: Path) -> None:
    [closed] = followers(tmp_path / "1", 1)
    [anew] = followers(tmp_path / "2", 1)
    anew.log.append(values_batch(b"a"), 1, NOON)
    fetcher, stream = fetching(closed), NeverAnswering()
    streamed: Any = stream
    fetcher.follow(anew)
    fetcher.leave(closed)
    round_ = asyncio.create_task(fetcher.round(streamed))
    await until(lambda: stream.asked)
    assert stream.asked[0].partitions[0].fetch_offset == 1
    round_.cancel()
    await asyncio.gather(round_, return_exceptions=True)
    await fetcher.stop()


class Placed:
    """Brokers 1 and 3, at addresses that a test may change; and the replicas of broker 2."""

    def __init__(self, *replicas: Replica) -> None:
        self.image = ClusterImage("c", brokers={n: Broker(n, 10 + n, "d", f"localhost:{n}") for n in (1, 3)})
        self.settings = ReplicationSettings()
        self._replicas = replicas
        self._listeners: list[Callable[[ClusterImage, ClusterImage], None]] = []

    def on_change(self, listener: Callable[[ClusterImage, ClusterImage], None]) -> None:
        self._listeners.append(listener)

    def on_role_change(self, listener: Callable[[Replica], None]) -> None:
        for replica in self._replicas:
            cast(Any, replica)._on_role_change = listener

    @property
    def table(self) -> Placed:
        return self

    def all(self) -> tuple[Replica, ...]:
        return self._replicas

    def become(self, **brokers: str) -> None:
        old = self.image
        registered = {int(n[1:]): Broker(int(n[1:]), 10, "d", address) for n, address in brokers.items()}
        self.image = replace(old, brokers=registered)
        for listener in self._listeners:
            listener(old, self.image)


@pytest.fixture
async def placed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Placed, Replication]]:
    monkeypatch.setattr(ReplicaFetcher, "start", lambda self: None)
    around: Any = Placed(*followers(tmp_path, 2))
    replication = Replication(around, around, cast(Any, Seated()))
    await replication.start()
    yield around, replication
    await replication.stop()


async def test_a_change_of_leader_is_forgotten_by_the_next_request(placed: tuple[Placed, Replication]) -> None:
    """Or a check of leadership would believe a leader whose follower has gone over to the next one already."""
    around, replication = placed
    moved, kept = around.all()
    first = replication._fetchers[1]
    assert [part.partition for part in first._request().partitions] == [0, 1]
    moved.on_partition(replace(BOTH, leader=3, leader_epoch=2))
    request = first._request()
    assert ([p.partition for p in request.forgotten], list(request.partitions)) == ([0], [])
    assert [part.partition for part in replication._fetchers[3]._request().partitions] == [0]
    kept.on_partition(replace(BOTH, leader_epoch=2))
    request = first._request()
    assert [p.partition for p in request.forgotten] == [1]
    assert [(part.partition, part.current_leader_epoch) for part in request.partitions] == [(1, 2)]


async def test_a_leader_is_followed_to_its_new_address_and_awaited_where_it_is_not_known(
    placed: tuple[Placed, Replication],
) -> None:
    around, replication = placed
    before = replication._fetchers[1]
    around.become(_1="localhost:7")
    assert replication._fetchers[1].address == "localhost:7"
    assert replication._fetchers[1] is not before
    assert len(replication._fetchers[1].followed) == 2
    away, _ = around.all()
    away.on_partition(replace(BOTH, leader=9, leader_epoch=2))
    assert 9 not in replication._fetchers
    around.become(_1="localhost:7", _9="localhost:9")
    assert list(replication._fetchers[9].followed) == [away]
    away.close()
    assert 9 not in replication._fetchers


async def test_what_retention_and_readers_change_is_named_again(
    placed: tuple[Placed, Replication], monkeypatch: pytest.MonkeyPatch
) -> None:
    around, replication = placed
    tidied, read = around.all()
    fetcher = replication._fetchers[1]
    fetcher._request()
    monkeypatch.setattr(tidied.log, "delete_old_segments", lambda high_watermark, now_ms: ["by time"])
    tidied.tidy(NOON)
    read.on_reader()
    read.on_reader()
    request = fetcher._request()
    assert [(part.partition, part.has_readers) for part in request.partitions] == [(0, False), (1, True)]
    assert not fetcher._request().partitions


async def test_a_start_that_follows_the_leaders_is_named_though_no_records_came(
    placed: tuple[Placed, Replication],
) -> None:
    around, replication = placed
    replica, _ = around.all()
    replica.log.append(values_batch(b"a"), 1, NOON)
    fetcher = replication._fetchers[1]
    fetcher._request()
    part = pb.PartitionFetched(topic_id=PARTITION.topic_id, high_watermark=1, log_start_offset=1)
    session = pb.FetchSession(responses=1)
    await fetcher._on_response(pb.FetchResponse(partitions=[part], session=session))
    request = fetcher._request()
    assert [(part.partition, part.log_start_offset) for part in request.partitions] == [(0, 1)]
    assert request.follower.session.responses == 1


async def test_another_stream_is_another_session(placed: tuple[Placed, Replication]) -> None:
    _, replication = placed
    fetcher = replication._fetchers[1]
    requests: list[pb.FetchRequest] = []

    async def send(request: pb.FetchRequest, *, timeout_ms: int) -> int:
        requests.append(request)
        raise OttlaError(ErrorCode.NETWORK_EXCEPTION, "the stream is over")

    class Breaking:
        def open_stream(self, method: object) -> object:
            return SimpleNamespace(send=send, close=AsyncMock())

        close = AsyncMock()

    fetcher._peer = cast(Any, Breaking())  # each stream breaks at its first fetch
    running = asyncio.create_task(fetcher._run())
    await until(lambda: len(requests) >= 2)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len({request.follower.session.id for request in requests}) == len(requests)
    assert all(request.follower.session.begins and len(request.partitions) == 2 for request in requests)


@pytest.mark.rule(11)
async def test_another_incarnation_names_everything_anew(placed: tuple[Placed, Replication]) -> None:
    """Or partitions in which nothing happens would stay those of the former one, which may join no ISR any more."""
    _, replication = placed
    fetcher, stream = replication._fetchers[1], NeverAnswering()
    for epoch in (12, 12, 15):
        registration: Any = SimpleNamespace(secret=b"proof", current=lambda epoch=epoch: BrokerEpoch(2, epoch))
        fetcher._registration = registration
        round_ = asyncio.create_task(fetcher.round(cast(Any, stream)))
        asked = len(stream.asked)
        await until(lambda asked=asked: len(stream.asked) > asked)
        round_.cancel()
        await asyncio.gather(round_, return_exceptions=True)
    first, second, anew = stream.asked
    assert [len(request.partitions) for request in stream.asked] == [2, 0, 2]
    assert [request.follower.session.begins for request in stream.asked] == [True, False, True]
    assert first.follower.session.id == second.follower.session.id != anew.follower.session.id
    assert anew.follower.broker_epoch == 15


async def test_an_error_of_a_log_that_was_closed_leaves_out_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The partition went away and came back while the log was flushed."""
    [closed] = followers(tmp_path / "1", 1)
    [anew] = followers(tmp_path / "2", 1)
    closed.log.append(values_batch(b"a"), 1, NOON)
    closed.log.config = replace(SMALL, flush_messages=1)
    fetcher, stream = fetching(closed), Scripted()

    async def fails() -> None:
        fetcher.leave(closed)
        fetcher.follow(anew)
        raise OttlaError(ErrorCode.KAFKA_STORAGE_ERROR, "closed")

    monkeypatch.setattr(closed.disk, "flushed", fails)
    await fetcher.round(cast(Any, stream))
    assert stream.asked == [[0]]
    await fetcher.stop()


async def test_a_response_that_is_near_is_taken_though_something_else_is_to_be_said(tmp_path: Path) -> None:
    """Or no response would ever be taken while leaders change faster than one crosses."""
    fetcher, stream = fetching(*followers(tmp_path, 1)), Scripted()
    at_once = stream.response_to

    async def soon(number: int, *, timeout: float) -> pb.FetchResponse:
        fetcher._changed.set()
        for _ in range(10):
            await asyncio.sleep(0)
        response = await at_once(number, timeout=timeout)
        response.session.responses = 7
        return response

    stream.response_to = soon
    await fetcher.round(cast(Any, stream))
    assert fetcher._leader.responses == 7
    await fetcher.stop()
