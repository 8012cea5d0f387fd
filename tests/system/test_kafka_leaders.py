"""Kafka clients that ask the wrong broker are told the right one (KIP-951), in the versions that know how."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from kafka.protocol.consumer import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer import ProduceRequest, ProduceResponse
from tests.fuzz.kafka_wire import KafkaWire
from waiting import wait_until
from wire import batch

import ottla
from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

WRONG = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Led(NamedTuple):
    """A topic whose one replica broker 1 has."""

    topic: str
    id: uuid.UUID
    address: str


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=2) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def led(cluster: Cluster) -> Led:
    with ottla.Admin(cluster.bootstrap) as admin:
        info = admin.topics.create("led", assignments={0: [1]})
    assert info is not None
    return Led("led", uuid.UUID(info.id), cluster.brokers[1].kafka_address)


@pytest.fixture
def wrong(cluster: Cluster) -> Iterator[KafkaWire]:
    with KafkaWire(cluster.brokers[0].kafka_address) as kafka:
        yield kafka


def endpoints(answer: Any) -> list[tuple[int, str]]:
    return [(e.node_id, f"{e.host}:{e.port}") for e in answer.node_endpoints or ()]


@pytest.mark.feature(132)
def test_metadata_names_all_brokers_with_their_own_ports(cluster: Cluster, led: Led, wrong: KafkaWire) -> None:
    asked = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=led.topic)])
    answer = wrong.ask(asked, 12, MetadataResponse)
    assert [f"{b.host}:{b.port}" for b in answer.brokers] == cluster.bootstrap.split(",")
    assert answer.controller_id == 0, "any broker passes on what is the controller's"
    assert answer.topics[0].partitions[0].leader_id == 1


def produce(topic: str, *, acks: int, timeout_ms: int = 10_000) -> Any:
    data = ProduceRequest.TopicProduceData
    part = data.PartitionProduceData(index=0, records=batch(b"v"))
    topics = [data(name=topic, partition_data=[part])]
    return ProduceRequest(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=topics)


@pytest.mark.parametrize("version", [3, 9, 10, 11])
def test_produce(led: Led, wrong: KafkaWire, version: int) -> None:
    answer = wrong.ask(produce(led.topic, acks=1), version, ProduceResponse)
    (told,) = answer.responses[0].partition_responses
    assert (told.error_code, told.base_offset) == (WRONG, -1)
    if version >= 10:
        assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (1, 0)
        assert endpoints(answer) == [(1, led.address)]


@pytest.mark.parametrize("version", [4, 11, 12, 15, 16, 18])
def test_fetch(led: Led, wrong: KafkaWire, version: int) -> None:
    asked = FetchRequest.FetchTopic
    part = asked.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
    request = FetchRequest(
        version=version,
        max_wait_ms=60_000,
        min_bytes=1,
        max_bytes=1_000,
        session_epoch=-1,
        topics=[asked(topic=led.topic, topic_id=led.id, partitions=[part])],
    )
    answer = wrong.ask(request, version, FetchResponse)
    (told,) = answer.responses[0].partitions
    assert told.error_code == WRONG
    if version >= 12:
        assert (told.current_leader.leader_id, told.current_leader.leader_epoch) == (1, 0)
    if version >= 16:
        assert endpoints(answer) == [(1, led.address)]


@pytest.mark.rule(66)
@pytest.mark.feature(133)
def test_acks_all_waits_for_the_followers_and_acks_1_does_not() -> None:
    with Cluster(brokers=2) as cluster, KafkaWire(cluster.brokers[0].kafka_address) as kafka:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.topics.create("copied", assignments={0: [0, 1]})
        held = cluster.faults.delay("ReplicaFetch", 60.0, broker=0).of("replica-1")
        wait_until(lambda: held.met > 0)

        def told(acks: int, timeout_ms: int = 10_000) -> tuple[int, int]:
            answer = kafka.ask(produce("copied", acks=acks, timeout_ms=timeout_ms), 9, ProduceResponse)
            (part,) = answer.responses[0].partition_responses
            return part.error_code, part.base_offset

        assert told(-1, timeout_ms=200) == (ErrorCode.REQUEST_TIMED_OUT, -1)
        assert told(1) == (0, 1)
        cluster.faults.clear()
        cluster.brokers[1].restart()
        assert told(-1) == (0, 2)
