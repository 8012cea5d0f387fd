"""Requests of many thousand topics, as large clusters see them: they are answered, and what cannot be honest is not."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import pytest
from kafka.protocol.admin import CreateTopicsRequest, CreateTopicsResponse
from kafka.protocol.consumer import JoinGroupRequest, JoinGroupResponse, OffsetCommitRequest, OffsetCommitResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from tests.fuzz.kafka_wire import KafkaWire, framed

import ottla
from ottla_core.errors import ErrorCode
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

TOPICS = 10_000
_MB = 1_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaWire]:
    with KafkaWire(cluster.bootstrap) as kafka:
        kafka.socket.settimeout(60)
        yield kafka.greet()


def size_mb(request: Any, version: int) -> float:
    return len(framed(request, version)) / _MB


def metadata_of(count: int) -> Any:
    """Names of the greatest length."""
    names = (f"{n:05}".rjust(249, "x") for n in range(count))
    topics = [MetadataRequest.MetadataRequestTopic(topic_id=None, name=name) for name in names]
    return MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def test_metadata_of_ten_thousand_topics(kafka: KafkaWire) -> None:
    request = metadata_of(TOPICS)
    assert size_mb(request, 12) > 2
    told = kafka.ask(request, 12, MetadataResponse).topics
    assert [topic.error_code for topic in told] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * TOPICS


def test_ten_thousand_topics_are_asked_for_in_one_request(kafka: KafkaWire) -> None:
    kind = CreateTopicsRequest.CreatableTopic
    configs = [kind.CreatableTopicConfig(name=f"some.config.{n}", value="86400000") for n in range(8)]
    topics = [
        kind(name=f"not legal {n}", num_partitions=1, replication_factor=1, assignments=[], configs=configs)
        for n in range(TOPICS)
    ]
    request = CreateTopicsRequest(topics=topics, timeout_ms=60_000, validate_only=True)
    assert size_mb(request, 7) > 2
    told = kafka.ask(request, 7, CreateTopicsResponse).topics
    assert [topic.error_code for topic in told] == [ErrorCode.INVALID_TOPIC_EXCEPTION] * TOPICS


def test_a_million_names_of_nothing_end_the_connection_and_no_other(cluster: Cluster, kafka: KafkaWire) -> None:
    """Two bytes each: decoded they would take a hundred times as much."""
    body = struct.pack(">i", 1_000_000) + bytes(2_000_000)
    head = struct.pack(">hhih", 3, 1, 1, -1)
    kafka.socket.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    assert kafka.is_closed()
    with KafkaWire(cluster.bootstrap) as other:
        assert len(other.ask(metadata_of(1), 12, MetadataResponse).topics) == 1


@pytest.mark.parametrize("size_bytes", [40_000, 10_000_000])
@pytest.mark.parametrize("version", [8, 9])
def test_what_a_commit_says_too_much_of_is_its_partition_s_error(
    cluster: Cluster, kafka: KafkaWire, version: int, size_bytes: int
) -> None:
    """Also where it is longer than any other string may be: who is cut off for it only sends it again."""
    name = f"commits-{version}-{size_bytes}"
    with ottla.Admin(cluster.bootstrap) as admin:
        admin.topics.create(name, partitions=2)
    kind = OffsetCommitRequest.OffsetCommitRequestTopic
    parts = [
        kind.OffsetCommitRequestPartition(
            partition_index=n, committed_offset=1, committed_leader_epoch=-1, committed_metadata=metadata
        )
        for n, metadata in enumerate(("m" * size_bytes, "m"))
    ]
    asked = OffsetCommitRequest(
        group_id=name, generation_id_or_member_epoch=-1, member_id="", topics=[kind(name=name, partitions=parts)]
    )
    (topic,) = kafka.ask(asked, version, OffsetCommitResponse).topics
    assert [p.error_code for p in topic.partitions] == [ErrorCode.OFFSET_METADATA_TOO_LARGE, 0]


@pytest.mark.parametrize("size_bytes", [40_000, 900_000])
@pytest.mark.parametrize("version", [5, 9])
def test_what_a_member_brings_for_its_assignor_may_be_long(kafka: KafkaWire, version: int, size_bytes: int) -> None:
    protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=bytes(size_bytes))
    asked = JoinGroupRequest(
        group_id=f"members-{version}-{size_bytes}",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )
    asked.member_id = kafka.ask(asked, version, JoinGroupResponse).member_id
    told = kafka.ask(asked, version, JoinGroupResponse)
    assert told.error_code == 0
    assert [len(member.metadata) for member in told.members] == [size_bytes]
