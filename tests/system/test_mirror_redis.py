"""A mirror's offsets in Redis: the same as the mirror's own, and as soon as they can't be, not given out."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from mirror_process import MirrorProcess
from mirrors import brokers_that_know, copied, mirrored
from redis_server import RedisServer
from tests.walk.pages import programs, text
from waiting import wait_until

import ottla
import ottla.aio
from ottla.mirror.redis_offsets import RedisKeys, RedisOffsets
from ottla.testing import Cluster
from ottla_mirror.flow import Flow

FLOW = "east->west"
KEYS = RedisKeys(FLOW)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """The source: `east`."""
    with Cluster(brokers=1, txn_coordinators=1) as running:
        yield running


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path) as running:
        yield running


@pytest.fixture
def offsets(redis: RedisServer) -> Iterator[RedisOffsets]:
    """What Redis itself says."""
    found = RedisOffsets(redis.url, 5.0)
    yield found
    found.close()


def write_transactions(east: Cluster, topic: str, first: int, count: int) -> None:
    """A few records in each, so that offsets in the copy differ more and more."""
    with ottla.Producer(east.bootstrap, topic=topic, transactional_id=f"t-{topic}") as producer:
        for start in range(first, first + count, 5):
            with producer.transaction() as transaction:
                for n in range(start, min(start + 5, first + count)):
                    transaction.send(f"{n}", partition=n % 2)


def write(east: Cluster, topic: str, values: Sequence[str]) -> None:
    """Into the first partition."""
    with ottla.Producer(east.bootstrap, topic=topic) as producer:
        for value in values:
            producer.send(value, partition=0)


def is_same(offsets: RedisOffsets, flow: Flow, topic: str) -> bool:
    """Whether Redis translates each offset of both partitions as the mirror does, and beyond their ends."""
    for source in (ottla.TopicPartition(topic, number) for number in range(2)):
        for at in range(flow.syncs.end(source) + 5):
            expected = flow.syncs.translate(source, at)
            copy = ottla.TopicPartition(f"east.{topic}", source.partition)
            if offsets.translate(FLOW, {source: at}) != (None if expected is None else {copy: expected}):
                return False
    return True


def until_same(offsets: RedisOffsets, flow: Flow, topic: str, count: int) -> None:
    """Once so many offsets of both partitions are synced."""
    wait_until(lambda: sum(flow.syncs.end(ottla.TopicPartition(topic, number)) for number in range(2)) >= count)
    wait_until(lambda: is_same(offsets, flow, topic))


def test_the_programs_of_the_page(cluster: Cluster, topic: str, redis: RedisServer, tmp_path: Path) -> None:
    """Into a cluster of its own: a flow that failed over stays so there."""
    source, copy, group = ottla.TopicPartition(topic, 0), ottla.TopicPartition(f"east.{topic}", 0), f"g-{topic}"
    write(cluster, topic, [str(n) for n in range(50)])
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.groups.commit(group, {source: 30})
    with (
        Cluster(brokers=1, txn_coordinators=1) as west,
        MirrorProcess(tmp_path, cluster.bootstrap, west.bootstrap, topic, redis=redis.url) as mirror,
        brokers_that_know(mirror.address) as brokers,
    ):
        wait_until(lambda: redis.client.hgetall(KEYS.group(group)) == {f"{copy.topic}:0": "30"})
        by_brokers, with_redis = programs(text("docs/operate/mirror.md"))
        for program in (with_redis, by_brokers):
            for name, here in (
                ("broker-0:9092", brokers.bootstrap),
                ("redis://cache:6379/0", redis.url),
                ('"orders", 3', f'"{topic}", 0'),
                ("41200", "20"),
                ("billing", group),
            ):
                program = program.replace(name, here)
            exec(program, {})
        with ottla.Admin(west.bootstrap) as admin:
            assert admin.groups.committed(group) == {copy: 30}


def written(redis: RedisServer) -> tuple[str, int]:
    """By which mirror, and how often."""
    name, _, number = redis.client.get(KEYS.writer).partition(":")
    return name, int(number)


@pytest.mark.parametrize("delivery", ["at_least_once", "exactly_once", "same_offsets"])
def test_redis_translates_every_offset_as_the_mirror_does(
    cluster: Cluster, west: Cluster, topic: str, redis: RedisServer, offsets: RedisOffsets, delivery: str
) -> None:
    write_transactions(cluster, topic, 0, 200)
    with mirrored(cluster, west, topic, delivery, redis=redis.url) as (flow,):
        until_same(offsets, flow, topic, 200)
        write_transactions(cluster, topic, 200, 50)
        until_same(offsets, flow, topic, 250)
        assert offsets.translate(FLOW, {ottla.TopicPartition("another", 0): 1}) is None
        assert offsets.translate("north->west", {ottla.TopicPartition(topic, 0): 1}) is None
        wait_until(lambda: flow.trouble == "")


def test_a_program_looks_up_in_redis_and_asks_the_mirror_where_that_is_away_or_does_not_know(
    cluster: Cluster, west: Cluster, topic: str, redis: RedisServer, tmp_path: Path
) -> None:
    source, copy = ottla.TopicPartition(topic, 0), ottla.TopicPartition(f"east.{topic}", 0)
    write(cluster, topic, [str(n) for n in range(50)])
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.groups.commit(f"g-{topic}", {source: 30})
    with (
        MirrorProcess(tmp_path, cluster.bootstrap, west.bootstrap, topic, redis=redis.url) as mirror,
        ottla.MirrorClient(mirror.address, redis=redis.url) as client,
    ):
        wait_until(lambda: redis.client.hgetall(KEYS.group(f"g-{topic}")) == {f"{copy.topic}:0": "30"})
        wait_until(lambda: redis.client.zrange(KEYS.offsets(*source), 0, -1) == ["0 0 50"])
        redis.client.zadd(KEYS.offsets(*source), {"0 5 50": 0})  # to be told from what the mirror says
        redis.client.zrem(KEYS.offsets(*source), "0 0 50")
        redis.client.hset(KEYS.group(f"g-{topic}"), f"{copy.topic}:0", 31)
        assert client.translate(FLOW, {source: 20}) == {copy: 25}
        assert client.positions(FLOW, f"g-{topic}") == {copy: 31}
        assert mirror.client.translate(FLOW, {source: 20}) == {copy: 20}
        assert mirror.client.positions(FLOW, f"g-{topic}") == {copy: 30}
        assert client.positions(FLOW, "another") == {}
        with pytest.raises(ottla.UnknownTopicError, match="is not copied"):
            client.translate(FLOW, {source: 20, ottla.TopicPartition("another", 0): 1})

        async def look_up() -> tuple[Any, Any]:
            async with ottla.aio.MirrorClient(mirror.address, redis=redis.url) as one:
                return await one.translate(FLOW, {source: 20}), await one.positions(FLOW, f"g-{topic}")

        assert asyncio.run(look_up()) == ({copy: 25}, {copy: 31})
        redis.kill()
        assert client.translate(FLOW, {source: 20}) == {copy: 20}, "the mirror serves"
        assert client.positions(FLOW, f"g-{topic}") == {copy: 30}
        wait_until(lambda: "Redis" in mirror.flow().trouble)
        write(cluster, topic, ["more"] * 50)
        wait_until(lambda: len(copied(west, topic)) == 100)
        redis.start()
        wait_until(lambda: redis.client.zrange(KEYS.offsets(*source), 0, -1) == ["0 0 100"])
        assert redis.client.hgetall(KEYS.group(f"g-{topic}")) == {f"{copy.topic}:0": "30"}
        wait_until(lambda: mirror.flow().trouble == "")
        mirror.terminate()
        redis.client.set(KEYS.current, 1, px=60_000)
        assert client.translate(FLOW, {source: 20}) == {copy: 20}, "Redis serves without a mirror"
        redis.client.delete(KEYS.current)
        with pytest.raises(ottla.ConnectError):
            client.translate(FLOW, {source: 20})


def test_what_is_no_longer_renewed_is_soon_no_longer_current(
    cluster: Cluster, west: Cluster, topic: str, redis: RedisServer, offsets: RedisOffsets
) -> None:
    write(cluster, topic, ["a"])
    with mirrored(cluster, west, topic, "at_least_once", redis=redis.url) as (flow,):
        wait_until(lambda: offsets.translate(FLOW, {ottla.TopicPartition(topic, 0): 0}))
        flow.state.leads = False
        wait_until(lambda: offsets.translate(FLOW, {ottla.TopicPartition(topic, 0): 0}) is None)
        assert redis.client.exists(KEYS.offsets(topic, 0))


@pytest.mark.parametrize("loss", ["empty", "old dump", "flushed", "another writer"])
def test_redis_that_is_not_as_it_was_left_is_written_anew(
    cluster: Cluster, west: Cluster, topic: str, redis: RedisServer, offsets: RedisOffsets, loss: str
) -> None:
    write_transactions(cluster, topic, 0, 50)
    with mirrored(cluster, west, topic, "exactly_once", redis=redis.url) as (flow,):
        until_same(offsets, flow, topic, 50)
        if loss == "old dump":
            redis.client.zadd(KEYS.offsets("gone", 0), {"0 0 9": 0})
            redis.save()
        write_transactions(cluster, topic, 50, 50)
        until_same(offsets, flow, topic, 100)
        match loss:
            case "flushed":
                redis.client.flushall()
            case "another writer":
                redis.client.zadd(KEYS.offsets(topic, 0), {"40 4000 60": 40})
                redis.client.set(KEYS.writer, "another")
                redis.client.delete(KEYS.current)
            case _:
                redis.kill()
                redis.start()
        until_same(offsets, flow, topic, 100)
        assert not redis.client.exists(KEYS.offsets("gone", 0))
        assert redis.client.zcard(KEYS.offsets(topic, 0)) == redis.client.zcount(KEYS.offsets(topic, 0), 0, 200)


def test_a_topic_that_was_made_anew_has_nothing_of_the_former_one_in_redis(
    cluster: Cluster, west: Cluster, topic: str, admin: ottla.Admin, redis: RedisServer, offsets: RedisOffsets
) -> None:
    name = f"{topic}-anew"
    admin.topics.create(name, partitions=2)
    write_transactions(cluster, name, 0, 100)
    with mirrored(cluster, west, name, "at_least_once", redis=redis.url) as (flow,):
        until_same(offsets, flow, name, 100)
        admin.topics.delete(name)
        wait_until(lambda: not admin.topics.exists(name))
        admin.topics.create(name, partitions=2)
        write(cluster, name, [f"new {n}" for n in range(20)])
        wait_until(lambda: len(copied(west, name)) == 120)
        at = {record.value: record.offset for record in copied(west, name)}
        source, copy = ottla.TopicPartition(name, 0), ottla.TopicPartition(f"east.{name}", 0)
        wait_until(lambda: offsets.translate(FLOW, {source: 19}) == {copy: at[b"new 19"]})
        assert redis.client.zcard(KEYS.offsets(*source)) == 1


def members(west: Cluster) -> int:
    """Return the number of members of the flow's group, or 0 while it rebalances."""
    with ottla.Admin(west.bootstrap) as admin:
        group = admin.groups.describe("ottla-mirror.east.west")
    return len(group.members) if group.state == "Stable" else 0


def test_of_two_mirrors_the_leader_writes_and_the_other_one_goes_on_where_it_has_died(
    cluster: Cluster, west: Cluster, topic: str, redis: RedisServer, offsets: RedisOffsets
) -> None:
    write_transactions(cluster, topic, 0, 50)
    with mirrored(cluster, west, topic, "exactly_once", mirrors=2, redis=redis.url) as flows:
        wait_until(lambda: members(west) == 2 and sum(len(flow.partitions) for flow in flows) == 2)
        wait_until(lambda: [flow.state.leads for flow in flows].count(True) == 1)
        leader, other = sorted(flows, key=lambda flow: not flow.state.leads)
        until_same(offsets, leader, topic, 50)
        (run, first), runs = written(redis), set[str]()

        def has_written(times: int) -> bool:
            name, number = written(redis)
            runs.add(name)
            return number >= first + times

        wait_until(lambda: has_written(6))
        assert runs == {run}, "one of them alone"
        leader.stop()
        write_transactions(cluster, topic, 50, 50)
        until_same(offsets, other, topic, 100)
        assert written(redis)[0] != run


def test_a_mirror_that_no_longer_leads_and_does_not_know_it_writes_nothing_over_what_is_newer(
    cluster: Cluster, west: Cluster, topic: str, redis: RedisServer, offsets: RedisOffsets
) -> None:
    """Two that both believe to lead: whatever they write in turn, Redis never goes back."""
    with mirrored(cluster, west, topic, "exactly_once", mirrors=2, redis=redis.url) as flows:
        wait_until(lambda: any(flow.state.leads for flow in flows))
        for flow in flows:
            flow.state.leads = True
        source, copy, last = ottla.TopicPartition(topic, 0), ottla.TopicPartition(f"east.{topic}", 0), -1
        for number in range(20):
            write(cluster, topic, [f"{n}" for n in range(20)])
            end = 20 * (number + 1)
            while last < flows[0].syncs.end(source) - 20 or last < 0:
                found = offsets.translate(FLOW, {source: end})
                if found is not None:
                    assert found[copy] >= last
                    last = found[copy]
                wait_until(lambda: flows[0].syncs.end(source) > 0)
        for flow in flows:
            assert "bug" not in flow.trouble


def test_without_a_url_no_redis_is_needed(
    cluster: Cluster, west: Cluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)  # as if it was not installed
    write(cluster, topic, ["a"])
    with mirrored(cluster, west, topic, "at_least_once") as (flow,):
        wait_until(lambda: len(copied(west, topic)) == 1)
        wait_until(lambda: flow.trouble == "")
    with pytest.raises(ottla.ConfigError, match=r"redis is not installed.*pip install 'ottla\[redis\]'"):
        ottla.MirrorClient("localhost:1", redis="redis://localhost:6379/0")
