"""Metadata's response, which is written by hand, byte for byte as kafka-python writes it, in every version."""

from __future__ import annotations

import asyncio
import uuid
from types import SimpleNamespace
from typing import Any

import pytest
import uvloop
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.protocol.metadata import MetadataResponse

from ottla_broker.kafka.addresses import KafkaAddresses
from ottla_broker.kafka.apis import APIS
from ottla_broker.kafka.handlers import metadata
from ottla_broker.kafka.wire.encoded_topics import EncodedTopics
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.listener_settings import KafkaListener
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import Broker, Change, ClusterImage, Partition, ResourceConfigs, Topic
from ottla_core.errors import ErrorCode
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import MetadataRequest
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId, TopicId

METADATA = 3
LISTENERS = [KafkaListener(name, HostPort("127.0.0.1", 9092), None) for name in ("IN", "OUT")]
TOPIC_OPERATIONS, CLUSTER_OPERATIONS = {3, 4, 5, 6, 7, 8, 10, 11}, {5, 7, 8, 9, 10, 11, 12}
NODES = st.lists(st.integers(0, 6), max_size=4, unique=True).map(tuple)


@st.composite
def brokers(draw: st.DrawFn) -> list[Broker]:
    """Draw 0 to 5 brokers; each may be fenced, and may have only one of two listeners."""
    names = st.sets(st.sampled_from(["IN", "OUT"]), min_size=1)
    return [
        Broker(
            n,
            100 + n,
            "d",
            "host:1",
            kafka_listeners={name: f"{name}-{n}:{9000 + n}" for name in draw(names)},
            rack=draw(st.sampled_from(["", "rack"])),
            fenced=draw(st.booleans()),
        )
        for n in draw(st.sets(st.integers(0, 5)))
    ]


@st.composite
def images(draw: st.DrawFn) -> ClusterImage:
    changes = [Change(("broker", broker.id), broker) for broker in draw(brokers())]
    changes.append(Change(("configs", "broker", ""), ResourceConfigs({"auto.create.topics.enable": "false"})))
    for number, name in enumerate(draw(st.sets(st.sampled_from(["a", "b" * 249, "c.d", "__consumer_offsets"])))):
        topic_id, count = TopicId(bytes([number + 1]) * 16), draw(st.integers(1, 4) | st.just(130))
        partition = Partition(draw(NODES), draw(st.integers(-1, 6)), draw(st.integers(0, 2**31 - 1)), draw(NODES))
        other = Partition((1, 2, 3), draw(st.integers(-1, 6)), 7, (1, 2))
        ids = [PartitionId(topic_id, n) for n in range(count)]
        changes += [Change(("partition", id_), partition if id_.partition % 2 else other) for id_ in ids]
        changes.append(Change(("topic", name), Topic(name, topic_id, count)))
    return ClusterImage("cluster").with_changes(changes, 500)


@st.composite
def requests(draw: st.DrawFn, version: int) -> Any:
    names = st.sampled_from(["a", "b" * 249, "c.d", "__consumer_offsets", "missing", "not legal", "ü" * 100])
    named = names.map(lambda name: MetadataRequest.MetadataRequestTopic(name=name))
    ids = st.integers(0, 6).map(lambda n: MetadataRequest.MetadataRequestTopic(name=None, topic_id=bytes([n]) * 16))
    topic = named | ids if version >= 10 else named
    return MetadataRequest(
        topics=draw(st.lists(topic, max_size=6) | st.none()),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=draw(st.booleans()),
        include_topic_authorized_operations=draw(st.booleans()),
    )


def expected(image: ClusterImage, request: Any, version: int, listener: str, node_id: int) -> Any:
    """The response as kafka-python has it, by Kafka's rules as they stand."""
    reachable = [b for b in image.brokers.values() if listener in b.kafka_listeners]
    given = [b for b in reachable if not b.fenced]
    ids = sorted(b.id for b in given)
    every = request.topics is None or (version == 0 and not request.topics)
    once = {(topic.name, topic.topic_id): topic for topic in request.topics or ()}.values()
    topics = image.topics.values() if every else [found(image, topic) for topic in once]
    operations = CLUSTER_OPERATIONS if request.include_cluster_authorized_operations else None
    return MetadataResponse(
        version=version,
        brokers=[
            MetadataResponse.MetadataResponseBroker(
                version=version, node_id=b.id, host=f"{listener}-{b.id}", port=9000 + b.id, rack=b.rack or None
            )
            for b in given
        ],
        cluster_id="cluster",
        controller_id=node_id if node_id in ids else min(ids, default=-1),
        topics=[expected_topic(image, topic, version, listener, operations=request) for topic in topics],
        authorized_operations=operations,
    )


def found(image: ClusterImage, requested: Any) -> Topic | tuple[ErrorCode, str | None, bytes]:
    if requested.name is None:
        topic_id = requested.topic_id
        by_id = [topic for topic in image.topics.values() if topic.id == topic_id]
        return by_id[0] if by_id else (ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if requested.name in image.topics:
        return image.topics[requested.name]
    is_legal = requested.name in ("a", "b" * 249, "c.d", "__consumer_offsets", "missing")
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_legal else ErrorCode.INVALID_TOPIC_EXCEPTION
    return code, requested.name, bytes(16)


def expected_topic(image: ClusterImage, topic: Any, version: int, listener: str, operations: Any) -> Any:
    described = MetadataResponse.MetadataResponseTopic
    if not isinstance(topic, Topic):
        code, name, topic_id = topic
        name = "" if name is None and version < 12 else name
        return described(version=version, error_code=code, name=name, topic_id=uuid.UUID(bytes=topic_id))
    return described(
        version=version,
        error_code=0,
        name=topic.name,
        topic_id=uuid.UUID(bytes=topic.id),
        is_internal=topic.name == "__consumer_offsets",
        partitions=[
            expected_partition(image, id_.partition, partition, version, listener)
            for id_, partition in image.partitions_of(topic)
        ],
        authorized_operations=TOPIC_OPERATIONS if operations.include_topic_authorized_operations else None,
    )


def expected_partition(image: ClusterImage, number: int, partition: Partition, version: int, listener: str) -> Any:
    code, broker = 0, image.brokers.get(partition.leader)
    if broker is None or (broker.fenced and listener in broker.kafka_listeners):
        code = ErrorCode.LEADER_NOT_AVAILABLE
    elif listener not in broker.kafka_listeners:
        code = ErrorCode.LISTENER_NOT_FOUND if version >= 6 else ErrorCode.LEADER_NOT_AVAILABLE
    return MetadataResponse.MetadataResponseTopic.MetadataResponsePartition(
        version=version,
        error_code=code,
        partition_index=number,
        leader_id=-1 if code else partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=[n for n in partition.replicas if n not in image.brokers or image.brokers[n].fenced],
    )


@pytest.mark.parametrize("version", range(APIS[METADATA].min_version, APIS[METADATA].max_version + 1))
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_the_bytes_are_those_of_the_codec(version: int, data: st.DataObject) -> None:
    """Encode several requests one after the other, which may reuse cached parts of earlier responses."""
    backend: Any = SimpleNamespace(
        addresses=KafkaAddresses("127.0.0.1", "", LISTENERS), node_id=2, threads=DiskThreads(), topics=EncodedTopics()
    )
    backend.image = data.draw(images())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for _ in range(3):
            request, listener = data.draw(requests(version)), data.draw(st.sampled_from(["IN", "OUT"]))
            context = KafkaContext(version, 1, "", Reader(memoryview(b"")), Caller("::1", "::1", listener))
            written = b"".join(runner.run(metadata.handle(backend, request, context)))
            assert written == expected(backend.image, request, version, listener, 2).encode()
