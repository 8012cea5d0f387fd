"""What Metadata tells a client of brokers that its listener does not reach."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from images import image_of, topic_id, with_topic
from kafka.protocol.metadata import MetadataResponse

from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_broker.kafka.handlers import metadata
from ottla_broker.kafka.wire.encoded_topics import EncodedTopics
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.listener_settings import KafkaListener
from ottla_core.cluster.image import Change
from ottla_core.errors import ErrorCode
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId

BOTH = [
    KafkaListener("INTERNAL", HostPort("0.0.0.0", 19092), HostPort("broker-0", 19092)),
    KafkaListener("EXTERNAL", HostPort("0.0.0.0", 9092), HostPort("localhost", 9092)),
]
TOLD = {
    0: {"INTERNAL": "broker-0:19092", "EXTERNAL": "localhost:9092"},
    1: {"INTERNAL": "broker-1:19092"},
}


async def told(listener: str, version: int, *, fenced: int | None = None) -> tuple[list[Any], list[Any]]:
    """The brokers, and of each partition its error and its leader; broker n leads partition n."""
    image = with_topic(image_of(2), "orders", 2)
    changes: list[Change] = [
        Change(("broker", n), replace(image.brokers[n], kafka_listeners=TOLD[n], fenced=n == fenced))
        for n in image.brokers
    ]
    for n in range(2):
        led = PartitionId(topic_id(1), n)
        changes.append(Change(("partition", led), replace(image.partitions[led], leader=n)))
    backend: Any = SimpleNamespace(
        image=image.with_changes(changes, 500),
        addresses=KafkaAddresses("0.0.0.0", "broker-0", BOTH),
        node_id=0,
        topics=EncodedTopics(),
    )
    caller = Caller("172.18.0.1", "172.18.0.2", listener)
    request = KafkaContext(version, 1, "test", Reader(memoryview(b"")), caller)
    encoded = await metadata.handle(backend, MetadataRequest(topics=None), request)
    answer: Any = MetadataResponse.decode(b"".join(encoded), version=version)
    partitions = answer.topics[0].partitions
    return (
        [(b.node_id, b.host, b.port) for b in answer.brokers],
        [(p.error_code, p.leader_id) for p in partitions],
    )


async def test_every_broker_by_the_listener_of_the_client() -> None:
    assert await told("INTERNAL", 9) == ([(0, "broker-0", 19092), (1, "broker-1", 19092)], [(0, 0), (0, 1)])


@pytest.mark.parametrize(("version", "code"), [(9, ErrorCode.LISTENER_NOT_FOUND), (5, ErrorCode.LEADER_NOT_AVAILABLE)])
async def test_a_leader_without_that_listener_is_none_to_the_client(version: int, code: ErrorCode) -> None:
    assert await told("EXTERNAL", version) == ([(0, "localhost", 9092)], [(0, 0), (code, -1)])


@pytest.mark.story("leader-is-missing-among-the-brokers")
async def test_a_leader_that_is_fenced_is_none_until_it_is_among_the_brokers() -> None:
    """A broker that has restarted still leads by the metadata, and clients would look in vain for its address."""
    brokers, partitions = await told("INTERNAL", 9, fenced=1)
    assert [number for number, *_ in brokers] == [0]
    assert partitions == [(0, 0), (ErrorCode.LEADER_NOT_AVAILABLE, -1)]
