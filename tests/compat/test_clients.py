"""Unchanged Kafka clients against a cluster: what each can do, one by one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import pytest
from peers.client import ADMIN_STEPS, Client, Rec
from tests.compat.cells import SDK, each
from tests.compat.crossing import BASE_MS, untimed
from tests.compat.topics import Topics
from waiting import wait_until

from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PLAIN = [Rec(b"k-%d" % n, b"value-%d" % n, (), BASE_MS + n) for n in range(50)]


@pytest.mark.rule(66)
@pytest.mark.parametrize("acks", [0, 1, -1])
@each("acks")
def test_acks(cluster: Cluster, topics: Topics, topic: str, client: Client, acks: int) -> None:
    offsets = client.produce(cluster.bootstrap, topic, PLAIN, acks=acks)
    assert offsets == ([-1] * len(PLAIN) if acks == 0 else list(range(len(PLAIN))))
    wait_until(lambda: topics.end(topic) == len(PLAIN))
    assert untimed(client.consume(cluster.bootstrap, topic, len(PLAIN))) == untimed(PLAIN)


@each("offset")
def test_from_an_offset(cluster: Cluster, topic: str, client: Client) -> None:
    write(cluster, topic, PLAIN)
    assert client.consume(cluster.bootstrap, topic, 3, offset=20) == PLAIN[20:23]


@each("time")
def test_from_a_time(cluster: Cluster, topic: str, client: Client) -> None:
    write(cluster, topic, PLAIN)
    assert client.offset_for_time(cluster.bootstrap, topic, BASE_MS + 30) == 30
    assert client.offset_for_time(cluster.bootstrap, topic, BASE_MS + 1_000) in (None, len(PLAIN))


@each("idempotence")
def test_an_idempotent_producer(cluster: Cluster, topic: str, client: Client) -> None:
    assert client.produce(cluster.bootstrap, topic, PLAIN, idempotent=True) == list(range(len(PLAIN)))
    assert [r.value for r in cluster.read(topic, value="bytes")] == [r.value for r in PLAIN]


@each("large")
def test_large_messages(cluster: Cluster, topics: Topics, client: Client) -> None:
    topic = topics.create(config={"max.message.bytes": "6000000"})
    records = [Rec(b"large", bytes([n]) * 5_000_000) for n in range(3)]
    client.produce(cluster.bootstrap, topic, records)
    assert untimed(client.consume(cluster.bootstrap, topic, 3)) == untimed(records)


@each("partitions")
def test_many_partitions(cluster: Cluster, wide_topic: str, client: Client) -> None:
    """A key has its partition; each partition has its order; nothing is left out."""
    topic = wide_topic
    records = [Rec(b"key-%d" % (n % 300), b"%d" % n, (), BASE_MS + n) for n in range(1200)]
    client.produce(cluster.bootstrap, topic, records, partition=-1)
    stored = cluster.read(topic, key="bytes", value="bytes")
    partitions = {(r.key, r.partition) for r in stored}
    assert len(partitions) == 300, "records with the same key are in one partition"
    assert len({partition for _, partition in partitions}) > 50
    got = client.consume(cluster.bootstrap, topic, len(records), partitions=100)
    assert by_key(untimed(got)) == by_key(untimed(records))


@each("admin")
def test_administration(cluster: Cluster, topics: Topics, client: Client) -> None:
    topic = topics.create()
    did = client.admin_round_trip(cluster.bootstrap, f"{topic}-of-{client.name}")
    assert {*did, "delete records"} == set(ADMIN_STEPS), "some clients know no DeleteRecords; they all know the rest"
    assert not topics.exists(f"{topic}-of-{client.name}")


@pytest.mark.rule(27)
@each("failover")
def test_the_leader_dies_in_the_middle(three_brokers: Cluster, client: Client) -> None:
    """Every acknowledged record is there once, in order."""
    with Topics(three_brokers.bootstrap) as topics:
        topic = topics.create(replicas=3)
        leader = three_brokers.brokers[topics.leader(topic)]

        def records() -> Iterator[Rec]:
            for n in range(600):
                if n == 300:
                    wait_until(lambda: topics.end(topic) > 0)  # it is in the middle
                    leader.kill()
                yield Rec(None, b"%d" % n)

        offsets = client.produce(three_brokers.bootstrap, topic, records(), idempotent=True)
        assert offsets == list(range(600))
        wanted = [b"%d" % n for n in range(600)]
        assert [r.value for r in client.consume(three_brokers.bootstrap, topic, 600)] == wanted


@pytest.fixture
def wide_topic(topics: Topics) -> Iterator[str]:
    """A topic of 100 partitions, deleted right after use, because a broker that stops closes partitions one by one."""
    topic = topics.create(partitions=100)
    yield topic
    topics.delete(topic)


@pytest.fixture
def three_brokers() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def write(cluster: Cluster, topic: str, records: list[Rec]) -> None:
    """By the SDK: for tests of readers."""
    SDK.open().produce(cluster.bootstrap, topic, records)


def timeless(records: list[Rec]) -> list[Rec]:
    """Not every client can say its records' timestamps; test_crossing.py has those that can."""
    return [r._replace(timestamp_ms=0) for r in records]


def by_key(records: list[Rec]) -> dict[bytes | None, list[Rec]]:
    found: dict[bytes | None, list[Rec]] = defaultdict(list)
    for record in records:
        found[record.key].append(record)
    return found
