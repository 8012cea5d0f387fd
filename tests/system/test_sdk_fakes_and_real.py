"""The same small stories with the fakes and with a real cluster: whoever tests with fakes tests what will happen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from waiting import LIMIT_S

import ottla
from ottla.testing import Cluster, FakeCluster, FakeConsumer, FakeProducer

_numbers = itertools.count()


@pytest.fixture(scope="module")
def real_cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(params=["fake", "real"])
def world(request: pytest.FixtureRequest) -> Any:
    """`Producer`, `Consumer`, a cluster and its address, and a topic of three partitions."""
    topic = f"story-{next(_numbers)}"
    if request.param == "fake":
        cluster = FakeCluster({topic: 3})
        return SimpleNamespace(
            Producer=FakeProducer, Consumer=FakeConsumer, cluster=cluster, address=cluster.bootstrap, topic=topic
        )
    real = request.getfixturevalue("real_cluster")
    with ottla.Admin(real.bootstrap) as admin:
        admin.topics.create(topic, partitions=3)
    return SimpleNamespace(
        Producer=ottla.Producer, Consumer=ottla.Consumer, cluster=real, address=real.bootstrap, topic=topic
    )


def producer_of(world: Any, **arguments: Any) -> Any:
    return world.Producer(world.address, topic=world.topic, **arguments)


def consumer_of(world: Any, **arguments: Any) -> Any:
    return world.Consumer(world.topic, **{"bootstrap": world.address, "start": "earliest", **arguments})


def test_keys_choose_the_same_partitions_and_offsets_count_up(world: Any) -> None:
    with producer_of(world) as producer:
        places = [producer.send({"n": n}, key=f"key-{n % 5}").result(LIMIT_S) for n in range(15)]
        assert producer.partitions_for() == 3
    assert [place.partition for place in places[:5]] == [1, 0, 2, 2, 0]  # murmur2, as kafka-python has it
    for partition in range(3):
        offsets = [place.offset for place in places if place.partition == partition]
        assert offsets == list(range(len(offsets)))


@pytest.mark.feature(21, 136)
@pytest.mark.parametrize("enable_idempotence", [True, False])
def test_records_arrive_once_and_in_order(world: Any, enable_idempotence: bool) -> None:
    with producer_of(world, enable_idempotence=enable_idempotence, batch_size=100, linger=0) as producer:
        places = [producer.send(str(n), partition=n % 3) for n in range(300)]
        assert [place.result(LIMIT_S).offset for place in places] == [n // 3 for n in range(300)]
    with consumer_of(world, partitions=[1], stop="end") as consumer:
        assert [record.value for record in consumer] == [str(n) for n in range(1, 300, 3)]


def test_what_goes_in_comes_out(world: Any) -> None:
    with producer_of(world, key="str", value="json") as producer:
        producer.send({"id": 1}, key="eu", headers={"source": "shop"}, timestamp=1_500, partition=1)
        producer.send(None, key="eu", partition=1)
    with consumer_of(world, stop="end", key="str", value="json") as consumer:
        first, tombstone = consumer
        assert (first.key, first.value, first.headers) == ("eu", {"id": 1}, [("source", b"shop")])
        assert (first.topic, first.partition, first.offset, first.timestamp) == (world.topic, 1, 0, 1_500)
        assert (tombstone.value, tombstone.offset) == (None, 1)
        assert consumer.finished


def test_seeking_stopping_and_counting(world: Any) -> None:
    world.cluster.produce(world.topic, [f"{n}" for n in range(20)])
    with consumer_of(world, stop=5) as consumer:
        assert len(list(consumer)) == 5
    with consumer_of(world, stop="end") as consumer:
        (partition,) = {(record.topic, record.partition) for record in consumer}
        consumer.seek(partition, 18)
        assert [record.value for record in consumer] == ["18", "19"]
        consumer.seek_to_time(timedelta(hours=-1))
        assert len(list(consumer)) == 20
        assert sum(consumer.lag().values()) == 0
        assert consumer.metrics["records-consumed-total"] == 42


def test_what_can_not_be_written_or_read_is_named(world: Any) -> None:
    with producer_of(world) as producer:
        with pytest.raises(ottla.SerializationError, match=f"{world.topic}.*does not accept object"):
            producer.send(object())
        with pytest.raises(ottla.RecordTooLargeError):
            producer.send(b"x" * 2_000_000)
        with pytest.raises(ottla.ConfigError, match="has no partition 7"):
            producer.send("x", partition=7)
        producer.send("hello", partition=0)
    with consumer_of(world, stop="end", value="int") as consumer, pytest.raises(ottla.SerializationError) as caught:
        list(consumer)
    assert (caught.value.topic, caught.value.partition, caught.value.offset) == (world.topic, 0, 0)


def test_closed_clients_say_so(world: Any) -> None:
    producer, consumer = producer_of(world), consumer_of(world)
    producer.close()
    consumer.close()
    with pytest.raises(ottla.ConfigError, match="the producer is closed"):
        producer.send("x")
    with pytest.raises(ottla.OttlaError, match="the consumer is closed"):
        consumer.poll()


@pytest.mark.feature(54, 61)
def test_what_was_requested_once_is_fetched_on_however_the_reader_moves(world: Any) -> None:
    with producer_of(world, linger=0) as producer, consumer_of(world, fetch_max_wait=20.0) as consumer:

        def send(partition: int) -> None:
            producer.send("x", partition=partition).result(LIMIT_S)

        def read(count: int) -> list[tuple[int, int]]:
            records: list[Any] = []
            while len(records) < count:
                batch = consumer.poll(10)
                assert batch
                records += batch
            return sorted((record.partition, record.offset) for record in records)

        assert not consumer.poll(0.1)
        for offset in range(3):
            send(1)
            assert read(1) == [(1, offset)]
        send(2)
        assert read(1) == [(2, 0)], "it was requested all the time"
        consumer.seek((world.topic, 1), 1)
        assert read(2) == [(1, 1), (1, 2)]
        consumer.pause((world.topic, 0))
        send(0)
        assert not consumer.poll(0.1)
        consumer.resume((world.topic, 0))
        send(0)
        assert read(2) == [(0, 0), (0, 1)]
        consumer.seek_to_beginning()
        assert len(read(6)) == 6
