"""Requests with elements by the thousand: whoever is answered at such length leaves the loop to others in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from types import SimpleNamespace as Told
from typing import Any

import pytest
from images import image_of, with_topic
from turns import turns_during

from ottla_broker.kafka.handlers import (
    add_partitions_to_txn,
    alter_configs,
    alter_replica_log_dirs,
    create_partitions,
    create_topics,
    describe_groups,
    describe_quorum,
    describe_topic_partitions,
    join_group,
    list_config_resources,
    offset_fetch,
    sync_group,
    txn_offset_commit,
)
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_broker.storage.disk_threads import DiskThreads
from ottla_core.cluster.image import Change, ClusterImage, Partition, Topic
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.kafka.messages import (
    AddPartitionsToTxnRequest,
    AlterConfigsRequest,
    AlterReplicaLogDirsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DescribeGroupsRequest,
    DescribeQuorumRequest,
    DescribeTopicPartitionsRequest,
    IncrementalAlterConfigsRequest,
    JoinGroupRequest,
    ListConfigResourcesRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.model import PartitionId, TopicId
from ottla_proto import controller_pb2 as pb
from ottla_proto import group_pb2

pytestmark = pytest.mark.usefixtures("slices_by_looks")

MANY = 40_000
_Dir = AlterReplicaLogDirsRequest.AlterReplicaLogDir
_DirTopic = AlterReplicaLogDirsRequest.AlterReplicaLogDirTopic
IMAGE = with_topic(image_of(1), "t", 3, number=1)
LARGE = ClusterImage("c").with_changes(
    [
        *(Change(("partition", PartitionId(TopicId(bytes(16)), n)), Partition((0, 1, 2))) for n in range(10_000)),
        Change(("topic", "t"), Topic("t", TopicId(bytes(16)), 10_000)),
    ],
    1,
)


class Backend:
    """A broker that has no replica, before a controller and a coordinator that say `response`."""

    def __init__(self, response: Any = None) -> None:
        self.image = IMAGE
        self.node_id = 0
        self.clock = Told(wall_ms=lambda: 0)
        self.log_dir = lambda: Told(sizes=lambda: Told(path="/data"))
        self.replicas = Told(table=Told(all=list))
        self.threads = DiskThreads()
        self.controller = self.metadata = self.coordinators = self
        self._response = response

    def id_of(self, topic: str, partition: int) -> Any:
        known = self.image.topics.get(topic)
        return None if known is None else (known.id, partition)

    async def call(self, method: object, asked: Any, *, timeout: float, principal: str) -> Any:
        return self._response

    async def wait_for(self, condition: object, timeout: float) -> None:
        await asyncio.Event().wait()

    def owner(self, kind: str, key: str) -> Any:
        return None

    async def ask(self, owner: Any, method: object, asked: Any, timeout: float) -> Any:
        return self._response


def request(version: int) -> KafkaContext:
    return KafkaContext(version, 1, "", Reader(memoryview(b"")), Caller("", ""))


def quorum() -> Coroutine[Any, Any, Any]:
    partitions = [DescribeQuorumRequest.PartitionData(partition_index=n) for n in range(MANY)]
    backend: Any = Backend(pb.DescribeQuorumResponse(leader_id=1, address="host:1"))
    topic = DescribeQuorumRequest.TopicData(topic_name="t", partitions=partitions)
    return describe_quorum.handle(backend, DescribeQuorumRequest(topics=[topic]), request(2))


def log_dirs() -> Coroutine[Any, Any, Any]:
    backend: Any = Backend()
    wanted = _Dir(path="/data", topics=[_DirTopic(name="t", partitions=range(MANY))])
    return alter_replica_log_dirs.handle(backend, AlterReplicaLogDirsRequest(dirs=[wanted]), request(2))


def offsets() -> Coroutine[Any, Any, Any]:
    """Fetch offsets of an unknown topic, for which the coordinator need not be queried."""
    backend: Any = Backend(group_pb2.FetchOffsetsResponse())
    topic = OffsetFetchRequest.OffsetFetchRequestTopics(partition_indexes=range(MANY))
    group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="g", topics=[topic])
    return offset_fetch.handle(backend, OffsetFetchRequest(groups=[group]), request(10))


def configs() -> Coroutine[Any, Any, Any]:
    entries = [pb.ConfigEntry(name=f"{n}", source="DYNAMIC_TOPIC_CONFIG") for n in range(100)]
    described = [pb.ConfigsDescribed(entries=entries) for _ in range(1_000)]
    backend: Any = Backend(pb.DescribeConfigsResponse(resources=[*described, pb.ConfigsDescribed()]))
    kind = AlterConfigsRequest.AlterConfigsResource
    resources = [kind(resource_type=2, resource_name=f"t{n}") for n in range(1_000)]
    return alter_configs._replacements(backend, resources, "User:alice")


def altering() -> Coroutine[Any, Any, Any]:
    backend: Any = Backend(pb.AlterConfigsResponse(resources=[pb.ConfigsAlterResult()]))
    kind = IncrementalAlterConfigsRequest.AlterableConfig
    configs = [kind(name=f"{n}", value="", config_operation=0) for n in range(MANY)]
    resource = IncrementalAlterConfigsRequest.AlterConfigsResource(resource_type=2, resource_name="t", configs=configs)
    asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
    return alter_configs.incremental(backend, asked, request(1))


def creating() -> Coroutine[Any, Any, Any]:
    backend: Any = Backend(pb.CreateTopicsResponse(topics=[pb.TopicCreated(name="u")]))
    assignments = [CreateTopicsRequest.CreatableReplicaAssignment(partition_index=n) for n in range(MANY)]
    topic = CreateTopicsRequest.CreatableTopic(
        name="u", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    asked = CreateTopicsRequest(topics=[topic], validate_only=True, timeout_ms=1)
    return create_topics.handle(backend, asked, request(2))


def growing() -> Coroutine[Any, Any, Any]:
    backend: Any = Backend(pb.CreatePartitionsResponse(topics=[pb.PartitionsCreated(name="t")]))
    assignments = [CreatePartitionsRequest.CreatePartitionsAssignment() for _ in range(MANY)]
    topic = CreatePartitionsRequest.CreatePartitionsTopic(name="t", count=MANY, assignments=assignments)
    asked = CreatePartitionsRequest(topics=[topic], validate_only=True, timeout_ms=1)
    return create_partitions.handle(backend, asked, request(2))


def joining() -> Coroutine[Any, Any, Any]:
    backend: Any = Backend(group_pb2.JoinResponse())
    protocols = [JoinGroupRequest.JoinGroupRequestProtocol(name=f"{n}") for n in range(MANY)]
    return join_group.handle(backend, JoinGroupRequest(group_id="g", protocols=protocols), request(1))


def synchronizing() -> Coroutine[Any, Any, Any]:
    backend: Any = Backend(group_pb2.SyncResponse())
    assignments = [SyncGroupRequest.SyncGroupRequestAssignment(member_id=f"{n}") for n in range(MANY)]
    return sync_group.handle(backend, SyncGroupRequest(group_id="g", assignments=assignments), request(1))


def commit_in_a_transaction() -> Coroutine[Any, Any, Any]:
    kind = TxnOffsetCommitRequest.TxnOffsetCommitRequestPartition
    partitions = [kind(partition_index=n, committed_offset=1) for n in range(MANY)]
    topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic(name="u", partitions=partitions)
    asked = TxnOffsetCommitRequest(topics=[topic])
    backend: Any = Backend()
    return txn_offset_commit.handle(backend, asked, request(3))


def adding_to_a_transaction() -> Coroutine[Any, Any, Any]:
    topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name="u", partitions=range(MANY))
    asked = AddPartitionsToTxnRequest(v3_and_below_topics=[topic])
    backend: Any = Backend()
    return add_partitions_to_txn.handle(backend, asked, request(3))


def resources() -> Coroutine[Any, Any, Any]:
    backend: Any = Told(image=Told(topics=dict.fromkeys(map(str, range(MANY)))))
    return list_config_resources.handle(backend, ListConfigResourcesRequest(resource_types=[2]), request(1))


def describing() -> Coroutine[Any, Any, Any]:
    """Describe one topic, with as many partitions as fit into one response."""
    backend: Any = Told(image=LARGE, threads=DiskThreads())
    asked = DescribeTopicPartitionsRequest(topics=[DescribeTopicPartitionsRequest.TopicRequest(name="t")])
    return describe_topic_partitions.handle(backend, asked, request(0))


def describing_groups() -> Coroutine[Any, Any, Any]:
    async def denied(operation: object, kind: object, names: list[str]) -> dict[str, OttlaError]:
        return dict.fromkeys(names, OttlaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "not allowed"))

    access: Any = Told(denied=denied)
    context = KafkaContext(1, 1, "me", Reader(memoryview(b"")), Caller("", ""), access)
    backend: Any = Backend()
    return describe_groups.handle(backend, DescribeGroupsRequest(groups=[f"g{n}" for n in range(MANY)]), context)


async def check_turns_during(answer: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    answering = asyncio.create_task(answer())
    assert await turns_during(answering) > 12, "without slices a handful of them, for the call"
    await answering


@pytest.mark.story("long-answer-in-one-turn")
@pytest.mark.parametrize(
    "answer",
    [
        *(quorum, log_dirs, offsets, configs, joining, synchronizing, resources, describing_groups),
        *(commit_in_a_transaction, adding_to_a_transaction),
    ],
)
async def test_a_long_answer_leaves_others_their_turns(answer: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Each held the loop for up to a second, with all that one request may name or a cluster has."""
    await check_turns_during(answer)


@pytest.mark.story("one-element-of-many-in-one-turn")
@pytest.mark.parametrize("answer", [altering, creating, growing])
async def test_an_element_that_has_many_leaves_others_their_turns(
    answer: Callable[[], Coroutine[Any, Any, Any]],
) -> None:
    """No slice cuts through one: it is translated beside the loop."""
    await check_turns_during(answer)


async def test_one_topic_of_many_partitions_leaves_others_their_turns() -> None:
    """A slice ends between its partitions too."""
    await check_turns_during(describing)


@pytest.mark.story("unknown-partition-is-elsewhere")
async def test_a_partition_that_nobody_has_is_unknown_and_one_that_others_have_is_not_here() -> None:
    backend: Any = Backend()
    wanted = _Dir(
        path="/data", topics=[_DirTopic(name="t", partitions=[0, 3]), _DirTopic(name="nobody", partitions=[0])]
    )
    elsewhere = _Dir(
        path="/elsewhere", topics=[_DirTopic(name="t", partitions=[1]), _DirTopic(name="other", partitions=[0])]
    )
    answer = await alter_replica_log_dirs.handle(
        backend, AlterReplicaLogDirsRequest(dirs=[wanted, elsewhere]), request(2)
    )
    codes = {(t.topic_name, p.partition_index): p.error_code for t in answer.results for p in t.partitions}
    assert codes == {
        ("t", 0): ErrorCode.REPLICA_NOT_AVAILABLE,
        ("t", 1): ErrorCode.LOG_DIR_NOT_FOUND,
        ("t", 3): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("nobody", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ("other", 0): ErrorCode.LOG_DIR_NOT_FOUND,
    }
