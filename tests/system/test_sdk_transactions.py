"""Transactions of the SDK against real services, with each version of transactions: exactly once from topic to topic,
fencing, timeouts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from waiting import wait_until

import ottla
from ottla.testing import Cluster

WAIT = 60.0

_names = (f"txn-{n}" for n in itertools.count())


pytestmark = pytest.mark.usefixtures("transaction_version")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, group_coordinators=1, txn_coordinators=2) as cluster:
        yield cluster


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = next(_names)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=3)
    return name


def values(bootstrap: str, topic: str, level: str = "read_committed") -> list[int]:
    config = {"isolation.level": level}
    return sorted(record.value for record in ottla.read(topic, bootstrap=bootstrap, config=config))


def attempt(producer: ottla.Producer[None, int], *numbers: int, aborted: bool = False) -> None:
    with producer.transaction() as tx:
        for number in numbers:
            tx.send(number)
        producer.flush()
        if aborted:
            producer.abort_transaction()


def test_what_is_committed_is_read_and_what_is_aborted_is_not(cluster: Cluster, topic: str) -> None:
    with ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as producer:
        for number in range(20):
            attempt(producer, 2 * number, 2 * number + 1, aborted=bool(number % 2))
    assert values(cluster.bootstrap, topic) == [n for n in range(40) if n % 4 < 2]
    assert values(cluster.bootstrap, topic, "read_uncommitted") == list(range(40))


def test_a_transaction_has_the_version_of_its_cluster(cluster: Cluster, transaction_version: int, topic: str) -> None:
    with ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as producer:
        attempt(producer, 1)
    with ottla.Admin(cluster.bootstrap) as admin:
        version = admin.transactions.describe(topic).version
    assert version == transaction_version


@pytest.mark.story("lag-behind-the-end-of-a-transaction")
@pytest.mark.parametrize("commit", ["at_least_once", "manual"])
def test_a_group_that_has_read_a_transaction_to_its_end_has_no_lag(cluster: Cluster, topic: str, commit: str) -> None:
    with ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as producer:
        attempt(producer, *range(40))
    group = {"group": topic, "auto_offset_reset": "earliest", "stop": "end", "commit": commit}
    with ottla.Consumer(topic, bootstrap=cluster.bootstrap, **group) as consumer:  # type: ignore[arg-type]  # by name
        while not consumer.finished:
            if (batch := consumer.poll(0.5)) and commit == "manual":
                consumer.commit(batch.offsets)
    with ottla.Admin(cluster.bootstrap) as admin:
        committed, ends = admin.groups.committed(topic), admin.topics.offsets(topic)
    assert {each.partition: offset for each, offset in committed.items() if offset} == {
        n: at for n, at in ends.items() if at
    }


def test_a_loop_from_topic_to_topic_counts_each_record_once_though_every_other_try_fails(
    cluster: Cluster, topic: str
) -> None:
    source = f"{topic}-in"
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(source, partitions=3)
    with ottla.Producer[None, int](cluster.bootstrap, topic=source) as producer:
        producer.send_many(range(100))
    with (
        ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as producer,
        ottla.Consumer[None, int](
            source, bootstrap=cluster.bootstrap, group=topic, commit="manual", auto_offset_reset="earliest"
        ) as consumer,
    ):
        done = tries = 0
        while done < 100:
            batch, tries = consumer.poll(WAIT, max_records=7), tries + 1
            try:
                with producer.transaction(consumer) as tx:
                    for value in batch.values():
                        tx.send(value)
                    tx.commit_offsets(batch)
                    assert tries % 2 == 0, "every other try fails"
            except AssertionError:
                continue
            done += len(batch)
    assert values(cluster.bootstrap, topic) == list(range(100))


def test_an_end_and_an_epoch_whose_responses_were_lost_are_the_same_when_repeated(cluster: Cluster, topic: str) -> None:
    with ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as producer:
        producer.init_transactions()
        assert producer._manager is not None
        client, transactions = producer._manager._client, producer._manager.transactions
        for number in range(4):
            producer.begin_transaction()
            producer.send(number)
            producer.flush()
            current = transactions.current
            ended = client.end(current, committed=bool(number % 2), timeout=WAIT)
            assert client.end(current, committed=bool(number % 2), timeout=WAIT) == ended
            (producer.commit_transaction if number % 2 else producer.abort_transaction)()
            if transactions.used_up is not None:
                assert transactions.used_up == current.producer
                assigned = client.init(transactions.used_up, timeout=WAIT)
                assert client.init(transactions.used_up, timeout=WAIT) == assigned
    assert values(cluster.bootstrap, topic) == [1, 3]


def test_a_newer_producer_fences_the_older_one_and_aborts_what_it_left_open(cluster: Cluster, topic: str) -> None:
    with (
        ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as old,
        ottla.Producer[None, int](cluster.bootstrap, topic=topic, transactional_id=topic) as new,
    ):
        old.init_transactions()
        old.begin_transaction()
        old.send(1).result(WAIT)
        attempt(new, 2)
        with pytest.raises(ottla.OttlaError):
            old.commit_transaction()
        with pytest.raises(ottla.FencedError):
            old.begin_transaction()
    assert values(cluster.bootstrap, topic) == [2]


def test_a_transaction_that_times_out_is_aborted_and_the_producer_goes_on(cluster: Cluster, topic: str) -> None:
    with ottla.Producer[None, int](
        cluster.bootstrap, topic=topic, transactional_id=topic, transaction_timeout=1.0
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(1).result(WAIT)
        with ottla.Consumer[None, int](topic, bootstrap=cluster.bootstrap, start="earliest") as consumer:
            consumer.poll(0.1)
            wait_until(lambda: sum(end or 0 for end in consumer.offsets().values()) == 2)  # the marker
        # Kafka's messages can't say why, so the error has Kafka's code.
        with pytest.raises(ottla.TransactionAborted, match=r"INVALID_TXN_STATE|PRODUCER_FENCED"):
            producer.commit_transaction()
        attempt(producer, 2)
    assert values(cluster.bootstrap, topic) == [2]
