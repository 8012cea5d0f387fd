"""The methods of every contract as typed values, with the operation that each one is authorized as.

`Method` carries the request and reply types, so that clients and services are typed end to end. A test compares this
table with the descriptors, and a service whose contract has a method that is missing here does not start.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from ottla_proto import broker_pb2 as b
from ottla_proto import controller_pb2 as c
from ottla_proto import group_pb2 as g

Request = TypeVar("Request", bound=Message)
Reply = TypeVar("Reply", bound=Message)


class Operation(Enum):
    """Kafka's ACL operations (KIP-11); the resource is named at the call."""

    READ = "READ"
    WRITE = "WRITE"
    CREATE = "CREATE"
    DELETE = "DELETE"
    ALTER = "ALTER"
    DESCRIBE = "DESCRIBE"
    DESCRIBE_CONFIGS = "DESCRIBE_CONFIGS"
    ALTER_CONFIGS = "ALTER_CONFIGS"
    CLUSTER_ACTION = "CLUSTER_ACTION"
    IDEMPOTENT_WRITE = "IDEMPOTENT_WRITE"


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Reply]):
    """One RPC. For a framed stream `request` and `reply` are the frames' bodies.

    `silent(request)` tells that the client awaits no answer; where there would be one, the stream ends (rule 66).
    """

    service: str
    name: str
    request: type[Request]
    reply: type[Reply]
    operation: Operation
    silent: Callable[[Request], bool] = lambda request: False

    @property
    def path(self) -> str:
        return f"/ottla.v1.{self.service}/{self.name}"


class Broker:
    SERVICE: Final[ServiceDescriptor] = b.DESCRIPTOR.services_by_name["Broker"]
    PRODUCE = Method(
        "Broker", "Produce", b.ProduceRequest, b.ProduceReply, Operation.WRITE, silent=lambda request: request.acks == 0
    )
    FETCH = Method("Broker", "Fetch", b.FetchRequest, b.FetchReply, Operation.READ)
    METADATA = Method("Broker", "Metadata", b.MetadataRequest, b.MetadataReply, Operation.DESCRIBE)
    LIST_OFFSETS = Method("Broker", "ListOffsets", b.ListOffsetsRequest, b.ListOffsetsReply, Operation.DESCRIBE)
    DELETE_RECORDS = Method("Broker", "DeleteRecords", b.DeleteRecordsRequest, b.DeleteRecordsReply, Operation.DELETE)
    DESCRIBE_LOG_DIRS = Method(
        "Broker", "DescribeLogDirs", b.DescribeLogDirsRequest, b.DescribeLogDirsReply, Operation.DESCRIBE
    )
    OFFSETS_FOR_LEADER_EPOCH = Method(
        "Broker",
        "OffsetsForLeaderEpoch",
        b.OffsetsForLeaderEpochRequest,
        b.OffsetsForLeaderEpochReply,
        Operation.DESCRIBE,
    )
    INIT_PRODUCER_ID = Method(
        "Broker", "InitProducerId", b.InitProducerIdRequest, b.InitProducerIdReply, Operation.IDEMPOTENT_WRITE
    )
    SHARD_APPEND = Method("Broker", "ShardAppend", b.ShardAppendRequest, b.ShardAppendReply, Operation.CLUSTER_ACTION)
    SHARD_APPENDS = Method(
        "Broker", "ShardAppends", b.ShardAppendsRequest, b.ShardAppendsReply, Operation.CLUSTER_ACTION
    )
    CHECK_FENCE = Method("Broker", "CheckFence", b.CheckFenceRequest, b.CheckFenceReply, Operation.CLUSTER_ACTION)
    LOG_ENDS = Method("Broker", "LogEnds", b.LogEndsRequest, b.LogEndsReply, Operation.CLUSTER_ACTION)


class Controller:
    SERVICE: Final[ServiceDescriptor] = c.DESCRIPTOR.services_by_name["Controller"]
    CREATE_TOPICS = Method("Controller", "CreateTopics", c.CreateTopicsRequest, c.CreateTopicsReply, Operation.CREATE)
    DELETE_TOPICS = Method("Controller", "DeleteTopics", c.DeleteTopicsRequest, c.DeleteTopicsReply, Operation.DELETE)
    CREATE_PARTITIONS = Method(
        "Controller", "CreatePartitions", c.CreatePartitionsRequest, c.CreatePartitionsReply, Operation.ALTER
    )
    DESCRIBE_CONFIGS = Method(
        "Controller", "DescribeConfigs", c.DescribeConfigsRequest, c.DescribeConfigsReply, Operation.DESCRIBE_CONFIGS
    )
    ALTER_CONFIGS = Method(
        "Controller", "AlterConfigs", c.AlterConfigsRequest, c.AlterConfigsReply, Operation.ALTER_CONFIGS
    )
    ALLOCATE_PRODUCER_IDS = Method(
        "Controller",
        "AllocateProducerIds",
        c.AllocateProducerIdsRequest,
        c.AllocateProducerIdsReply,
        Operation.CLUSTER_ACTION,
    )
    ALLOCATE_BROKER_ID = Method(
        "Controller",
        "AllocateBrokerId",
        c.AllocateBrokerIdRequest,
        c.AllocateBrokerIdReply,
        Operation.CLUSTER_ACTION,
    )
    ALTER_PARTITION = Method(
        "Controller", "AlterPartition", c.AlterPartitionRequest, c.AlterPartitionReply, Operation.CLUSTER_ACTION
    )
    CONTROLLED_SHUTDOWN = Method(
        "Controller",
        "ControlledShutdown",
        c.ControlledShutdownRequest,
        c.ControlledShutdownReply,
        Operation.CLUSTER_ACTION,
    )
    ELECT_LEADERS = Method("Controller", "ElectLeaders", c.ElectLeadersRequest, c.ElectLeadersReply, Operation.ALTER)
    RELEASE_SHARD = Method(
        "Controller", "ReleaseShard", c.ReleaseShardRequest, c.ReleaseShardReply, Operation.CLUSTER_ACTION
    )
    DESCRIBE_QUORUM = Method(
        "Controller", "DescribeQuorum", c.DescribeQuorumRequest, c.DescribeQuorumReply, Operation.DESCRIBE
    )
    DECLARE_RESTORED = Method(
        "Controller", "DeclareRestored", c.DeclareRestoredRequest, c.DeclareRestoredReply, Operation.ALTER
    )


class Group:
    SERVICE: Final[ServiceDescriptor] = g.DESCRIPTOR.services_by_name["Group"]
    JOIN = Method("Group", "Join", g.JoinRequest, g.JoinReply, Operation.READ)
    SYNC = Method("Group", "Sync", g.SyncRequest, g.SyncReply, Operation.READ)
    HEARTBEAT = Method("Group", "Heartbeat", g.HeartbeatRequest, g.HeartbeatReply, Operation.READ)
    HEARTBEATS = Method("Group", "Heartbeats", g.HeartbeatsRequest, g.HeartbeatsReply, Operation.READ)
    LEAVE = Method("Group", "Leave", g.LeaveRequest, g.LeaveReply, Operation.READ)
    COMMIT_OFFSETS = Method("Group", "CommitOffsets", g.CommitOffsetsRequest, g.CommitOffsetsReply, Operation.READ)
    FETCH_OFFSETS = Method("Group", "FetchOffsets", g.FetchOffsetsRequest, g.FetchOffsetsReply, Operation.DESCRIBE)
    DELETE_OFFSETS = Method("Group", "DeleteOffsets", g.DeleteOffsetsRequest, g.DeleteOffsetsReply, Operation.DELETE)
    LIST_GROUPS = Method("Group", "ListGroups", g.ListGroupsRequest, g.ListGroupsReply, Operation.DESCRIBE)
    DESCRIBE_GROUPS = Method(
        "Group", "DescribeGroups", g.DescribeGroupsRequest, g.DescribeGroupsReply, Operation.DESCRIBE
    )
    DELETE_GROUPS = Method("Group", "DeleteGroups", g.DeleteGroupsRequest, g.DeleteGroupsReply, Operation.DELETE)
    EXPLAIN_GROUP = Method("Group", "ExplainGroup", g.ExplainGroupRequest, g.ExplainGroupReply, Operation.DESCRIBE)
    LAG = Method("Group", "Lag", g.LagRequest, g.LagReply, Operation.DESCRIBE)
    SHARDS = Method("Group", "Shards", g.ShardsRequest, g.ShardsReply, Operation.DESCRIBE)
