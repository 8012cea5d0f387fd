"""What a test's plan does to clients of Kafka's protocol: the same as to the SDK's, but for errors in answers."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import confluent_kafka
import pytest
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka_clients import Confluent, Rec
from tests.fuzz.kafka_wire import KafkaWire
from waiting import LIMIT_S

import ottla
from ottla.testing import Cluster
from ottla_core.errors import ErrorCode

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TOPIC = "t"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        ottla.Admin(cluster.bootstrap).topics.create(TOPIC)
        yield cluster


def ask(kafka: KafkaWire) -> Any:
    return kafka.ask(MetadataRequest(topics=None), 12, MetadataResponse)


def values(cluster: Cluster) -> list[bytes]:
    return [record.value for record in cluster.read(TOPIC, value="bytes")]


@pytest.mark.rule(25)
@pytest.mark.parametrize(("idempotent", "expected"), [(True, [b"a", b"b"]), (False, [b"a", b"b", b"b"])])
def test_a_dropped_produce_is_sent_again_and_only_idempotence_keeps_a_lost_response_from_repeating(
    cluster: Cluster, idempotent: bool, expected: list[bytes]
) -> None:
    for value, fault in ((b"a", cluster.faults.drop), (b"b", cluster.faults.lose_response)):
        planned = fault("Produce").once()
        Confluent().produce(cluster.bootstrap, TOPIC, [Rec(None, value)], idempotent=idempotent)
        assert planned.met == 1
    assert values(cluster) == expected


def test_a_pause_and_a_delay_are_waited_out(cluster: Cluster) -> None:
    with KafkaWire(cluster.bootstrap) as kafka, ThreadPoolExecutor() as threads:
        cluster.brokers[0].pause()
        asked = threads.submit(ask, kafka)
        with pytest.raises(TimeoutError):
            asked.result(0.1)
        cluster.brokers[0].resume()
        assert TOPIC in [t.name for t in asked.result(LIMIT_S).topics]
        slow = cluster.faults.delay("Metadata", 0.05).once()
        assert TOPIC in [t.name for t in ask(kafka).topics]
        assert slow.met == 1


def test_produces_that_waited_through_a_pause_keep_their_order(cluster: Cluster) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 1})
    producer.produce(TOPIC, b"first")
    assert producer.flush(LIMIT_S) == 0
    cluster.brokers[0].pause()
    for n in range(20):
        producer.produce(TOPIC, b"%d" % n)
    assert producer.flush(0.2) > 0
    cluster.brokers[0].resume()
    assert producer.flush(LIMIT_S) == 0
    assert values(cluster) == [b"first", *(b"%d" % n for n in range(20))]


def test_a_fault_is_for_one_client_where_one_is_named(cluster: Cluster) -> None:
    cut = cluster.faults.drop("Metadata").of("kafka-wire")
    with KafkaWire(cluster.bootstrap) as kafka, pytest.raises(ConnectionError):
        ask(kafka)
    admin = confluent_kafka.Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
    assert TOPIC in admin.list_topics(timeout=LIMIT_S).topics
    admin.close()
    assert cut.met == 1


def test_an_error_is_answered_by_kafkas_protocol_too(cluster: Cluster) -> None:
    planned = cluster.faults.error("Metadata", ErrorCode.LEADER_NOT_AVAILABLE).once()
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)])
    with KafkaWire(cluster.bootstrap) as kafka:
        for code in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE):
            found = kafka.ask(request, 12, MetadataResponse)
            assert [(topic.name, topic.error_code) for topic in found.topics] == [(TOPIC, code)]
    assert planned.met == 1
    with pytest.raises(ValueError, match="'FindCoordinators'"):
        cluster.faults.error("FindCoordinators", ErrorCode.LEADER_NOT_AVAILABLE)


def test_a_kill_ends_kafka_connections_too(cluster: Cluster) -> None:
    with KafkaWire(cluster.bootstrap) as kafka:
        ask(kafka)
        cluster.brokers[0].kill()
        assert kafka.is_closed()
