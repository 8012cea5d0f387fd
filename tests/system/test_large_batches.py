"""Every batch in a log can be sent. A batch that no response can hold is an error of its partition alone."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from waiting import LIMIT_S, wait_until

import ottla
from ottla.errors import ConfigError, OttlaError
from ottla.testing import Cluster
from ottla_broker.storage import reading
from ottla_core.errors import ErrorCode
from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.rpc.status import MAX_MESSAGE_BYTES


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Two brokers lead a partition of `small` each, and one of them leads `big`."""
    with Cluster(brokers=2) as cluster, ottla.Admin(cluster.bootstrap) as admin:
        alone = {"min.insync.replicas": "1", "max.message.bytes": "64MiB"}
        admin.topics.create("big", partitions=1, replicas=2, config=alone)
        admin.topics.create("small", partitions=2, replicas=2, config=alone)
        yield cluster


def produce(cluster: Cluster, topic: str, value: bytes, acks: str, partition: int = 0) -> None:
    """Produce by a Kafka client, whose requests may have a hundred megabytes."""
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 64 << 20, "acks": acks, "linger.ms": 0}
    )
    producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error))
    producer.flush(LIMIT_S)
    assert errors == [None]


def kafka_consumer(cluster: Cluster, *partitions: tuple[str, int]) -> Consumer:
    settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "fetch.message.max.bytes": 1000}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for topic, partition in partitions])
    return consumer


@pytest.mark.long_turns  # each copy of such a batch takes one
@pytest.mark.story("batch-beyond-a-grpc-frame")
def test_a_message_beyond_a_grpc_request_is_replicated_and_read_by_every_client(cluster: Cluster) -> None:
    value = os.urandom(MAX_MESSAGE_BYTES + 1)
    produce(cluster, "big", value, acks="all")
    with ottla.Consumer("big", bootstrap=cluster.bootstrap, start="earliest", stop="end", value="bytes") as ours:
        assert [record.value == value for record in ours] == [True]
    consumer = kafka_consumer(cluster, ("big", 0))
    message = consumer.poll(LIMIT_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    assert message.value() == value


@pytest.mark.story("unsendable-batch-ends-a-session")
def test_a_batch_that_no_response_can_hold_is_the_error_of_its_partition_alone(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_BATCH_BYTES", reading.READ_MAX_BYTES)
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"replica.lag.time.max.ms": 2000})
    produce(cluster, "big", os.urandom(reading.READ_MAX_BYTES), acks="1")
    began_at = time.monotonic()
    for partition in range(2):
        produce(cluster, "small", b"x", acks="all", partition=partition)
    assert time.monotonic() - began_at < LIMIT_S / 2, "its leader's other partitions are replicated all the while"

    with ottla.Admin(cluster.bootstrap) as admin:  # the follower leaves the ISR, and the batch is committed
        wait_until(lambda: admin.topics.offsets("big")[0] == 1)
    with (
        ottla.Consumer("big", bootstrap=cluster.bootstrap, start="earliest", stop="end", value="bytes") as ours,
        pytest.raises(OttlaError, match=r"the batch at offset 0, .*seek to an offset after 0"),
    ):
        next(iter(ours))

    consumer, values, errors = kafka_consumer(cluster, ("big", 0), ("small", 0), ("small", 1)), [], []

    def poll() -> bool:
        try:
            message = consumer.poll(0.1)
        except KafkaException as error:
            errors.append(error.args[0].code())
        else:
            if message is not None and (error := message.error()) is not None:
                errors.append(error.code())
            elif message is not None:
                values.append(message.value())
        return len(values) == 2 and bool(errors)

    wait_until(poll)
    consumer.close()
    assert set(errors) == {ErrorCode.CORRUPT_MESSAGE}, "Java's consumer raises it too, and tries no longer"
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.delete_records("big", {0: 1})
        wait_until(lambda: len(admin.topics.describe("big")[0].partitions[0].isr) == 2)
    produce(cluster, "big", b"after it", acks="all")


@pytest.mark.story("max-message-bytes-without-end")
def test_max_message_bytes_ends_where_a_batch_could_not_be_sent(cluster: Cluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.configs.set({"max.message.bytes": MAX_BATCH_BYTES}, topic="big")
        with pytest.raises(ConfigError, match=f"from 0 to {MAX_BATCH_BYTES}"):
            admin.configs.set({"max.message.bytes": MAX_BATCH_BYTES + 1}, topic="big")
