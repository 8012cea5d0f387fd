"""Clients while leaders change, with real brokers: no error, nothing twice, nothing out of order, nothing missing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest
from unclean import UncleanTopic
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, racks=("a", "b", "c")) as running:
        yield running


def create(cluster: Cluster, *, partitions: int = 1) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("t", partitions=partitions, replicas=3, config={"min.insync.replicas": 2})


def described(cluster: Cluster, partition: int = 0) -> ottla.PartitionInfo:
    with ottla.Admin(cluster.bootstrap) as admin:
        return admin.topics.describe("t")[0].partitions[partition]


class Reader(threading.Thread):
    """Reads the topic for as long as it is written; `values` by partition, and what went wrong."""

    def __init__(self, bootstrap: str, **arguments: Any) -> None:
        super().__init__(daemon=True)
        self.consumer: ottla.Consumer[Any, Any] = ottla.Consumer(
            "t", bootstrap=bootstrap, start="earliest", value="int", auto_offset_reset="none", **arguments
        )
        self.values: dict[int, list[int]] = {}
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            for record in self.consumer:
                self.values.setdefault(record.partition, []).append(record.value)
        except BaseException as error:
            self.error = error

    def until(self, count: int) -> dict[int, list[int]]:
        wait_until(lambda: self.error is not None or sum(map(len, self.values.values())) >= count)
        self.consumer.close()
        self.join(LIMIT_S)
        assert self.error is None
        return self.values


@pytest.mark.rule(25, 26)
@pytest.mark.feature(21, 137, 138)
def test_an_answer_that_is_lost_is_repeated_with_the_offset_where_it_was_written(
    cluster: Cluster, bootstrap: str
) -> None:
    create(cluster)
    with ottla.Producer(bootstrap, topic="t", value="int", batch_size=100, linger=0) as producer:
        lost = cluster.faults.lose_response("Produce").of(producer.client_id).times(3)
        places = [producer.send(n) for n in range(200)]
        assert [place.result(LIMIT_S).offset for place in places] == list(range(200))
    assert lost.met == 3
    assert [record.value for record in cluster.read("t", value="int")] == list(range(200))


@pytest.mark.rule(10, 67)
@pytest.mark.feature(32, 175)
def test_leaders_that_are_killed_are_not_noticed_by_writers_and_readers(cluster: Cluster, bootstrap: str) -> None:
    create(cluster, partitions=3)
    reader = Reader(bootstrap)
    with ottla.Producer(bootstrap, topic="t", value="int", batch_size=500, linger=0) as producer:
        sent: list[Any] = []
        for _ in range(3):
            victim = cluster.brokers[described(cluster).leader]
            for n in range(2000):
                sent.append(producer.send(len(sent), partition=n % 3))
                if n == 1000:
                    victim.kill()
            producer.flush(LIMIT_S)
            victim.restart()
            wait_until(lambda: all(len(described(cluster, n).isr) == 3 for n in range(3)))
        places = [place.result(LIMIT_S) for place in sent]
    values = reader.until(len(sent))
    for partition in range(3):
        mine = [n for n, place in enumerate(places) if place.partition == partition]
        assert values[partition] == mine
        assert [places[n].offset for n in mine] == list(range(len(mine)))


@pytest.mark.feature(32, 120)
def test_a_broker_that_stops_in_order_costs_no_client_an_error(cluster: Cluster, bootstrap: str) -> None:
    create(cluster, partitions=3)
    reader = Reader(bootstrap)
    with ottla.Producer(bootstrap, topic="t", value="int", retries=50, linger=0) as producer:
        stopping = threading.Thread(target=cluster.brokers[described(cluster).leader].stop)
        sent = [producer.send(n, partition=n % 3) for n in range(300)]
        stopping.start()
        while stopping.is_alive():
            sent.append(producer.send(len(sent), partition=len(sent) % 3))
            sent[-1].result(LIMIT_S)
        sent += [producer.send(n, partition=n % 3) for n in range(len(sent), len(sent) + 300)]
        for place in sent:
            place.result(LIMIT_S)
    values = reader.until(len(sent))
    assert {partition: values[partition] for partition in range(3)} == {
        partition: list(range(partition, len(sent), 3)) for partition in range(3)
    }


@pytest.mark.rule(67)
@pytest.mark.feature(46)
def test_after_an_unclean_election_a_reader_is_told_where_the_log_parts(
    cluster: Cluster, bootstrap: str, caplog: pytest.LogCaptureFixture
) -> None:
    topic = UncleanTopic(cluster, "t")
    going_on: ottla.Consumer[Any, Any] = ottla.Consumer(
        "t", bootstrap=bootstrap, start="earliest", value="int", auto_offset_reset="latest"
    )
    strict: ottla.Consumer[Any, Any] = ottla.Consumer(
        "t", bootstrap=bootstrap, start="earliest", value="int", auto_offset_reset="none"
    )
    bounded: ottla.Consumer[Any, Any] = ottla.Consumer(
        "t", bootstrap=bootstrap, start="earliest", stop="end", value="int"
    )
    with going_on, strict, bounded:
        topic.produce(range(10))
        topic.fall_behind()
        topic.produce(range(10, 20))
        for consumer in (going_on, strict):
            assert read(consumer, 20) == list(range(20))
        assert bounded.assignment()  # its stop is looked up, and nothing is fetched yet
        topic.lose_what_followed()
        topic.produce(range(100, 101))
        assert read(going_on, 1) == [100]
        assert going_on.metrics["truncation-total"] == 1
        with pytest.raises(ottla.TruncationError) as caught:
            read(strict, 1)
        assert (caught.value.offset, caught.value.divergent_offset) == (20, 10)
        assert read(bounded, 10) == list(range(10))
        assert not bounded.poll(LIMIT_S)
        assert bounded.finished
    assert any("lacks the records from 10 on; continuing there" in record.message for record in caplog.records)


def read(consumer: ottla.Consumer[Any, Any], count: int) -> list[int]:
    values: list[int] = []
    wait_until(lambda: len(values.__iadd__(consumer.poll(0.2).values())) >= count)
    return values
