"""Admin against real services, with each of its transports: over Kafka's protocol brokers forward its calls."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from batches import NOON, sealed
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.cluster import ClusterClient
from ottla.client.kafka.private_call import private_call
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.prepared_transactions import forgetting, preparation
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.transaction import ProducerEpoch
from ottla.testing import Cluster
from ottla_proto.contracts import Broker

_names = (f"t{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_coordinators=2, txn_coordinators=1) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: Cluster) -> Iterator[ottla.Admin]:
    with ottla.Admin(cluster.bootstrap) as admin:
        yield admin


@pytest.fixture
def name() -> str:
    return next(_names)


def code_of(caught: pytest.ExceptionInfo[OttlaError]) -> str:
    return ErrorCode(caught.value.code).name


# ---- topics ----------------------------------------------------------------------------------------------------------


def test_a_topic_from_its_birth_to_its_end(admin: ottla.Admin, name: str) -> None:
    assert admin.topics.create(name, partitions=2, replicas=3, dry_run=True) is None
    assert not admin.topics.exists(name)
    created = admin.topics.create(name, partitions=2, replicas=3, config={"retention.ms": "7d"})
    assert created is not None
    assert (len(created.partitions), created.replicas) == (2, 3)
    assert admin.topics.describe(name)[0].id == created.id
    with pytest.raises(ottla.TopicExistsError):
        admin.topics.create(name)
    again = admin.topics.create(name, if_exists="ok")
    assert again is not None
    assert again.id == created.id
    assert name in admin.topics.list()
    admin.topics.delete(name)
    assert name not in admin.topics.list()
    with pytest.raises(ottla.UnknownTopicError):
        admin.topics.delete(name)
    admin.topics.delete(name, if_missing="ok")
    anew = admin.topics.create(name)
    assert anew is not None
    assert anew.id != created.id


def test_a_topic_with_assignments(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name, assignments={0: [2, 0], 1: [1, 2]})
    (topic,) = admin.topics.describe(name)
    assert [partition.replicas for partition in topic.partitions] == [(2, 0), (1, 2)]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"partitions": 0}, "INVALID_PARTITIONS"),
        ({"replicas": 9}, "INVALID_REPLICATION_FACTOR"),
        ({"config": {"retention.ms": "soon"}}, "INVALID_CONFIG"),
        ({"assignments": {0: [77]}}, "INVALID_REPLICA_ASSIGNMENT"),
    ],
)
def test_a_topic_that_can_not_be_created_fails_with_the_reason(
    admin: ottla.Admin, name: str, arguments: Any, code: str
) -> None:
    with pytest.raises(OttlaError) as caught:
        admin.topics.create(name, **arguments)
    assert code_of(caught) == code
    assert len(caught.value.message) > len("too short to say why")
    assert not admin.topics.exists(name)


def test_partitions_are_added(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name, partitions=1)
    admin.topics.add_partitions(name, 3, dry_run=True)
    assert len(admin.topics.describe(name)[0].partitions) == 1
    admin.topics.add_partitions(name, 3)
    assert len(admin.topics.describe(name)[0].partitions) == 3
    with pytest.raises(ottla.ConfigError):
        admin.topics.add_partitions(name, 2)


def test_records_are_deleted_before_an_offset(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    admin.topics.create(name, partitions=3)
    with ottla.Producer(cluster.bootstrap, topic=name) as producer:
        for n in range(30):
            producer.send(n, partition=n % 3)
    assert admin.topics.delete_records(name, {0: 4}) == {0: 4}
    assert admin.topics.offsets(name, "earliest") == {0: 4, 1: 0, 2: 0}
    with pytest.raises(ottla.OffsetOutOfRangeError):
        admin.topics.delete_records(name, {1: 99})
    assert admin.topics.delete_records(name) == {0: 10, 1: 10, 2: 10}


# ---- configs ---------------------------------------------------------------------------------------------------------


def test_configs_of_a_topic(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name)
    admin.configs.set({"retention.ms": "7d", "cleanup.policy": "compact"}, topic=name)
    # Each of Kafka's brokers describes what it has heard of so far.
    wait_until(lambda: admin.configs.get(topic=name)["retention.ms"].source == "DYNAMIC_TOPIC_CONFIG")
    found = admin.configs.get(topic=name)
    assert found["retention.ms"].value == "604800000"
    assert (found["retention.ms"].type, found["cleanup.policy"].value) == ("long", "compact")
    assert found["max.message.bytes"].source == "DEFAULT_CONFIG"
    assert all(entry.documentation for entry in found.values())
    admin.configs.unset("retention.ms", topic=name)
    wait_until(lambda: admin.configs.get(topic=name)["retention.ms"].source == "DEFAULT_CONFIG")
    admin.configs.set({"retention.ms": 1}, topic=name, dry_run=True)
    assert admin.configs.get(topic=name)["retention.ms"].source == "DEFAULT_CONFIG"
    assert admin.configs.of_topics(name, "no-such-topic").keys() == {name}
    for wrong in ({"retention.ms": "soon"}, {"retenton.ms": 1}):
        with pytest.raises(ottla.ConfigError):
            admin.configs.set(wrong, topic=name)
    with pytest.raises(ottla.UnknownTopicError):
        admin.configs.get(topic="no-such-topic")


def test_each_broker_describes_a_config_as_soon_as_it_is_set(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name)
    for days in range(1, 10):
        admin.configs.set({"retention.ms": f"{days}d"}, topic=name)
        assert admin.configs.get(topic=name)["retention.ms"].value == str(days * 86_400_000)


def test_configs_of_a_broker_and_of_all(admin: ottla.Admin) -> None:
    admin.configs.set({"log.cleaner.threads": 2}, broker=1)
    admin.configs.set({"num.partitions": 3})
    try:
        of_one, of_another = admin.configs.get(broker=1), admin.configs.get(broker=2)
        assert (of_one["log.cleaner.threads"].value, of_one["log.cleaner.threads"].source) == (
            "2",
            "DYNAMIC_BROKER_CONFIG",
        )
        assert of_another["log.cleaner.threads"].source == "DEFAULT_CONFIG"
        assert {each["num.partitions"].source for each in (of_one, of_another)} == {"DYNAMIC_DEFAULT_BROKER_CONFIG"}
    finally:
        admin.configs.unset("log.cleaner.threads", broker=1)
        admin.configs.unset("num.partitions")
    assert admin.configs.get(broker=1)["num.partitions"].source == "DEFAULT_CONFIG"


# ---- partitions and brokers ------------------------------------------------------------------------------------------


def test_a_leader_is_elected_and_named(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    admin.topics.create(name, assignments={0: [1, 2], 1: [2, 1]})
    cluster.brokers[1].stop()
    wait_until(lambda: admin.topics.describe(name)[0].partitions[0].leader == 2)
    cluster.brokers[1].restart()
    wait_until(lambda: len(admin.topics.describe(name)[0].partitions[0].isr) == 2)
    needed, not_needed = admin.partitions.elect_leaders([(name, 0), (name, 1)])
    assert (needed.was_needed, needed.leader, not_needed.was_needed) == (True, 1, False)
    assert admin.topics.describe(name)[0].partitions[0].leader == 1


def test_a_directory_has_the_sizes_of_replicas(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    admin.topics.create(name, assignments={0: [1]})
    cluster.produce(name, ["x" * 1000])
    (found,) = admin.cluster.log_dirs(1)
    assert found.replica_bytes[ottla.TopicPartition(name, 0)] > 1000
    assert found.total_bytes > found.usable_bytes > 0
    assert ottla.TopicPartition(name, 0) not in admin.cluster.log_dirs(2)[0].replica_bytes


def test_the_cluster_and_its_brokers(admin: ottla.Admin) -> None:
    found = admin.cluster.describe()
    assert [broker.id for broker in found.brokers] == [0, 1, 2]
    assert found.controller_address


# ---- groups ----------------------------------------------------------------------------------------------------------


def test_a_groups_lag(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    admin.topics.create(name, partitions=1)
    cluster.produce(name, ["a", "b", "c"])
    with ottla.Consumer(name, bootstrap=cluster.bootstrap, group=name, auto_offset_reset="earliest") as consumer:
        next(iter(consumer))
        consumer.commit()
        (partition,) = admin.groups.lag(name).partitions
        assert (partition.committed, partition.start, partition.end, partition.records) == (1, 0, 3, 2)
        assert partition.member_id == consumer.group_metadata.member_id
    with pytest.raises(OttlaError) as caught:
        admin.groups.lag("no-such-group")
    assert code_of(caught) == "GROUP_ID_NOT_FOUND"
    assert "does not exist" in caught.value.message


# ---- what only ottla has ---------------------------------------------------------------------------------------------


def test_every_shard_has_an_owner(admin: ottla.Admin) -> None:
    def are_served(shards: Any) -> bool:
        return bool(shards) and all(shard.phase == "serving" for shard in shards)

    wait_until(lambda: are_served(admin.groups.shards()) and are_served(admin.transactions.shards()))
    assert {shard.coordinator for shard in admin.groups.shards()} == {0, 1}
    assert [shard.shard for shard in admin.groups.shards()] == list(range(len(admin.groups.shards())))


def test_a_groups_story(admin: ottla.Admin, cluster: Cluster, name: str) -> None:
    admin.topics.create(name, partitions=1)
    with ottla.Consumer(name, bootstrap=cluster.bootstrap, group=name) as consumer:
        wait_until(lambda: not consumer.poll(0.1) and consumer.assignment())
        assert any(event.kind == "joined" for event in admin.groups.explain(name))


def test_batches_are_imported_at_their_offsets(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name, partitions=1)
    batch = sealed([(0, NOON, b"k", b"v", [])])
    assert admin.partitions.import_records(name, 0, batch, expected_offset=0) == 1
    with pytest.raises(OttlaError) as caught:
        admin.partitions.import_records(name, 0, sealed([(0, NOON, b"k", b"w", [])]), expected_offset=0)
    assert code_of(caught) == "OFFSET_MISMATCH"
    assert admin.topics.offsets(name) == {0: 1}


def test_transactional_ids_are_prepared_and_forgotten(cluster: Cluster, name: str) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name)
        with ottla.Producer(cluster.bootstrap, topic=name, transactional_id=name) as producer:
            producer.init_transactions()
            with producer.transaction():
                producer.send("x")
        wait_until(lambda: admin.transactions.describe(name).state == "CompleteCommit")
        found = admin.transactions.describe(name)
        of_producer = ProducerEpoch(found.producer_id, found.producer_epoch)
        client = ClusterClient(cluster.bootstrap.split(","), KafkaTransport("keeper"))
        try:
            address = cluster.bootstrap.split(",")[0]  # a broker forwards to the coordinator
            with pytest.raises(OttlaError) as caught:
                client.exchange(address, preparation(name, of_producer), timeout=LIMIT_S)
            assert code_of(caught) == "INVALID_TXN_STATE"
            client.exchange(address, forgetting(name, of_producer), timeout=LIMIT_S)
        finally:
            client.close()
        assert admin.transactions.list(prefix=name) == []


def test_calls_between_services_are_not_for_clients(cluster: Cluster) -> None:
    client = ClusterClient(cluster.bootstrap.split(","), KafkaTransport("curious"))
    asked = private_call(Broker.LOG_ENDS, Broker.LOG_ENDS.request(), lambda response: response)
    try:
        with pytest.raises(OttlaError) as caught:
            client.exchange_any(asked, timeout=LIMIT_S)
        assert code_of(caught) == "UNSUPPORTED_VERSION"
        assert "is not a method that clients may call here" in caught.value.message
    finally:
        client.close()
