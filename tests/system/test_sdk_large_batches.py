"""Batches that grow, and topics that take smaller ones than a producer makes, with each transport and real brokers."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster

_names = (f"large{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, txn_coordinators=1) as running:
        yield running


def topic_of(admin: ottla.Admin, max_message_bytes: int, **config: object) -> str:
    name = next(_names)
    admin.topics.create(name, partitions=1, replicas=3, config={"max.message.bytes": max_message_bytes, **config})
    return name


def values(count: int) -> list[bytes]:
    chance = random.Random(3)
    return [b"%06d" % number + chance.randbytes(94) for number in range(count)]


def written(bootstrap: str, topic: str, **arguments: Any) -> list[bytes]:
    with ottla.Consumer(
        topic, bootstrap=bootstrap, start="earliest", stop="end", value="bytes", **arguments
    ) as consumer:
        return [record.value for record in consumer]


@pytest.mark.feature(19)
@pytest.mark.feature(31)
@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), ("all", False), (1, False)])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_topic_that_takes_smaller_batches_gets_every_record_once_and_in_order(
    cluster: Cluster, admin: ottla.Admin, acks: Any, idempotent: bool, compression: Any
) -> None:
    topic = topic_of(admin, 5_000)
    called: list[int] = []
    with ottla.Producer(
        cluster.bootstrap,
        topic=topic,
        value="bytes",
        acks=acks,
        enable_idempotence=idempotent,
        compression=compression,
        linger=0.05,
    ) as producer:
        sent = []
        for value in values(5_000):
            sent.append(producer.send(value))
            sent[-1].add_done_callback(lambda delivery: called.append(delivery.result().offset))
        producer.flush()
        assert [delivery.result(0).offset for delivery in sent] == list(range(5_000))
        assert called == list(range(5_000))
        assert producer.metrics["record-send-total"] == 5_000
        before = producer.metrics["batch-total"]
        for value in values(1_000):
            producer.send(value)
        producer.flush()
        assert producer.metrics["record-retry-total"] > 0
        assert producer.metrics["batch-total"] - before < 2 * 1_000 * 110 / 2_500, "the partition knows its size"
    # With acks=1 readers may see the last records a moment after they were acknowledged.
    wait_until(lambda: written(cluster.bootstrap, topic) == values(5_000) + values(1_000))


def test_a_record_that_no_batch_of_the_topic_can_hold_fails_alone(cluster: Cluster, admin: ottla.Admin) -> None:
    topic = topic_of(admin, 5_000)
    with ottla.Producer(cluster.bootstrap, topic=topic, value="bytes", linger=0.05) as producer:
        sent = [producer.send(bytes(6_000 if number == 50 else 100)) for number in range(100)]
        errors = [delivery.exception(LIMIT_S) for delivery in sent]
    assert [number for number, error in enumerate(errors) if error is not None] == [50]
    assert isinstance(errors[50], ottla.RecordTooLargeError)
    assert [delivery.result().offset for delivery in sent if delivery is not sent[50]] == list(range(99))


def test_a_transaction_holds_the_parts_of_its_batches(cluster: Cluster, admin: ottla.Admin) -> None:
    topic = topic_of(admin, 5_000)
    with ottla.Producer(cluster.bootstrap, topic=topic, value="bytes", transactional_id=topic, linger=0.05) as producer:
        for part in (values(1_000), values(2_000)):
            with producer.transaction() as transaction:
                for value in part:
                    transaction.send(value)
        assert producer.metrics["batch-split-total"] > 0
    read = partial(written, cluster.bootstrap, topic, isolation_level="read_committed")
    wait_until(lambda: read() == values(1_000) + values(2_000))  # consumers see a commit a moment later


@pytest.mark.rule(66)
def test_without_acks_no_batch_is_larger_than_batch_size(cluster: Cluster, admin: ottla.Admin) -> None:
    topic = topic_of(admin, 64 * 1024)
    with ottla.Producer(cluster.bootstrap, topic=topic, value="bytes", acks=0) as producer:
        for value in values(30_000):
            producer.send(value)
    wait_until(lambda: written(cluster.bootstrap, topic) == values(30_000))


@pytest.mark.feature(20)
def test_batches_grow_while_they_wait_and_not_beyond_what_topics_take(cluster: Cluster, admin: ottla.Admin) -> None:
    topic, records = topic_of(admin, 1_048_588), values(1_000)
    sent = 0
    with ottla.Producer(
        cluster.bootstrap, topic=topic, value="bytes", batch_size=2_000, linger=0, enable_idempotence=False
    ) as producer:
        deadline = time.monotonic() + 3.0
        while producer.metrics["batch-size-max"] <= 2_000 and time.monotonic() < deadline:
            for value in records:
                producer.send(value)
            sent += len(records)
        producer.flush()
        largest = producer.metrics["batch-size-max"]
        assert producer.metrics["record-retry-total"] == 0
    assert largest > 2_000
    assert written(cluster.bootstrap, topic) == records * (sent // len(records))


def test_a_topic_with_smaller_segments_gets_every_record(cluster: Cluster, admin: ottla.Admin) -> None:
    topic = topic_of(admin, 1_048_588, **{"segment.bytes": 20_000})
    with ottla.Producer(cluster.bootstrap, topic=topic, value="bytes", linger=0.05) as producer:
        sent = [producer.send(value) for value in values(1_000)]
        producer.flush()
        assert [delivery.result(0).offset for delivery in sent] == list(range(1_000))
        assert producer.metrics["batch-split-total"] > 0
