"""What Kafka promises in a sentence, on three brokers: whom one may ask, what one replica is worth, what stays."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from waiting import LIMIT_S, wait_until
from wire import Wire, batch

import ottla
from ottla.testing import Cluster
from ottla_proto.contracts import Broker

PARTITIONS = 6
LEADERS = {0, 1, 2}


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        yield cluster


def topic_of(cluster: Cluster, **settings: object) -> bytes:
    """The id of topic t, once every broker knows the leaders of its partitions."""
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("t", **settings)  # type: ignore[arg-type]  # whatever the test wants
    for broker in cluster.brokers:
        with Wire(broker.kafka_address) as wire:
            wait_until(lambda w=wire: {p.leader for p in w.metadata("t").topics["t"].partitions} <= LEADERS)
            topic_id = wire.metadata("t").topics["t"].id
    return topic_id


def values(cluster: Cluster) -> list[int]:
    return [record.value for record in cluster.read("t", value="int")]


@pytest.mark.feature(132)
def test_each_broker_alone_knows_all_of_the_metadata(cluster: Cluster) -> None:
    topic_of(cluster, partitions=PARTITIONS)
    cluster.run(cluster.faults.pause("controller-0"))
    for broker in cluster.brokers:
        broker.pause()
    told = []
    for broker in cluster.brokers:
        broker.resume()
        with Wire(broker.kafka_address) as wire:
            told.append(wire.metadata("t"))
        broker.pause()
    cluster.run(cluster.faults.resume("controller-0"))
    for broker in cluster.brokers:
        broker.resume()
    for view in told:
        assert sorted(b.address for b in view.brokers.values()) == sorted(b.kafka_address for b in cluster.brokers)
        (topic,) = view.topics.values()
        assert {p.leader for p in topic.partitions} == LEADERS, "others' partitions, too"
        assert topic == told[0].topics["t"]


@pytest.mark.feature(1)
@pytest.mark.parametrize("number", sorted(LEADERS))
def test_one_broker_of_the_list_suffices_and_names_the_others(cluster: Cluster, number: int) -> None:
    topic_of(cluster, partitions=PARTITIONS)
    dead = "localhost:1"
    address = cluster.brokers[number].kafka_address
    for bootstrap in (address, f"{dead},{address}"):
        with ottla.Producer(bootstrap, topic="t", value="int") as producer:
            places = [producer.send(n, partition=n).result(timeout=LIMIT_S) for n in range(PARTITIONS)]
        assert [place.partition for place in places] == list(range(PARTITIONS)), "each taken by the one that leads it"
        with ottla.Consumer("t", bootstrap=bootstrap, start="earliest", stop="end", value="int") as consumer:
            assert {record.value for record in consumer} == set(range(PARTITIONS))


@pytest.mark.feature(131)
def test_consumers_and_followers_ask_by_the_same_request(cluster: Cluster) -> None:
    topic_of(cluster, replicas=3)
    assert Broker.FETCH.request is Broker.REPLICA_FETCH.request, "two streams, so that neither waits for the other"
    asked = {who: cluster.faults.delay("ReplicaFetch", 0).of(who) for who in ("replica-0", "replica-1", "replica-2")}
    asked["reader"] = cluster.faults.delay("Fetch", 0).of("reader")
    cluster.produce("t", range(100), value="int")
    assert [r.value for r in cluster.read("t", value="int", client_id="reader")] == list(range(100))
    leader = ottla.Admin(cluster.bootstrap).topics.describe("t")[0].partitions[0].leader
    followers = [f"replica-{n}" for n in LEADERS - {leader}]
    wait_until(lambda: all(asked[who].met > 0 for who in (*followers, "reader")))


@pytest.mark.feature(107, 177)
def test_what_three_replicas_have_one_of_them_is_enough_to_keep(cluster: Cluster) -> None:
    topic_of(cluster, replicas=3, config={"min.insync.replicas": 1})
    admin = ottla.Admin(cluster.bootstrap)
    partition = admin.topics.describe("t")[0].partitions[0]
    assert set(partition.replicas) == LEADERS, "the leader is one of them"
    with ottla.Producer(cluster.bootstrap, topic="t", value="int") as producer:
        for n in range(100):
            producer.send(n)
        producer.flush()
        for dead in (1, 2):  # leaders, whoever leads then
            leader = admin.topics.describe("t")[0].partitions[0].leader
            cluster.brokers[leader].kill()
            producer.send(99 + dead).result(timeout=LIMIT_S)
    assert values(cluster) == list(range(102))
    admin.close()


@pytest.mark.feature(181)
def test_what_is_written_stays_as_it_is_and_is_read_again_until_retention_takes_it(cluster: Cluster) -> None:
    topic_id = topic_of(cluster, config={"retention.ms": "86400000"})
    with ottla.Admin(cluster.bootstrap) as admin:
        leader = cluster.brokers[admin.topics.describe("t")[0].partitions[0].leader]
        admin.topics.create("brief", assignments={0: [leader.id]}, config={"retention.ms": "1000"})
    now_ms = cluster.clock.wall_ms()

    def read() -> bytes:
        """The bytes of the first ten batches."""
        with Wire(leader.kafka_address) as wire:
            wait_until(lambda: wire.end_offset(topic_id) is not None)
            return b"".join(wire.fetch(topic_id, n, max_bytes=1).records for n in range(10))

    def move_and_let_retention_look_at_all(hours: int) -> None:
        for _ in range(2):  # the first may go in the middle of a look
            with ottla.Producer(cluster.bootstrap, topic="brief") as producer:
                producer.send(b"gone", timestamp=now_ms).result(timeout=LIMIT_S)
            cluster.clock.move(timedelta(hours=hours / 2))  # now: who looks before the record is there looks too early
            wait_until(lambda: cluster.read("brief") == [])

    with Wire(leader.kafka_address) as wire:
        for n in range(10):
            wire.produce(topic_id, batch(b"%d" % n, timestamp_ms=now_ms))
    first = read()
    assert len(first) > 600
    cluster.produce("t", range(100), value="int")
    assert read() == first
    leader.kill()
    leader.restart()
    assert read() == first
    move_and_let_retention_look_at_all(hours=12)
    assert read() == first
    cluster.clock.move(timedelta(hours=13))
    wait_until(lambda: cluster.read("t") == [])
