"""Batches of the SDK that grow and are split, with Apache Kafka itself."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from peers.kafka.server import KafkaServer
from tests.compat.cells import DIFFERS
from waiting import wait_until

import ottla
from ottla.client.kafka.transport import KafkaTransport

RECORDS = 20_000
_names = (f"batches-of-the-sdk-{n}" for n in itertools.count())


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with KafkaServer(tmp_path_factory.mktemp("kafka") / "node", heap="512m") as server:
        yield server.bootstrap


def topic_of(kafka: str, **config: str) -> str:
    name = next(_names)
    client = AdminClient({"bootstrap.servers": kafka})
    (made,) = client.create_topics([NewTopic(name, 1, 1, config=config)]).values()
    made.result()
    return name


def values() -> list[bytes]:
    chance = random.Random(3)
    return [b"%06d" % number + chance.randbytes(94) for number in range(RECORDS)]


def written(kafka: str, topic: str) -> list[bytes]:
    with ottla.Consumer(
        topic, bootstrap=kafka, start="earliest", stop="end", value="bytes", _transport=KafkaTransport("reader")
    ) as consumer:
        return [record.value for record in consumer]


@DIFFERS.cell
@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(("acks", "idempotent"), [("all", True), ("all", False), (1, False)])
def test_a_topic_that_takes_smaller_batches_gets_every_record_once_and_in_order(
    kafka: str, acks: Any, idempotent: bool, compression: Any
) -> None:
    topic = topic_of(kafka, **{"max.message.bytes": "20000"})
    with ottla.Producer(
        kafka,
        topic=topic,
        value="bytes",
        acks=acks,
        enable_idempotence=idempotent,
        compression=compression,
        _transport=KafkaTransport("writer"),
    ) as producer:
        sent = [producer.send(value) for value in values()]
        producer.flush()
        assert [delivery.result(0).offset for delivery in sent] == list(range(RECORDS))
        assert producer.metrics["batch-split-total"] > 0
    assert written(kafka, topic) == values()


@DIFFERS.cell
def test_batches_grow_to_what_a_topic_takes_by_default_and_not_beyond(kafka: str) -> None:
    topic = topic_of(kafka)
    sent = 0
    with ottla.Producer(
        kafka,
        topic=topic,
        value="bytes",
        batch_size=2_000,
        linger=0,
        enable_idempotence=False,
        _transport=KafkaTransport("writer"),
    ) as producer:
        for round_ in itertools.count():
            for value in values():
                producer.send(value)
            sent += RECORDS
            if producer.metrics["batch-size-max"] > 64 * 1024 or round_ == 20:
                break
        producer.flush()
        assert producer.metrics["batch-size-max"] > 64 * 1024
        assert producer.metrics["batch-split-total"] == 0
    assert len(written(kafka, topic)) == sent


@DIFFERS.cell
def test_a_transaction_holds_the_parts_of_its_batches(kafka: str) -> None:
    topic = topic_of(kafka, **{"max.message.bytes": "20000"})
    with ottla.Producer(
        kafka, topic=topic, value="bytes", transactional_id=topic, _transport=KafkaTransport("writer")
    ) as producer:
        with producer.transaction() as transaction:
            for value in values():
                transaction.send(value)
        assert producer.metrics["batch-split-total"] > 0
    wait_until(lambda: written(kafka, topic) == values())
