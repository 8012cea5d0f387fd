"""What a dashboard asks a broker for: traffic by topic, latencies by API, the process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kafka import KafkaConsumer, KafkaProducer
from scraped import scraped
from waiting import LIMIT_S, wait_until

import ottla
from ottla.testing import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.mark.story("nothing-to-draw-a-dashboard-from")
def test_a_topics_traffic_is_counted_at_its_leaders_and_goes_with_it(cluster: Cluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("orders", partitions=4, replicas=2)
        with ottla.Producer(cluster.bootstrap, topic="orders") as producer:
            for number in range(100):
                producer.send(b"x" * 100, key=str(number))
        assert len(list(ottla.Consumer("orders", bootstrap=cluster.bootstrap, start="earliest", stop="end"))) == 100
        seen = scraped(cluster)
        assert seen["ottla_topic_records_in_total", "orders"] == 100, "copies are not counted"
        bytes_in = seen["ottla_topic_bytes_in_total", "orders"]
        assert 100 * 100 < bytes_in < 100 * 200
        assert seen["ottla_topic_bytes_out_total", "orders"] >= bytes_in, "whole batches, copies not counted"
        wait_until(lambda: scraped(cluster)["ottla_topic_log_bytes", "orders"] == 2 * bytes_in)
        admin.topics.delete("orders")
        wait_until(lambda: ("ottla_topic_bytes_in_total", "orders") not in scraped(cluster))


@pytest.mark.story("nothing-to-draw-a-dashboard-from")
def test_requests_of_kafka_clients_have_latencies_by_api(cluster: Cluster) -> None:
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("kafkas", partitions=1)
    before = scraped(cluster).get(("ottla_kafka_request_seconds_count", "Produce"), 0.0)
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap)
    try:
        for _ in range(3):
            producer.send("kafkas", b"x").get(timeout=LIMIT_S)
    finally:
        producer.close()
    seen = scraped(cluster)
    assert seen["ottla_kafka_request_seconds_count", "Produce"] == before + 3
    assert seen["ottla_kafka_request_seconds_sum", "Produce"] > 0
    assert ("ottla_kafka_request_seconds_count", "ElectLeaders") not in seen, "what nobody asked for has no series"


def test_a_fetch_that_waits_for_data_is_counted_until_it_has_some(cluster: Cluster) -> None:
    def parked() -> float:
        return scraped(cluster)["ottla_broker_parked_fetches", ""]

    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create("waited-for", partitions=1)
    wait_until(lambda: parked() == 0)
    consumer = KafkaConsumer(
        "waited-for", bootstrap_servers=cluster.bootstrap, fetch_max_wait_ms=25_000, auto_offset_reset="earliest"
    )
    try:
        assert not consumer.poll(timeout_ms=1_000)
        wait_until(lambda: parked() == 1)
        with ottla.Producer(cluster.bootstrap, topic="waited-for") as producer:
            producer.send(b"x")
        wait_until(lambda: parked() == 0)
    finally:
        consumer.close()


def test_a_process_tells_what_it_takes_of_its_machine(cluster: Cluster) -> None:
    seen = scraped(cluster)
    assert seen["process_cpu_seconds_total", ""] > 0
    assert seen["process_resident_memory_bytes", ""] > 10 << 20
    assert ("python_info", "") in seen
