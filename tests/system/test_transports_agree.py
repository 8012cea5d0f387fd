"""Admin returns the same over Kafka's protocol as over gRPC: what Kafka's messages lack is in private fields."""

from __future__ import annotations

import inspect
import itertools
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from transports import Addresses
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.transport import grpc_transport
from ottla.connect import PreparedTransaction
from ottla.errors import OttlaError
from ottla.testing import Cluster
from ottla_broker.replication.replica import Replica
from ottla_broker.storage.compaction import Compaction
from ottla_core.model import TopicPartition

WITHOUT_EFFECT = {"preallocate": "true"}

_names = (f"t{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2, txn_coordinators=1) as running:
        yield running


@pytest.fixture(scope="module")
def of_grpc(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.grpc_bootstrap, _transport=grpc_transport("admin")) as admin:
        yield admin


@pytest.fixture(scope="module")
def of_kafka(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap, _transport=KafkaTransport("admin")) as admin:
        yield admin


@pytest.fixture
def name() -> str:
    return next(_names)


def test_configs(of_grpc: ottla.Admin, of_kafka: ottla.Admin, name: str) -> None:
    of_grpc.topics.create(name, config={"retention.ms": "7d"})
    assert of_kafka.configs.get(topic=name) == of_grpc.configs.get(topic=name)
    assert of_kafka.configs.get(broker=1) == of_grpc.configs.get(broker=1)
    assert not all(config.enforced for config in of_kafka.configs.get(broker=1).values())
    assert of_kafka.configs.of_topics(name) == of_grpc.configs.of_topics(name)


def test_warnings(of_grpc: ottla.Admin, of_kafka: ottla.Admin, name: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "ottla.admin")

    def warnings_of(admin: ottla.Admin, topic: str) -> list[str]:
        caplog.clear()
        admin.topics.create(topic, config=WITHOUT_EFFECT)
        admin.configs.set(WITHOUT_EFFECT, topic=topic)
        return [record.message.replace(topic, "TOPIC") for record in caplog.records if record.name == "ottla.admin"]

    found = warnings_of(of_kafka, f"{name}-kafka")
    assert len(found) == 2
    assert found == warnings_of(of_grpc, f"{name}-grpc")


def test_log_directories(
    of_grpc: ottla.Admin, of_kafka: ottla.Admin, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_grpc.topics.create(name, assignments={0: [0], 1: [0]})
    monkeypatch.setattr(Replica, "has_late_transaction", property(lambda replica: replica.id.partition == 1))
    monkeypatch.setattr(Compaction, "failure", property(lambda _: "a batch is damaged", lambda *_: None), raising=False)
    (found,) = of_kafka.cluster.log_dirs(0)
    assert TopicPartition(name, 1) in found.late_transactions
    assert found.uncleanable[TopicPartition(name, 0)] == "a batch is damaged"
    (expected,) = of_grpc.cluster.log_dirs(0)
    assert found == replace(expected, usable_bytes=found.usable_bytes, replica_bytes=found.replica_bytes)


def test_groups(of_grpc: ottla.Admin, of_kafka: ottla.Admin, cluster: Cluster, name: str) -> None:
    of_grpc.topics.create(name, partitions=2)
    cluster.produce(name, ["a", "b"])
    with ottla.Consumer(name, bootstrap=cluster.bootstrap, group=name, auto_offset_reset="earliest") as consumer:
        next(iter(consumer))
        found = of_kafka.groups.describe(name)
        assert (found.state, found.generation, found.leader) == ("Stable", 1, found.members[0].member_id)
        assert found.members[0].session_timeout > 0
        assert found == of_grpc.groups.describe(name)
        (listed,) = (group for group in of_kafka.groups.list() if group.name == name)
        assert (listed.members, listed.shard) == (1, found.shard)
        assert listed in of_grpc.groups.list()
        assert of_kafka.groups.explain(name) == of_grpc.groups.explain(name)
        lag, expected = of_kafka.groups.lag(name), of_grpc.groups.lag(name)
        assert [replace(p, seconds=0.0) for p in lag.partitions] == [
            replace(p, seconds=0.0) for p in expected.partitions
        ]
    assert of_kafka.groups.committed(name) == of_grpc.groups.committed(name) != {}


def test_transactions(of_grpc: ottla.Admin, of_kafka: ottla.Admin, cluster: Cluster, name: str) -> None:
    of_grpc.topics.create(name, partitions=2)
    with ottla.Producer(cluster.bootstrap, topic=name, transactional_id=name) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("x", partition=1).result(LIMIT_S)
            found = of_kafka.transactions.describe(name)
            assert [event.kind for event in found.events] == ["initialized"]
            assert (found.version, found.updated_at is None, found.shard >= 0) == (2, False, True)
            assert found == of_grpc.transactions.describe(name)
            (listed,) = of_kafka.transactions.list(prefix=name)
            assert listed == of_grpc.transactions.list(prefix=name)[0]
            assert of_kafka.transactions.open_in(name) == of_grpc.transactions.open_in(name)
            assert of_kafka.transactions.producers(name, 1) == of_grpc.transactions.producers(name, 1)


READS: dict[str, Callable[[ottla.Admin, str], Any]] = {
    "configs.get": lambda admin, name: admin.configs.get(topic=name),
    "configs.of_topics": lambda admin, name: admin.configs.of_topics(name),
    "cluster.describe": lambda admin, name: _without_addresses(admin.cluster.describe()),
    "cluster.log_dirs": lambda admin, name: [replace(d, usable_bytes=0) for d in admin.cluster.log_dirs(0)],
    "groups.committed": lambda admin, name: admin.groups.committed(name),
    "groups.describe": lambda admin, name: admin.groups.describe(name),
    "groups.exists": lambda admin, name: (admin.groups.exists(name), admin.groups.exists("no-such-group")),
    "groups.explain": lambda admin, name: admin.groups.explain(name),
    "groups.lag": lambda admin, name: [replace(p, seconds=0.0) for p in admin.groups.lag(name).partitions],
    "groups.list": lambda admin, name: (admin.groups.list(), admin.groups.list(states=["Empty"])),
    "groups.members": lambda admin, name: admin.groups.members(name),
    "groups.shards": lambda admin, name: _without_ages(admin.groups.shards()),
    "partitions.verify_replicas": lambda admin, name: admin.partitions.verify_replicas(name, 0),
    "topics.describe": lambda admin, name: (admin.topics.describe(name), admin.topics.describe(internal=True)),
    "topics.exists": lambda admin, name: (admin.topics.exists(name), admin.topics.exists("no-such-topic")),
    "topics.first_timestamps": lambda admin, name: admin.topics.first_timestamps(name),
    "topics.list": lambda admin, name: admin.topics.list(internal=True),
    "topics.offsets": lambda admin, name: [admin.topics.offsets(name, at) for at in ("earliest", "latest")],
    "transactions.describe": lambda admin, name: admin.transactions.describe(name),
    "transactions.described": lambda admin, name: admin.transactions.described([name, "no-such-id"]),
    "transactions.hanging": lambda admin, name: admin.transactions.hanging(name),
    "transactions.list": lambda admin, name: (admin.transactions.list(), admin.transactions.list(prefix=name)),
    "transactions.open_in": lambda admin, name: admin.transactions.open_in(name),
    "transactions.producers": lambda admin, name: admin.transactions.producers(name, 1),
    "transactions.shards": lambda admin, name: _without_ages(admin.transactions.shards()),
}
"""The methods that change nothing, each with what it returns in a busy cluster."""
CHANGES = {
    *("cluster.declare_restored", "configs.set", "configs.unset"),
    *("groups.commit", "groups.delete", "groups.delete_offsets", "groups.kick", "groups.reset"),
    *("partitions.elect_leaders", "partitions.import_records"),
    *("topics.add_partitions", "topics.create", "topics.delete", "topics.delete_records"),
    *("transactions.abort", "transactions.abort_hanging", "transactions.end", "transactions.forget"),
}
"""The methods that change something. Other tests show what they do."""


def _without_ages(shards: list[ottla.ShardStatus]) -> list[ottla.ShardStatus]:
    return [replace(shard, seconds=0.0) for shard in shards]


def _without_addresses(found: ottla.ClusterInfo) -> ottla.ClusterInfo:
    """The addresses of brokers are those of the port that the client uses."""
    return replace(found, brokers=tuple(replace(broker, address="") for broker in found.brokers))


@pytest.fixture(scope="module")
def busy(cluster: Cluster, of_grpc: ottla.Admin) -> Iterator[str]:
    """The name of a topic with records, which is also that of its group and of a transactional id."""
    of_grpc.topics.create(name := "busy", partitions=2, replicas=2)
    cluster.produce(name, ["a", "b"])
    with (
        ottla.Consumer(name, bootstrap=cluster.bootstrap, group=name, auto_offset_reset="earliest") as consumer,
        ottla.Producer(cluster.bootstrap, topic=name, transactional_id=name) as producer,
    ):
        next(iter(consumer))
        consumer.commit()
        producer.init_transactions()
        with producer.transaction():
            producer.send("x", partition=1).result(LIMIT_S)
            # The follower learns the last high watermark with one more fetch.
            wait_until(lambda: not of_grpc.partitions.verify_replicas(name, 0).not_compared)
            yield name


@pytest.mark.parametrize("method", READS)
def test_both_protocols_return_the_same(of_grpc: ottla.Admin, of_kafka: ottla.Admin, busy: str, method: str) -> None:
    read = READS[method]
    assert read(of_kafka, busy) == read(of_grpc, busy)


def test_every_method_is_compared(of_grpc: ottla.Admin) -> None:
    parts = ("cluster", "configs", "groups", "partitions", "topics", "transactions")
    methods = {
        f"{part}.{method}"
        for part in parts
        for method, _ in inspect.getmembers(getattr(of_grpc, part), inspect.ismethod)
        if not method.startswith("_")
    }
    assert methods == READS.keys() | CHANGES


def test_errors_have_the_words_of_the_services(of_grpc: ottla.Admin, of_kafka: ottla.Admin, name: str) -> None:
    of_grpc.topics.create(name)
    calls: list[Callable[[ottla.Admin], object]] = [
        lambda admin: admin.topics.delete_records(name, {0: 99}),
        lambda admin: admin.transactions.describe(name),
        lambda admin: admin.transactions.abort("no-such-id"),
        lambda admin: admin.transactions.end(PreparedTransaction("no-such-id", 1, 0), committed=True),
        lambda admin: admin.groups.describe("no-such-group"),
        lambda admin: admin.configs.set({"retention.ms": "soon"}, topic=name),
        lambda admin: admin.topics.create(name, replicas=9),
    ]
    for failing in calls:
        errors = []
        for admin in (of_kafka, of_grpc):
            with pytest.raises(OttlaError) as caught:
                failing(admin)
            errors.append((type(caught.value), caught.value.code, caught.value.message, caught.value.hint))
        assert errors[0] == errors[1]


def test_errors_of_members_and_producers_do_too(
    cluster: Cluster, of_grpc: ottla.Admin, addresses: Addresses, name: str
) -> None:
    bootstrap = addresses(cluster)
    of_grpc.topics.create(name)
    producer = ottla.Producer(bootstrap, transactional_id=name, transaction_timeout=10_000)
    with producer, pytest.raises(OttlaError, match="a transaction timeout of 10000000 ms is not allowed"):
        producer.init_transactions()
    consumer = ottla.Consumer(name, bootstrap=bootstrap, group=name, session_timeout=10_000)
    with consumer, pytest.raises(OttlaError, match="a session timeout of 10000000 ms is not allowed"):
        consumer.poll(LIMIT_S)


def test_the_cluster_has_the_controller_that_is_elected(of_kafka: ottla.Admin) -> None:
    found = of_kafka.cluster.describe()
    assert found.controller_epoch > 0
    assert [broker.address for broker in found.brokers] == [broker.kafka_address for broker in found.brokers]


def test_eligible_leaders(of_grpc: ottla.Admin, of_kafka: ottla.Admin, cluster: Cluster, name: str) -> None:
    config = {"min.insync.replicas": 2}
    of_grpc.topics.create(name, assignments={0: [0, 1], 1: [0, 1]}, config=config)
    cluster.brokers[1].stop()
    try:
        wait_until(lambda: all(partition.elr == (1,) for partition in of_kafka.topics.describe(name)[0].partitions))
        assert of_kafka.topics.describe(name) == of_grpc.topics.describe(name)
        assert of_kafka.topics.describe(internal=True) == of_grpc.topics.describe(internal=True)
    finally:
        cluster.brokers[1].restart()
