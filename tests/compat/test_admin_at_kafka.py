"""The SDK's Admin with Apache Kafka itself: over Kafka's protocol, a program can manage a cluster of either."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka
import pytest
from kafka.protocol.metadata import ApiVersionsRequest, ApiVersionsResponse
from peers.kafka.server import KafkaServer
from tests.compat.cells import DIFFERS
from tests.fuzz.kafka_wire import KafkaWire
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.kafka.transport import KafkaTransport
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.private_messages import OttlaCallRequest

_names = (f"t{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    with KafkaServer(tmp_path_factory.mktemp("kafka") / "nodes", nodes=2, heap="512M") as server:
        yield server


@pytest.fixture(scope="module")
def admin(kafka: KafkaServer) -> Iterator[ottla.Admin]:
    with ottla.Admin(kafka.bootstrap, _transport=KafkaTransport("admin")) as admin:
        yield admin


@pytest.fixture
def name() -> str:
    return next(_names)


@DIFFERS.cell
def test_topics(admin: ottla.Admin, name: str) -> None:
    assert admin.topics.create(name, partitions=2, dry_run=True) is None
    assert not admin.topics.exists(name)
    created = admin.topics.create(name, partitions=2, replicas=2, config={"retention.ms": "7d"})
    assert created is not None
    assert (len(created.partitions), created.replicas) == (2, 2)
    with pytest.raises(ottla.TopicExistsError):
        admin.topics.create(name)
    assert admin.topics.create(name, if_exists="ok") == created
    assert name in admin.topics.list()
    admin.topics.delete(name)
    assert name not in admin.topics.list()
    with pytest.raises(ottla.UnknownTopicError):
        admin.topics.delete(name)
    again = admin.topics.create(name, assignments={0: [1, 0]})
    assert again is not None
    assert (again.partitions[0].replicas, again.id != created.id) == ((1, 0), True)


@DIFFERS.cell
@pytest.mark.parametrize(
    ("wrong", "code"),
    [({"replicas": 9}, "INVALID_REPLICATION_FACTOR"), ({"partitions": 0}, "INVALID_PARTITIONS")],
)
def test_a_topic_that_can_not_be_created_fails_with_the_reason(
    admin: ottla.Admin, name: str, wrong: Any, code: str
) -> None:
    with pytest.raises(OttlaError) as caught:
        admin.topics.create(name, **wrong)
    assert (caught.value.name, bool(caught.value.message)) == (code, True)


@DIFFERS.cell
def test_partitions(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name, partitions=1)
    assert "another partition" in admin.topics.add_partitions(name, 3, dry_run=True)
    assert len(admin.topics.describe(name)[0].partitions) == 1
    admin.topics.add_partitions(name, 3)
    assert len(admin.topics.describe(name)[0].partitions) == 3
    with pytest.raises(ottla.ConfigError):
        admin.topics.add_partitions(name, 2)
    (election,) = admin.partitions.elect_leaders([(name, 0)])
    assert not election.was_needed


@DIFFERS.cell
def test_configs(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name)
    admin.configs.set({"retention.ms": "7d", "cleanup.policy": "compact"}, topic=name)
    found = admin.configs.get(topic=name)
    assert (found["retention.ms"].value, found["retention.ms"].source) == ("604800000", "DYNAMIC_TOPIC_CONFIG")
    assert (found["retention.ms"].type, found["cleanup.policy"].value) == ("long", "compact")
    assert found["max.message.bytes"].source == "DEFAULT_CONFIG"
    admin.configs.unset("retention.ms", topic=name)
    wait_until(lambda: admin.configs.get(topic=name)["retention.ms"].source == "DEFAULT_CONFIG")
    with pytest.raises(ottla.ConfigError):
        admin.configs.set({"retention.ms": "x"}, topic=name)
    with pytest.raises(ottla.UnknownTopicError):
        admin.configs.get(topic="no-such-topic")


@DIFFERS.cell
@pytest.mark.parametrize("broker", [0, 1])
def test_configs_of_each_broker(admin: ottla.Admin, broker: int) -> None:
    """Each of Kafka's brokers describes and changes only its own configs."""
    admin.configs.set({"log.cleaner.threads": 2}, broker=broker)
    wait_until(lambda: admin.configs.get(broker=broker)["log.cleaner.threads"].source == "DYNAMIC_BROKER_CONFIG")
    admin.configs.unset("log.cleaner.threads", broker=broker)
    wait_until(lambda: admin.configs.get(broker=broker)["log.cleaner.threads"].source == "DEFAULT_CONFIG")


@DIFFERS.cell
def test_records_and_directories(admin: ottla.Admin, kafka: KafkaServer, name: str) -> None:
    admin.topics.create(name, assignments={0: [1], 1: [0]})
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap})
    for n in range(20):
        producer.produce(name, b"x" * 100, partition=n % 2)
    assert producer.flush(LIMIT_S) == 0
    assert admin.topics.delete_records(name, {0: 4}) == {0: 4}
    assert admin.topics.offsets(name, "earliest") == {0: 4, 1: 0}
    with pytest.raises(ottla.OffsetOutOfRangeError):
        admin.topics.delete_records(name, {1: 99})
    assert admin.topics.delete_records(name) == {0: 10, 1: 10}
    (directory,) = admin.cluster.log_dirs(1)
    assert directory.replica_bytes[ottla.TopicPartition(name, 0)] > 0
    assert directory.total_bytes > directory.usable_bytes > 0


@DIFFERS.cell
def test_the_cluster(admin: ottla.Admin) -> None:
    found = admin.cluster.describe()
    assert [broker.id for broker in found.brokers] == [0, 1]
    assert found.controller_address in {broker.address for broker in found.brokers}
    for broker in found.brokers:
        assert (broker.kafka_address, broker.fenced, broker.read_only, broker.epoch) == (
            broker.address,
            False,
            False,
            -1,
        )


@DIFFERS.cell
def test_what_only_ottla_has_is_refused_with_the_reason(admin: ottla.Admin, name: str) -> None:
    admin.topics.create(name)
    for call in (
        admin.groups.shards,
        admin.transactions.shards,
        admin.cluster.declare_restored,
        lambda: admin.groups.explain("g"),
        lambda: admin.partitions.import_records(name, 0, b"", expected_offset=0),
    ):
        check_refused(call)


@DIFFERS.cell
def test_brokers_of_kafka_forward_to_no_mirror(kafka: KafkaServer) -> None:
    with ottla.MirrorClient(bootstrap=kafka.bootstrap) as client:
        check_refused(client.flows)


def check_refused(call: Callable[[], object]) -> None:
    with pytest.raises(OttlaError) as caught:
        call()
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert "use a cluster of ottla" in caught.value.hint


@DIFFERS.cell
def test_no_key_of_kafkas_is_near_the_private_one(kafka: KafkaServer) -> None:
    """If this fails, choose another key, and serve both for a while."""
    request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
    with KafkaWire(kafka.bootstrap.split(",")[0]) as wire:
        served = [each.api_key for each in wire.ask(request, 3, ApiVersionsResponse).api_keys]
    assert len(served) > 50
    assert max(served) < OttlaCallRequest.API_KEY / 100


@DIFFERS.cell
def test_a_consumer_group_is_described_and_deleted(admin: ottla.Admin, kafka: KafkaServer, name: str) -> None:
    admin.topics.create(name)
    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": name, "group.protocol": "consumer"}
    consumer = confluent_kafka.Consumer(settings)
    consumer.subscribe([name])
    wait_until(lambda: consumer.poll(0.1) is None and bool(consumer.assignment()))
    assert name in [group.name for group in admin.groups.list()]
    assert admin.groups.exists(name)
    group = admin.groups.describe(name)
    assert (group.type, group.state, group.assignor) == ("consumer", "Stable", "uniform")
    assert [(m.protocol, m.topics, m.partitions, m.target) for m in group.members] == [
        ("consumer", (name,), (ottla.TopicPartition(name, 0),), (ottla.TopicPartition(name, 0),))
    ]
    with pytest.raises(OttlaError, match="while it has members"):
        admin.groups.reset(name, to="earliest")
    consumer.close()
    wait_until(lambda: [group.state for group in admin.groups.list() if group.name == name] == ["Empty"])
    admin.groups.delete(name)
    assert not admin.groups.exists(name)
