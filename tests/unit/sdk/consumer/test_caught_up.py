"""Whether a consumer has caught up: by its last fetches, and by a look-up where there was none yet."""

from typing import Any

import pytest
from waiting import wait_until

import ottla.aio
from ottla.consumer.consumer import Consumer
from ottla.fakes.scripted import ScriptedCluster
from ottla.producer.producer import Producer
from ottla_core.kafka.messages import ListOffsetsRequest
from ottla_core.model import TopicPartition

T0 = TopicPartition("t", 0)


def filled(count: int, *, partitions: int = 1) -> ScriptedCluster:
    cluster = ScriptedCluster({"t": partitions})
    fill(cluster, count)
    return cluster


def fill(cluster: ScriptedCluster, count: int, *, partition: int = 0) -> None:
    with Producer[Any, Any]("b0:1", topic="t", value="bytes", _transport=cluster.connect) as producer:
        for n in range(count):
            producer.send(b"%d" % n, partition=partition)


def consumer_of(cluster: ScriptedCluster, **arguments: Any) -> Consumer[Any, Any]:
    defaults = {"bootstrap": "b0:1", "start": "earliest", "fetch_max_wait": 0.05, "_transport": cluster.connect}
    return Consumer("t", **{**defaults, **arguments})


@pytest.mark.feature(171)
def test_it_has_when_the_last_record_was_handed_out_of_every_partition() -> None:
    cluster = filled(10, partitions=2)
    fill(cluster, 5, partition=1)
    with consumer_of(cluster) as consumer:
        assert not consumer.caught_up()  # before the first fetch, too
        handed_out = 0
        while handed_out < 15:
            assert not consumer.caught_up()
            handed_out += len(consumer.poll(5, max_records=1))
        assert consumer.caught_up()
        fill(cluster, 1)
        wait_until(lambda: not consumer.caught_up())
        assert len(consumer.poll(5)) == 1
        assert consumer.caught_up()


def test_an_empty_partition_is_looked_up_once() -> None:
    cluster = filled(0, partitions=3)
    with consumer_of(cluster, fetch_max_wait=5) as consumer:
        assert consumer.caught_up()
        before = len(cluster.requests(ListOffsetsRequest))
        assert consumer.caught_up()
        assert len(cluster.requests(ListOffsetsRequest)) == before


def test_the_end_of_a_topic_that_was_made_anew_is_not_the_one_of_the_topic_before() -> None:
    cluster = filled(10)
    with consumer_of(cluster, max_poll_records=100) as consumer:
        assert len(consumer.poll(5)) == 10
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        fill(cluster, 3)
        assert len(consumer.poll(10)) == 3
        assert consumer.caught_up()


@pytest.mark.parametrize("seek", [lambda c: c.seek(T0, 0), lambda c: c.seek_to_beginning()])
def test_nor_after_a_seek(seek: Any) -> None:
    cluster = filled(10)
    with consumer_of(cluster, metadata_max_age=0.05, max_poll_records=100) as consumer:
        assert len(consumer.poll(5)) == 10
        consumer.pause()
        cluster.drop_topic("t")
        cluster.add_topic("t", 1)
        fill(cluster, 3)
        seek(consumer)
        consumer.resume()
        assert len(consumer.poll(10)) == 3
        assert consumer.caught_up()


def test_what_an_unclean_election_lost_is_not_waited_for() -> None:
    cluster = ScriptedCluster({"t": 1}, brokers=2)
    fill(cluster, 2)
    with consumer_of(cluster) as consumer:
        assert len(consumer.poll(5)) == 2
        fill(cluster, 3)
        assert len(consumer.poll(5)) == 3
        cluster.lose("t", 0, after=2)
        cluster.move_leader("t", 0, broker=1, epoch=1)
        wait_until(lambda: consumer.metrics["truncation-total"] == 1 and consumer.caught_up())
        assert consumer.position(T0) == 2


def test_where_nothing_is_assigned_it_has_not() -> None:
    with consumer_of(filled(0), group="g", start="committed") as member:
        assert not member.caught_up()


async def test_the_same_for_asyncio() -> None:
    cluster = filled(1)
    async with ottla.aio.Consumer(
        "t", bootstrap="b0:1", start="earliest", fetch_max_wait=0.05, _transport=cluster.connect
    ) as consumer:
        assert not await consumer.caught_up()
        assert len(await consumer.poll(5)) == 1
        assert await consumer.caught_up()
