"""Transactions of unchanged Kafka clients: what is committed is read, what is aborted is not."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicPartition
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

FENCED = confluent_kafka.KafkaError._FENCED


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, txn_coordinators=2) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.configs.set({"transaction.state.log.num.partitions": 4, "offsets.topic.num.partitions": 4})
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> Iterator[str]:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=2, replicas=3)
        yield name
        admin.topics.delete(name)


def producer(cluster: Cluster, transactional_id: str = "", timeout_ms: int = 60_000) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id or uuid.uuid4().hex,
            "transaction.timeout.ms": timeout_ms,
            "log_level": 0,
        }
    )
    made.init_transactions(LIMIT_S)
    return made


def values(cluster: Cluster, topic: str, count: int, isolation: str = "read_committed") -> list[bytes]:
    """The first `count` that are read, sorted; and none comes behind them."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, n, 0) for n in range(2)])
    found: list[bytes] = []
    try:
        wait_until(lambda: _poll_into(consumer, found) or len(found) >= count)
        for _ in range(3):
            _poll_into(consumer, found)
    finally:
        consumer.close()
    return sorted(found)


def _poll_into(consumer: confluent_kafka.Consumer, found: list[bytes]) -> bool:
    message = consumer.poll(0.2)
    if message is not None and message.error() is None:
        found.append(message.value() or b"")
    return False


def write(made: confluent_kafka.Producer, topic: str, *written: bytes) -> None:
    for number, value in enumerate(written):
        made.produce(topic, value, partition=number % 2)
    assert made.flush(LIMIT_S) == 0


@pytest.mark.rule(38)
def test_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: Cluster, topic: str) -> None:
    made = producer(cluster)
    made.begin_transaction()
    write(made, topic, b"a", b"b")
    made.commit_transaction(LIMIT_S)
    made.begin_transaction()
    write(made, topic, b"x", b"y")
    made.abort_transaction(LIMIT_S)
    made.begin_transaction()
    write(made, topic, b"c", b"d")
    made.commit_transaction(LIMIT_S)
    assert values(cluster, topic, 4) == [b"a", b"b", b"c", b"d"]
    assert values(cluster, topic, 6, "read_uncommitted") == [b"a", b"b", b"c", b"d", b"x", b"y"]


@pytest.mark.rule(17)
@pytest.mark.feature(148)
def test_what_is_open_is_not_read_until_it_is_committed(cluster: Cluster, topic: str) -> None:
    made = producer(cluster)
    made.begin_transaction()
    write(made, topic, b"a", b"b")
    plain = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    write(plain, topic, b"behind", b"it")
    assert values(cluster, topic, 4, "read_uncommitted") == [b"a", b"b", b"behind", b"it"]
    assert values(cluster, topic, 0) == []
    made.commit_transaction(LIMIT_S)
    assert values(cluster, topic, 4) == [b"a", b"b", b"behind", b"it"]


@pytest.mark.rule(33)
@pytest.mark.feature(141)
def test_a_producer_whose_id_another_takes_over_is_fenced_and_its_transaction_aborted(
    cluster: Cluster, topic: str
) -> None:
    zombie = producer(cluster, f"{topic}-id")
    zombie.begin_transaction()
    write(zombie, topic, b"zombie's", b"zombie's")
    successor = producer(cluster, f"{topic}-id")
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        zombie.commit_transaction(LIMIT_S)
    assert raised.value.args[0].fatal()
    successor.begin_transaction()
    write(successor, topic, b"a", b"b")
    successor.commit_transaction(LIMIT_S)
    assert values(cluster, topic, 2) == [b"a", b"b"]


def test_offsets_of_a_transaction_count_once_it_is_committed(cluster: Cluster, topic: str) -> None:
    made, group = producer(cluster), f"{topic}-group"
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": group, "enable.auto.commit": False}
    )
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2)
        for offset, ended in ((5, made.abort_transaction), (3, made.commit_transaction)):
            made.begin_transaction()
            write(made, topic, b"a", b"b")
            offsets = [TopicPartition(topic, 0, offset)]
            made.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), LIMIT_S)
            ended(LIMIT_S)
        [committed] = consumer.committed([TopicPartition(topic, 0)], LIMIT_S)
        assert committed.offset == 3
    finally:
        consumer.close()


def test_offsets_without_a_member_are_taken_where_the_group_has_members(cluster: Cluster, topic: str) -> None:
    """As producers send them that are older than KIP-447."""
    made, group = producer(cluster), {"bootstrap.servers": cluster.bootstrap, "group.id": f"{topic}-group"}
    member, unnamed = confluent_kafka.Consumer(group), confluent_kafka.Consumer(group)
    try:
        member.subscribe([topic])
        wait_until(lambda: member.poll(0.1) is None and len(member.assignment()) == 2)
        made.begin_transaction()
        made.send_offsets_to_transaction([TopicPartition(topic, 0, 3)], unnamed.consumer_group_metadata(), LIMIT_S)
        made.commit_transaction(LIMIT_S)
        [committed] = member.committed([TopicPartition(topic, 0)], LIMIT_S)
        assert committed.offset == 3
    finally:
        member.close()
        unnamed.close()


def test_kafka_python_commits_and_aborts(cluster: Cluster, topic: str) -> None:
    made = kafka.KafkaProducer(bootstrap_servers=cluster.bootstrap, transactional_id=f"{topic}-id")
    made.init_transactions()
    for value, end in (
        (b"a", made.commit_transaction),
        (b"x", made.abort_transaction),
        (b"b", made.commit_transaction),
    ):
        made.begin_transaction()
        made.send(topic, value, partition=0)
        made.flush()
        end()
    made.close()
    assert values(cluster, topic, 2) == [b"a", b"b"]


@pytest.mark.rule(43)
def test_a_transaction_that_takes_too_long_is_aborted(cluster: Cluster, topic: str) -> None:
    made = producer(cluster, timeout_ms=1_000)
    made.begin_transaction()
    write(made, topic, b"late", b"late")
    plain = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap})
    write(plain, topic, b"behind", b"it")
    assert values(cluster, topic, 2) == [b"behind", b"it"]
    with pytest.raises(confluent_kafka.KafkaException):
        made.commit_transaction(LIMIT_S)
