"""Compacted topics as their users see them: the newest value of each key, on every replica, at the offsets it had."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from batches import with_fresh_crc
from kafka_clients import CLIENTS, Client
from waiting import wait_until

import ottla
from ottla.testing import Cluster
from ottla_broker.compaction.cleaner import LogCleaner
from ottla_core.model import TopicPartition
from ottla_core.records.batch import iter_headers

pytestmark = pytest.mark.rule(62)

TABLE = {"cleanup.policy": "compact", "segment.bytes": 20_000, "min.cleanable.dirty.ratio": 0}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.configs.set({"log.cleaner.backoff.ms": 100})
        yield cluster


@pytest.fixture
def alone() -> Iterator[tuple[Cluster, ottla.Admin]]:
    """A broker whose clock a test may move."""
    with Cluster() as cluster, ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"log.cleaner.backoff.ms": 100})
        yield cluster, admin


def make(admin: ottla.Admin, topic: str, *, replicas: int = 3, **config: object) -> None:
    admin.topics.create(topic, partitions=1, replicas=replicas, config=TABLE | config)


def produce(cluster: Cluster, topic: str, rows: dict[str, str | None], *, rounds: int = 1) -> None:
    """So many times, a batch of a few kilobytes at a time."""
    with ottla.Producer(cluster.bootstrap, topic=topic, value="str", acks="all", batch_size=4_000) as producer:
        for number in range(rounds):
            for key, value in rows.items():
                producer.send(None if value is None else f"{value} of round {number}", key=key)


def records(cluster: Cluster, topic: str) -> list[ottla.Record[str, str]]:
    with ottla.Consumer(topic, bootstrap=cluster.bootstrap, start="earliest", stop="end", value="str") as consumer:
        return list(consumer)


def sizes(admin: ottla.Admin, topic: str) -> list[int]:
    """Return the size of each replica, in bytes."""
    found = [admin.cluster.log_dirs(broker.id) for broker in admin.cluster.describe().brokers]
    return [size for [log_dir] in found for p, size in log_dir.replica_bytes.items() if p.topic == topic]


def is_clean(cluster: Cluster, topic: str) -> bool:
    """Whether nothing of it changes any more before the next record."""
    apps = [broker._app for broker in cluster.brokers]
    cleaners = [part for app in apps if app for part in app._components if isinstance(part, LogCleaner)]
    logs = [replica.log for c in cleaners for replica in list(c._replicas.all()) if replica.topic == topic]
    return all(log.compaction.first_dirty_offset == log.segments[-1].base_offset for log in logs)


def until_compacted(admin: ottla.Admin, topic: str, below_bytes: int) -> None:
    wait_until(lambda: all(size < below_bytes for size in sizes(admin, topic)))


@pytest.mark.feature(95)
def test_every_replica_keeps_the_newest_value_of_each_key(cluster: Cluster, admin: ottla.Admin) -> None:
    make(admin, "prices")
    rows: dict[str, str | None] = {f"key {n}": f"value {n}" for n in range(100)}
    produce(cluster, "prices", rows, rounds=60)
    produce(cluster, "prices", {"key 0": "the last"})
    table = {f"key {n}": (5_900 + n, f"value {n} of round 59") for n in range(100)}
    table["key 0"] = 6_000, "the last of round 0"
    until_compacted(admin, "prices", 60_000)  # of 120,000 and more
    left = records(cluster, "prices")
    assert len(left) < 3_000
    assert {record.key: (record.offset, record.value) for record in left} == table
    assert admin.topics.offsets("prices") == {0: 6_001}
    [partition] = admin.topics.describe("prices")[0].partitions
    leader = cluster.brokers[partition.leader]
    leader.kill()
    try:
        assert {record.key: (record.offset, record.value) for record in records(cluster, "prices")} == table
    finally:
        leader.restart()


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_kafkas_clients_read_what_is_left(cluster: Cluster, admin: ottla.Admin, client: Client) -> None:
    topic = f"left-{client.name}"
    make(admin, topic)
    produce(cluster, topic, {f"key {n}": f"value {n}" for n in range(100)}, rounds=30)
    produce(cluster, topic, {f"key {n}": None for n in range(0, 100, 2)})
    produce(cluster, topic, {"other": "x" * 100}, rounds=200)
    until_compacted(admin, topic, 60_000)
    wait_until(lambda: is_clean(cluster, topic))
    expected = [(r.key, r.value) for r in records(cluster, topic)]
    found = client.consume(cluster.bootstrap, topic, len(expected))
    assert [(r.key and r.key.decode(), r.value and r.value.decode()) for r in found] == expected


@pytest.mark.feature(100)
def test_a_tombstone_goes_when_its_time_is_over_and_not_before(alone: tuple[Cluster, ottla.Admin]) -> None:
    cluster, admin = alone
    make(admin, "forgotten", replicas=1, **{"delete.retention.ms": "1h"})
    produce(cluster, "forgotten", {"gone": "value"})
    produce(cluster, "forgotten", {"gone": None})
    produce(cluster, "forgotten", {"kept": "value" * 20}, rounds=300)
    until_compacted(admin, "forgotten", 30_000)
    assert [r.value for r in records(cluster, "forgotten") if r.key == "gone"] == [None]
    produce(cluster, "forgotten", {"kept": "value" * 20}, rounds=300)
    until_compacted(admin, "forgotten", 30_000)
    assert [r.value for r in records(cluster, "forgotten") if r.key == "gone"] == [None]
    cluster.clock.move(timedelta(hours=1))

    def cleaned_again() -> bool:
        produce(cluster, "forgotten", {"kept": "value" * 20}, rounds=100)
        return not [r for r in records(cluster, "forgotten") if r.key == "gone"]

    wait_until(cleaned_again)


def test_a_coordinator_loads_what_compaction_left(cluster: Cluster, admin: ottla.Admin) -> None:
    """Its own topic is compacted, too: each group's newest commits are there after a takeover, whatever went."""
    admin.topics.create("read", partitions=20)
    admin.configs.set({"segment.bytes": 20_000}, topic="__consumer_offsets")
    for number in range(200):
        for group in ("one", "two"):
            admin.groups.commit(group, {TopicPartition("read", n): number for n in range(20)})
    until_compacted(admin, "__consumer_offsets", 150_000)  # of 280,000 in two of its partitions
    cluster.group_coordinators[0].restart()
    for group in ("one", "two"):
        assert admin.groups.committed(group) == {TopicPartition("read", n): 199 for n in range(20)}
    admin.groups.commit("one", {TopicPartition("read", 0): 200})
    assert admin.groups.committed("one")[TopicPartition("read", 0)] == 200


def test_a_log_with_records_without_keys_is_named_until_they_are_gone(alone: tuple[Cluster, ottla.Admin]) -> None:
    """They were written before the topic became compacted."""
    cluster, admin = alone
    admin.topics.create("late", partitions=1, replicas=1, config={"segment.bytes": 20_000})
    cluster.produce("late", ["no key"])
    produce(cluster, "late", {"key": "value" * 20}, rounds=500)
    admin.configs.set({**TABLE, "compaction.drop.keyless": "false"}, topic="late")

    def reasons() -> list[str]:
        found = [admin.cluster.log_dirs(broker.id) for broker in admin.cluster.describe().brokers]
        return [reason for [log_dir] in found for reason in log_dir.uncleanable.values()]

    wait_until(lambda: bool(reasons()))
    [reason] = reasons()
    assert "the record at offset 0 has no key" in reason
    assert len(records(cluster, "late")) == 501
    admin.configs.set({"compaction.drop.keyless": "true"}, topic="late")
    cluster.clock.move(timedelta(minutes=11))  # it is not tried again all the time
    wait_until(lambda: not reasons())
    assert "no key" not in [record.value for record in records(cluster, "late")]


@pytest.mark.feature(115)
def test_replicas_are_compared_while_they_are_cleaned(cluster: Cluster, admin: ottla.Admin) -> None:
    """Each cleans at its own times, so they are not equal byte for byte; a newest value that one has lost is found."""
    make(admin, "compared")
    rows: dict[str, str | None] = {f"key {n}": f"value {n}" for n in range(50)}
    produce(cluster, "compared", {"lost": "once, long ago"})
    for _ in range(10):
        produce(cluster, "compared", rows | {"key 7": None}, rounds=20)
        found = admin.partitions.verify_replicas("compared", 0)
        assert found.is_good, found
    until_compacted(admin, "compared", 60_000)
    found = admin.partitions.verify_replicas("compared", 0)
    assert (found.is_good, found.end) == (True, 10_001)
    [topic] = admin.topics.describe("compared")
    liar = cluster.brokers[(topic.partitions[0].leader + 1) % 3]
    liar.stop()
    [log, *_] = sorted((liar.data_dir / f"{topic.id.replace('-', '')}-0").glob("*.log"))
    first, header = next(iter_headers(data := log.read_bytes()))
    key, value = b"lost", b"LOST"
    at = data.index(key, first, header.size_bytes)
    log.write_bytes(with_fresh_crc(data[:at] + value + data[at + 4 : header.size_bytes]) + data[header.size_bytes :])
    liar.restart()
    wait_until(lambda: len(admin.topics.describe("compared")[0].partitions[0].isr) == 3)
    difference = admin.partitions.verify_replicas("compared", 0).differences[liar.id]
    assert (difference.what, difference.offset) == ("key", 0)
