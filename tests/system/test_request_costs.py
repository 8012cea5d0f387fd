"""What one request may cost: a valid element a thousand times over.

No turn of the loop is long meanwhile (tests/conftest.py); what may be refused is refused as Kafka does it.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from kafka.protocol import admin, consumer, metadata
from tests.fuzz.kafka_wire import KafkaWire

import ottla
from ottla_core.errors import ErrorCode
from ottla_core.records.compression import Codec
from ottla_core.records.twins import new_builder
from ottla_stack.cluster import Cluster

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

REPEATS = 10_000
NOW_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        with ottla.Admin(cluster.bootstrap) as client:
            client.topics.create("t", partitions=2, replicas=1)
        cluster.produce("t", [b"x"] * 10)
        yield cluster


@pytest.fixture
def kafka(cluster: Cluster) -> Iterator[KafkaWire]:
    with KafkaWire(cluster.bootstrap) as kafka:
        kafka.socket.settimeout(60)
        yield kafka.greet()


Ask = Callable[[list[str], list[int]], Any]


def list_offsets(names: list[str], numbers: list[int]) -> Any:
    kind = consumer.ListOffsetsRequest.ListOffsetsTopic
    partition = kind.ListOffsetsPartition
    return consumer.ListOffsetsRequest(
        replica_id=-1,
        isolation_level=0,
        topics=[
            kind(name=n, partitions=[partition(partition_index=p, timestamp=NOW_MS) for p in numbers]) for n in names
        ],
    )


def offset_fetch(names: list[str], numbers: list[int]) -> Any:
    group = consumer.OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [group.OffsetFetchRequestTopics(name="t", partition_indexes=numbers[:1])]
    return consumer.OffsetFetchRequest(groups=[group(group_id=n, topics=topics) for n in names], require_stable=False)


def offset_fetch_partitions(names: list[str], numbers: list[int]) -> Any:
    group = consumer.OffsetFetchRequest.OffsetFetchRequestGroup
    topics = [group.OffsetFetchRequestTopics(name=n, partition_indexes=numbers) for n in names]
    return consumer.OffsetFetchRequest(groups=[group(group_id="g", topics=topics)], require_stable=False)


def offset_commit(names: list[str], numbers: list[int]) -> Any:
    kind = consumer.OffsetCommitRequest.OffsetCommitRequestTopic
    partition = kind.OffsetCommitRequestPartition
    topics = [
        kind(
            name=n,
            partitions=[
                partition(partition_index=p, committed_offset=1, committed_leader_epoch=-1, committed_metadata="")
                for p in numbers
            ],
        )
        for n in names
    ]
    return consumer.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", group_instance_id=None, topics=topics
    )


def offset_delete(names: list[str], numbers: list[int]) -> Any:
    kind = consumer.OffsetDeleteRequest.OffsetDeleteRequestTopic
    return consumer.OffsetDeleteRequest(
        group_id="g",
        topics=[
            kind(name=n, partitions=[kind.OffsetDeleteRequestPartition(partition_index=p) for p in numbers])
            for n in names
        ],
    )


def epochs(names: list[str], numbers: list[int]) -> Any:
    kind = consumer.OffsetForLeaderEpochRequest.OffsetForLeaderTopic
    partition = kind.OffsetForLeaderPartition
    return consumer.OffsetForLeaderEpochRequest(
        replica_id=-1,
        topics=[
            kind(topic=n, partitions=[partition(partition=p, current_leader_epoch=-1, leader_epoch=0) for p in numbers])
            for n in names
        ],
    )


def find_coordinator(names: list[str], numbers: list[int]) -> Any:
    return metadata.FindCoordinatorRequest(key_type=0, coordinator_keys=names)


def describe_groups(names: list[str], numbers: list[int]) -> Any:
    return admin.DescribeGroupsRequest(groups=names, include_authorized_operations=False)


def delete_groups(names: list[str], numbers: list[int]) -> Any:
    return admin.DeleteGroupsRequest(groups_names=names)


def describe_configs(names: list[str], numbers: list[int]) -> Any:
    kind = admin.DescribeConfigsRequest.DescribeConfigsResource
    return admin.DescribeConfigsRequest(
        resources=[kind(resource_type=2, resource_name=n, configuration_keys=None) for n in names],
        include_synonyms=True,
        include_documentation=True,
    )


def config_keys(names: list[str], numbers: list[int]) -> Any:
    kind = admin.DescribeConfigsRequest.DescribeConfigsResource
    return admin.DescribeConfigsRequest(
        resources=[kind(resource_type=2, resource_name="t", configuration_keys=names)],
        include_synonyms=True,
        include_documentation=True,
    )


def delete_records(names: list[str], numbers: list[int]) -> Any:
    kind = admin.DeleteRecordsRequest.DeleteRecordsTopic
    partition = kind.DeleteRecordsPartition
    return admin.DeleteRecordsRequest(
        topics=[kind(name=n, partitions=[partition(partition_index=p, offset=0) for p in numbers]) for n in names],
        timeout_ms=5_000,
    )


def describe_producers(names: list[str], numbers: list[int]) -> Any:
    kind = admin.DescribeProducersRequest.TopicRequest
    return admin.DescribeProducersRequest(topics=[kind(name=n, partition_indexes=numbers) for n in names])


def topic_partitions(names: list[str], numbers: list[int]) -> Any:
    kind = admin.DescribeTopicPartitionsRequest.TopicRequest
    return admin.DescribeTopicPartitionsRequest(
        topics=[kind(name=n) for n in names], response_partition_limit=2_000, cursor=None
    )


def log_dirs(names: list[str], numbers: list[int]) -> Any:
    kind = admin.DescribeLogDirsRequest.DescribableLogDirTopic
    return admin.DescribeLogDirsRequest(topics=[kind(topic=n, partitions=numbers) for n in names])


def topics(names: list[str], numbers: list[int]) -> Any:
    kind = metadata.MetadataRequest.MetadataRequestTopic
    return metadata.MetadataRequest(
        topics=[kind(topic_id=None, name=n) for n in names],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )


def elect_leaders(names: list[str], numbers: list[int]) -> Any:
    kind = admin.ElectLeadersRequest.TopicPartitions
    return admin.ElectLeadersRequest(
        election_type=0, topic_partitions=[kind(topic=n, partitions=numbers) for n in names], timeout_ms=5_000
    )


def create_topics(names: list[str], numbers: list[int]) -> Any:
    kind = admin.CreateTopicsRequest.CreatableTopic
    return admin.CreateTopicsRequest(
        topics=[kind(name=n, num_partitions=1, replication_factor=1, assignments=[], configs=[]) for n in names],
        timeout_ms=5_000,
        validate_only=True,
    )


def create_partitions(names: list[str], numbers: list[int]) -> Any:
    kind = admin.CreatePartitionsRequest.CreatePartitionsTopic
    return admin.CreatePartitionsRequest(
        topics=[kind(name=n, count=3, assignments=None) for n in names], timeout_ms=5_000, validate_only=True
    )


def delete_topics(names: list[str], numbers: list[int]) -> Any:
    kind = admin.DeleteTopicsRequest.DeleteTopicState
    return admin.DeleteTopicsRequest(
        topics=[kind(name=f"not {n}", topic_id=None) for n in names], topic_names=[], timeout_ms=5_000
    )


def alter_configs(names: list[str], numbers: list[int]) -> Any:
    kind = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    config = kind.AlterableConfig(name="retention.ms", config_operation=0, value="1000")
    return admin.IncrementalAlterConfigsRequest(
        resources=[kind(resource_type=2, resource_name=n, configs=[config]) for n in names], validate_only=True
    )


def altered_keys(names: list[str], numbers: list[int]) -> Any:
    kind = admin.IncrementalAlterConfigsRequest.AlterConfigsResource
    configs = [kind.AlterableConfig(name=n, config_operation=0, value="1000") for n in names]
    return admin.IncrementalAlterConfigsRequest(
        resources=[kind(resource_type=2, resource_name="t", configs=configs)], validate_only=True
    )


def list_groups(names: list[str], numbers: list[int]) -> Any:
    return admin.ListGroupsRequest(states_filter=names, types_filter=names)


def join_group(names: list[str], numbers: list[int]) -> Any:
    kind = consumer.JoinGroupRequest.JoinGroupRequestProtocol
    return consumer.JoinGroupRequest(
        group_id="joined",
        session_timeout_ms=6_000,
        rebalance_timeout_ms=1_000,
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=[kind(name=n, metadata=b"m") for n in names],
        reason=None,
    )


def leave_group(names: list[str], numbers: list[int]) -> Any:
    kind = consumer.LeaveGroupRequest.MemberIdentity
    return consumer.LeaveGroupRequest(
        group_id="joined", members=[kind(member_id=n, group_instance_id=None, reason=None) for n in names]
    )


def sync_group(names: list[str], numbers: list[int]) -> Any:
    kind = consumer.SyncGroupRequest.SyncGroupRequestAssignment
    return consumer.SyncGroupRequest(
        group_id="joined",
        generation_id=1,
        member_id="m",
        group_instance_id=None,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[kind(member_id=n, assignment=b"a") for n in names],
    )


BY_PARTITION: list[tuple[Ask, int]] = [
    (list_offsets, 8),
    (offset_fetch_partitions, 8),
    (offset_commit, 9),
    (offset_delete, 0),
    (epochs, 4),
    (delete_records, 2),
    (describe_producers, 0),
    (log_dirs, 4),
    (elect_leaders, 2),
]
BY_NAME: list[tuple[Ask, int]] = [
    (offset_fetch, 8),
    (find_coordinator, 6),
    (describe_groups, 5),
    (delete_groups, 2),
    (describe_configs, 4),
    (config_keys, 4),
    (topic_partitions, 0),
    (topics, 12),
    (create_topics, 7),
    (create_partitions, 3),
    (delete_topics, 6),
    (alter_configs, 1),
    (altered_keys, 1),
    (list_groups, 5),
    (join_group, 9),
    (leave_group, 5),
    (sync_group, 5),
]
named = pytest.mark.parametrize(
    ("ask", "version"), [*BY_PARTITION, *BY_NAME], ids=lambda each: getattr(each, "__name__", None)
)


def seconds(kafka: KafkaWire, request: Any, version: int) -> float:
    began = time.monotonic()
    kafka.send(request, version)
    kafka.frame()
    return time.monotonic() - began


@named
def test_a_valid_element_that_is_repeated(kafka: KafkaWire, ask: Ask, version: int) -> None:
    by_partition = (ask, version) in BY_PARTITION
    request = ask(["t"], [0] * REPEATS) if by_partition else ask(["t"] * REPEATS, [0])
    assert seconds(kafka, request, version) < 10


def test_a_partition_that_is_named_twice_is_refused_and_no_other(kafka: KafkaWire) -> None:
    (topic,) = kafka.ask(list_offsets(["t", "t"], [0, 1, 0]), 8, consumer.ListOffsetsResponse).topics
    told = {each.partition_index: each.error_code for each in topic.partitions}
    assert told == {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.INVALID_REQUEST}
    (topic,) = kafka.ask(list_offsets(["t"], [0, 1, 0]), 8, consumer.ListOffsetsResponse).topics
    told = {each.partition_index: each.error_code for each in topic.partitions}
    assert told == {0: ErrorCode.INVALID_REQUEST, 1: ErrorCode.NONE}


def test_a_group_that_is_named_twice_is_refused_and_no_other(kafka: KafkaWire) -> None:
    told = kafka.ask(offset_fetch(["a", "b", "a"], [0]), 8, consumer.OffsetFetchResponse).groups
    assert {each.group_id: each.error_code for each in told} == {"a": ErrorCode.INVALID_REQUEST, "b": ErrorCode.NONE}
    assert len(told) == 2


def test_lookups_in_a_batch_of_a_million_records_keep_nobody_waiting(cluster: Cluster, kafka: KafkaWire) -> None:
    """Each goes through the batch; 200 of them in one request stopped every other client for seconds."""
    with ottla.Admin(cluster.bootstrap) as client:
        client.topics.create("large", partitions=8, replicas=1)
    builder = new_builder(64 << 20)
    for _ in range(1_000_000):
        builder.append(NOW_MS, b"", b"")
    batch = builder.seal(Codec.ZSTD)
    produced = [struct.pack(">ii", number, len(batch)) + batch for number in range(8)]
    body = struct.pack(">hhiih5si", -1, 1, 30_000, 1, 5, b"large", len(produced)) + b"".join(produced)
    kafka.socket.sendall(struct.pack(">ihhih", len(body) + 10, 0, 3, 1, -1) + body)
    kafka.frame()
    kafka.send(list_offsets(["large"], list(range(8))), 8)
    with KafkaWire(cluster.bootstrap) as other:
        waits = [seconds(other, metadata.ApiVersionsRequest(), 0) for _ in range(100)]
    assert sorted(waits)[50] < 0.25
    assert max(waits) < 5
    kafka.frame()
    kafka.send(list_offsets(["large"] * 200, [0]), 8)
    assert seconds(kafka, metadata.ApiVersionsRequest(), 0) < 5, "and what is repeated is not done at all"


def produced(topic: str, batch: bytes, *, partitions: int = 1) -> bytes:
    """The frame of a produce of version 3 that waits for all replicas: the batch, in each partition."""
    name = topic.encode()
    body = struct.pack(f">hhiih{len(name)}si", -1, -1, 30_000, 1, len(name), name, partitions)
    body += b"".join(struct.pack(">ii", number, len(batch)) + batch for number in range(partitions))
    return struct.pack(">ihhih", len(body) + 10, 0, 3, 1, -1) + body


def outcomes(kafka: KafkaWire, topic: str) -> list[tuple[int, int]]:
    """Error and base offset of each partition of the next answer to a produce."""
    frame, at = kafka.frame(), 4 + 4 + 2 + len(topic)
    (count,) = struct.unpack_from(">i", frame, at)
    return [struct.unpack_from(">hq", frame, at + 4 + n * 22 + 4) for n in range(count)]


def batch_of(count: int, key: bytes | None = b"k") -> bytes:
    builder = new_builder(64 << 20)
    for _ in range(count):
        builder.append(NOW_MS, key, b"")
    return builder.seal(Codec.ZSTD)


def test_a_batch_that_is_looked_into_keeps_nobody_waiting_but_those_behind_it(
    cluster: Cluster, kafka: KafkaWire
) -> None:
    """A legal batch of 1.1 M records for a compacted topic held the loop for half a second."""
    with ottla.Admin(cluster.bootstrap) as client:
        client.topics.create("compacted", partitions=2, replicas=1, config={"cleanup.policy": "compact"})
    large, keyless, small = batch_of(1_100_000), batch_of(1_000, None), batch_of(1)
    kafka.socket.sendall(produced("compacted", large) + produced("compacted", keyless))
    with KafkaWire(cluster.bootstrap).greet() as other:
        waits = [seconds(other, metadata.ApiVersionsRequest(), 0) for _ in range(20)]
        other.socket.settimeout(60)
        other.socket.sendall(produced("compacted", small, partitions=2))
        (_, after), (_, alone) = outcomes(other, "compacted")
    assert outcomes(kafka, "compacted") == [(0, 0)]
    assert outcomes(kafka, "compacted") == [(ErrorCode.INVALID_RECORD, -1)]
    assert (after, alone) == (1_100_000, 0), "in the order in which they came"
    assert sorted(waits)[10] < 0.25
