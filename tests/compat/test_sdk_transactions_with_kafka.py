"""Transactions of the SDK with Apache Kafka: in a new cluster, and in one whose transactions have version 1."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from peers.kafka.server import KafkaServer
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.offsets import GroupMetadata
from ottla.errors import ErrorCode

PARTITIONS = 3
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
}

_names = (f"txn-{n}" for n in itertools.count())


@pytest.fixture(scope="module", params=[2, 1], ids=["v2", "v1"])
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of a cluster whose transactions have this version."""
    folder = tmp_path_factory.mktemp("kafka") / "nodes"
    features = {"transaction.version": request.param}
    with KafkaServer(folder, settings=SETTINGS, features=features, heap="512m") as server:
        yield server.bootstrap


@pytest.fixture
def topic(kafka: str) -> str:
    name = next(_names)
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(LIMIT_S)
    return name


def producer_of(kafka: str, topic: str, **arguments: Any) -> ottla.Producer[None, int]:
    given = {"topic": topic, "transactional_id": topic, "_transport": KafkaTransport("tests")}
    return ottla.Producer[None, int](kafka, **{**given, **arguments})


def values(kafka: str, topic: str, level: str = "read_committed") -> list[int]:
    """The records that a reader finds in each partition up to its end: committed ones, or all."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka,
            "group.id": "readers",
            "isolation.level": level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found, ends = list[int](), set[int | None]()

    def is_at_end() -> bool:
        messages: list[Any] = consumer.consume(500, 0.2)
        for message in messages:
            if message.error() is None:
                found.append(int(message.value()))
            elif message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ends.add(message.partition())
        return len(ends) == PARTITIONS

    try:
        wait_until(is_at_end)
    finally:
        consumer.close()
    return sorted(found)


def committed(kafka: str, group: str, topic: str) -> list[int]:
    """The offsets of a group, without those of open transactions."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka, "group.id": group})
    try:
        found = consumer.committed([TopicPartition(topic, number) for number in range(PARTITIONS)], LIMIT_S)
    finally:
        consumer.close()
    return [each.offset for each in found]


def attempt(producer: ottla.Producer[None, int], *numbers: int, aborted: bool = False) -> None:
    with producer.transaction() as tx:
        for number in numbers:
            tx.send(number, partition=number % PARTITIONS)
        producer.flush()
        if aborted:
            producer.abort_transaction()


def test_what_is_committed_is_read_and_what_is_aborted_is_not(kafka: str, topic: str) -> None:
    with producer_of(kafka, topic) as producer:
        for number in range(20):
            attempt(producer, 2 * number, 2 * number + 1, aborted=bool(number % 2))
    assert values(kafka, topic) == [n for n in range(40) if n % 4 < 2]
    assert values(kafka, topic, "read_uncommitted") == list(range(40))


def test_records_under_way_when_a_transaction_is_aborted_are_in_no_transaction(kafka: str, topic: str) -> None:
    with producer_of(kafka, topic, linger=0) as producer:
        producer.init_transactions()
        for number in range(50):
            producer.begin_transaction()
            producer.send(number, partition=number % PARTITIONS)
            producer.abort_transaction()
        attempt(producer, 100, 101, 102)
    assert values(kafka, topic) == [100, 101, 102]


def test_a_transaction_that_has_sent_nothing_does_not_exist(kafka: str, topic: str) -> None:
    with producer_of(kafka, topic) as producer:
        for end in (producer.commit_transaction, producer.abort_transaction):
            with producer.transaction():
                end()
        attempt(producer, 1)
    assert values(kafka, topic) == [1]


def test_an_end_and_an_epoch_whose_responses_were_lost_are_the_same_when_repeated(kafka: str, topic: str) -> None:
    with producer_of(kafka, topic) as producer:
        producer.init_transactions()
        assert producer._manager is not None
        client, transactions = producer._manager._client, producer._manager.transactions
        for number in range(4):
            producer.begin_transaction()
            producer.send(number)
            producer.flush()
            current = transactions.current
            ended = client.end(current, committed=bool(number % 2), timeout=LIMIT_S)
            assert client.end(current, committed=bool(number % 2), timeout=LIMIT_S) == ended
            (producer.commit_transaction if number % 2 else producer.abort_transaction)()
            if transactions.used_up is not None:
                assert transactions.used_up == current.producer
                assigned = client.init(transactions.used_up, timeout=LIMIT_S)
                assert client.init(transactions.used_up, timeout=LIMIT_S) == assigned
    assert values(kafka, topic) == [1, 3]


def test_a_loop_from_topic_to_topic_counts_each_record_once_though_every_other_try_fails(
    kafka: str, topic: str
) -> None:
    source = f"{topic}-in"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(source, PARTITIONS)])[source].result(LIMIT_S)
    with ottla.Producer[None, int](kafka, topic=source, _transport=KafkaTransport("source")) as producer:
        producer.send_many(range(40))
    consumer = ottla.Consumer[None, int](
        source,
        bootstrap=kafka,
        group=topic,
        commit="manual",
        auto_offset_reset="earliest",
        _transport=KafkaTransport("loop"),
    )
    with producer_of(kafka, topic) as producer, consumer:
        done = tries = 0
        while done < 40:
            batch, tries = consumer.poll(LIMIT_S, max_records=7), tries + 1
            try:
                with producer.transaction(consumer) as tx:
                    for value in batch.values():
                        tx.send(value)
                    tx.commit_offsets(batch)
                    assert tries % 2 == 0, "every other try fails"
            except AssertionError:
                continue
            done += len(batch)
    assert values(kafka, topic) == list(range(40))


def test_a_transaction_can_not_be_prepared_and_goes_on(kafka: str, topic: str) -> None:
    with producer_of(kafka, topic) as producer, producer.transaction() as tx:
        tx.send(1)
        with pytest.raises(ottla.OttlaError) as raised:
            producer.prepare_transaction()
    assert raised.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert values(kafka, topic) == [1]


def test_a_newer_producer_fences_the_older_one_and_aborts_what_it_left_open(kafka: str, topic: str) -> None:
    with producer_of(kafka, topic) as old, producer_of(kafka, topic) as new:
        old.init_transactions()
        old.begin_transaction()
        old.send(1).result(LIMIT_S)
        attempt(new, 2)
        with pytest.raises(ottla.FencedError, match="another producer has started"):
            old.commit_transaction()
        with pytest.raises(ottla.FencedError):
            old.begin_transaction()
        attempt(new, 3)
    assert values(kafka, topic) == [2, 3]


def test_a_newer_producer_fences_one_that_is_between_transactions(kafka: str, topic: str) -> None:
    with producer_of(kafka, topic) as old, producer_of(kafka, topic) as new:
        attempt(old, 1)
        attempt(new, 2)
        with pytest.raises(ottla.FencedError, match="another producer has started"):
            attempt(old, 3)
    assert values(kafka, topic) == [1, 2]


def test_the_offsets_of_a_group_count_once_the_transaction_is_committed(kafka: str, topic: str) -> None:
    group = GroupMetadata(topic, -1, "", None)
    with producer_of(kafka, topic) as producer:
        for offset, aborted in ((1, False), (2, True), (3, False)):
            with producer.transaction() as tx:
                tx.send(offset, partition=0)
                producer.send_offsets_to_transaction({(topic, 0): offset, (topic, 2): 10 * offset}, group)
                if aborted:
                    producer.abort_transaction()
            expected = 1 if aborted else offset
            wait_until(lambda expected=expected: committed(kafka, topic, topic)[0] == expected)
    assert committed(kafka, topic, topic) == [3, -1001, 30]
    assert values(kafka, topic) == [1, 3]


def test_offsets_of_a_member_that_is_not_in_the_group_fail_the_transaction(kafka: str, topic: str) -> None:
    stranger = GroupMetadata(topic, 7, "nobody", None)
    with producer_of(kafka, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(1)
        with pytest.raises(ottla.CommitFailedError):
            producer.send_offsets_to_transaction({(topic, 0): 5}, stranger)
        with pytest.raises(ottla.TransactionAborted):
            producer.commit_transaction()
        producer.abort_transaction()
        attempt(producer, 2)
    assert values(kafka, topic) == [2]
    assert committed(kafka, topic, topic) == [-1001] * PARTITIONS


def test_a_transaction_that_times_out_is_aborted(kafka: str, topic: str, request: pytest.FixtureRequest) -> None:
    with producer_of(kafka, topic, transaction_timeout=1.0) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(1, partition=0).result(LIMIT_S)
        wait_until(lambda: end_of(kafka, topic) == 2)  # the marker
        if "v1" in request.node.name:  # the coordinator does not tell a timeout from another producer
            with pytest.raises(ottla.FencedError, match="took longer than transaction_timeout"):
                producer.commit_transaction()
        else:
            with pytest.raises(ottla.TransactionAborted, match="INVALID_TXN_STATE"):
                producer.commit_transaction()
            attempt(producer, 2)
    assert values(kafka, topic) == ([] if "v1" in request.node.name else [2])


def end_of(kafka: str, topic: str) -> int:
    """The end of partition 0."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka, "group.id": "readers"})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), LIMIT_S)
    consumer.close()
    return int(end)


def test_an_operator_sees_an_open_transaction_and_aborts_it(kafka: str, topic: str) -> None:
    admin = ottla.Admin(kafka, _transport=KafkaTransport("admin"))
    with admin, producer_of(kafka, topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(1, partition=1).result(LIMIT_S)
        transactions = admin.transactions
        (listed,) = transactions.list(prefix=topic, states=["Ongoing"])
        found = transactions.describe(topic)
        assert (listed.name, listed.producer_id, found.state) == (topic, found.producer_id, "Ongoing")
        assert found.partitions == ((topic, 1),)
        (blocked,) = transactions.open_in(topic, 1)
        assert (blocked.is_blocked, blocked.last_stable_offset, blocked.high_watermark) == (True, 0, 1)
        (held,) = blocked.open
        assert (held.first_offset, held.is_hanging, held.transaction) == (0, False, found)
        assert transactions.abort(topic).name == topic
        wait_until(lambda: not transactions.open_in(topic, 1)[0].is_blocked)
        with pytest.raises(ottla.FencedError):
            producer.abort_transaction()
