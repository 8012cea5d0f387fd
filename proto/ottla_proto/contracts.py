"""The methods of every contract as typed values, with the operation of Kafka's that each one amounts to.

`Method` carries the request and response types, so that clients and services are typed end to end. A test compares this
table with the descriptors, and a service whose contract has a method that is missing here does not start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import Message

from ottla_proto import broker_pb2 as b
from ottla_proto import controller_pb2 as c
from ottla_proto import group_pb2 as g
from ottla_proto import mirror_pb2 as m
from ottla_proto import txn_pb2 as t
from ottla_proto.common_pb2 import ShardsRequest, ShardsResponse
from ottla_proto.operation import Operation

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One RPC. For a framed stream `request` and `response` are the frames' bodies."""

    service: str
    name: str
    request: type[Request]
    response: type[Response]
    operation: Operation

    @property
    def path(self) -> str:
        return f"/ottla.v1.{self.service}/{self.name}"


@dataclass(frozen=True, slots=True)
class GatheredCalls:
    """The RPC whose stream carries calls of its contract's other methods: of those that its frames have a body for
    (docs/adr/0027)."""

    service: str
    name: str
    call: type[Message]
    response: type[Message]

    @property
    def path(self) -> str:
        return f"/ottla.v1.{self.service}/{self.name}"


class Broker:
    SERVICE: Final[ServiceDescriptor] = b.DESCRIPTOR.services_by_name["Broker"]
    FETCH = Method("Broker", "Fetch", b.FetchRequest, b.FetchResponse, Operation.READ)
    REPLICA_FETCH = Method("Broker", "ReplicaFetch", b.FetchRequest, b.FetchResponse, Operation.CLUSTER_ACTION)
    LIST_OFFSETS = Method("Broker", "ListOffsets", b.ListOffsetsRequest, b.ListOffsetsResponse, Operation.DESCRIBE)
    SHARD_APPEND = Method(
        "Broker", "ShardAppend", b.ShardAppendRequest, b.ShardAppendResponse, Operation.CLUSTER_ACTION
    )
    CHECK_FENCE = Method("Broker", "CheckFence", b.CheckFenceRequest, b.CheckFenceResponse, Operation.CLUSTER_ACTION)
    LOG_ENDS = Method("Broker", "LogEnds", b.LogEndsRequest, b.LogEndsResponse, Operation.CLUSTER_ACTION)
    WRITE_TXN_MARKERS = Method(
        "Broker", "WriteTxnMarkers", b.WriteTxnMarkersRequest, b.WriteTxnMarkersResponse, Operation.CLUSTER_ACTION
    )
    CALLS = GatheredCalls("Broker", "Calls", b.BrokerCall, b.BrokerResponse)
    APPENDS = GatheredCalls("Broker", "Appends", b.AppendCall, b.AppendResponse)


class Controller:
    SERVICE: Final[ServiceDescriptor] = c.DESCRIPTOR.services_by_name["Controller"]
    CREATE_TOPICS = Method(
        "Controller", "CreateTopics", c.CreateTopicsRequest, c.CreateTopicsResponse, Operation.CREATE
    )
    DELETE_TOPICS = Method(
        "Controller", "DeleteTopics", c.DeleteTopicsRequest, c.DeleteTopicsResponse, Operation.DELETE
    )
    CREATE_PARTITIONS = Method(
        "Controller", "CreatePartitions", c.CreatePartitionsRequest, c.CreatePartitionsResponse, Operation.ALTER
    )
    DESCRIBE_CONFIGS = Method(
        "Controller", "DescribeConfigs", c.DescribeConfigsRequest, c.DescribeConfigsResponse, Operation.DESCRIBE_CONFIGS
    )
    ALTER_CONFIGS = Method(
        "Controller", "AlterConfigs", c.AlterConfigsRequest, c.AlterConfigsResponse, Operation.ALTER_CONFIGS
    )
    ALLOCATE_PRODUCER_IDS = Method(
        "Controller",
        "AllocateProducerIds",
        c.AllocateProducerIdsRequest,
        c.AllocateProducerIdsResponse,
        Operation.CLUSTER_ACTION,
    )
    ALLOCATE_BROKER_ID = Method(
        "Controller",
        "AllocateBrokerId",
        c.AllocateBrokerIdRequest,
        c.AllocateBrokerIdResponse,
        Operation.CLUSTER_ACTION,
    )
    ALTER_PARTITION = Method(
        "Controller", "AlterPartition", c.AlterPartitionRequest, c.AlterPartitionResponse, Operation.CLUSTER_ACTION
    )
    CONTROLLED_SHUTDOWN = Method(
        "Controller",
        "ControlledShutdown",
        c.ControlledShutdownRequest,
        c.ControlledShutdownResponse,
        Operation.CLUSTER_ACTION,
    )
    ELECT_LEADERS = Method("Controller", "ElectLeaders", c.ElectLeadersRequest, c.ElectLeadersResponse, Operation.ALTER)
    RELEASE_SHARD = Method(
        "Controller", "ReleaseShard", c.ReleaseShardRequest, c.ReleaseShardResponse, Operation.CLUSTER_ACTION
    )
    DESCRIBE_QUORUM = Method(
        "Controller", "DescribeQuorum", c.DescribeQuorumRequest, c.DescribeQuorumResponse, Operation.DESCRIBE
    )
    DECLARE_RESTORED = Method(
        "Controller", "DeclareRestored", c.DeclareRestoredRequest, c.DeclareRestoredResponse, Operation.ALTER
    )
    CREATE_ACLS = Method("Controller", "CreateAcls", c.CreateAclsRequest, c.CreateAclsResponse, Operation.ALTER)
    DELETE_ACLS = Method("Controller", "DeleteAcls", c.DeleteAclsRequest, c.DeleteAclsResponse, Operation.ALTER)
    ALTER_SCRAM_CREDENTIALS = Method(
        "Controller",
        "AlterScramCredentials",
        c.AlterScramCredentialsRequest,
        c.AlterScramCredentialsResponse,
        Operation.ALTER,
    )


class Group:
    SERVICE: Final[ServiceDescriptor] = g.DESCRIPTOR.services_by_name["Group"]
    JOIN = Method("Group", "Join", g.JoinRequest, g.JoinResponse, Operation.READ)
    SYNC = Method("Group", "Sync", g.SyncRequest, g.SyncResponse, Operation.READ)
    HEARTBEAT = Method("Group", "Heartbeat", g.HeartbeatRequest, g.HeartbeatResponse, Operation.READ)
    LEAVE = Method("Group", "Leave", g.LeaveRequest, g.LeaveResponse, Operation.READ)
    COMMIT_OFFSETS = Method("Group", "CommitOffsets", g.CommitOffsetsRequest, g.CommitOffsetsResponse, Operation.READ)
    FETCH_OFFSETS = Method("Group", "FetchOffsets", g.FetchOffsetsRequest, g.FetchOffsetsResponse, Operation.DESCRIBE)
    DELETE_OFFSETS = Method("Group", "DeleteOffsets", g.DeleteOffsetsRequest, g.DeleteOffsetsResponse, Operation.DELETE)
    LIST_GROUPS = Method("Group", "ListGroups", g.ListGroupsRequest, g.ListGroupsResponse, Operation.DESCRIBE)
    DESCRIBE_GROUPS = Method(
        "Group", "DescribeGroups", g.DescribeGroupsRequest, g.DescribeGroupsResponse, Operation.DESCRIBE
    )
    DELETE_GROUPS = Method("Group", "DeleteGroups", g.DeleteGroupsRequest, g.DeleteGroupsResponse, Operation.DELETE)
    EXPLAIN_GROUP = Method("Group", "ExplainGroup", g.ExplainGroupRequest, g.ExplainGroupResponse, Operation.DESCRIBE)
    LAG = Method("Group", "Lag", g.LagRequest, g.LagResponse, Operation.DESCRIBE)
    SHARDS = Method("Group", "Shards", ShardsRequest, ShardsResponse, Operation.DESCRIBE)
    WRITE_TXN_MARKERS = Method(
        "Group", "WriteTxnMarkers", g.WriteShardMarkersRequest, g.WriteShardMarkersResponse, Operation.CLUSTER_ACTION
    )
    CALLS = GatheredCalls("Group", "Calls", g.GroupCall, g.GroupResponse)


class Txn:
    SERVICE: Final[ServiceDescriptor] = t.DESCRIPTOR.services_by_name["Txn"]
    INIT_PRODUCER = Method("Txn", "InitProducer", t.InitProducerRequest, t.InitProducerResponse, Operation.WRITE)
    ADD_PARTITIONS = Method("Txn", "AddPartitions", t.AddPartitionsRequest, t.AddPartitionsResponse, Operation.WRITE)
    ADD_OFFSETS = Method("Txn", "AddOffsets", t.AddOffsetsRequest, t.AddOffsetsResponse, Operation.WRITE)
    END_TXN = Method("Txn", "EndTxn", t.EndTxnRequest, t.EndTxnResponse, Operation.WRITE)
    PREPARE = Method("Txn", "Prepare", t.PrepareRequest, t.PrepareResponse, Operation.WRITE)
    FORGET = Method("Txn", "Forget", t.ForgetRequest, t.ForgetResponse, Operation.DELETE)
    LIST_TRANSACTIONS = Method(
        "Txn", "ListTransactions", t.ListTransactionsRequest, t.ListTransactionsResponse, Operation.DESCRIBE
    )
    DESCRIBE_TRANSACTIONS = Method(
        "Txn",
        "DescribeTransactions",
        t.DescribeTransactionsRequest,
        t.DescribeTransactionsResponse,
        Operation.DESCRIBE,
    )
    SHARDS = Method("Txn", "Shards", ShardsRequest, ShardsResponse, Operation.DESCRIBE)
    CALLS = GatheredCalls("Txn", "Calls", t.TxnCall, t.TxnResponse)


class Mirror:
    SERVICE: Final[ServiceDescriptor] = m.DESCRIPTOR.services_by_name["Mirror"]
    MIRROR_STATUS = Method("Mirror", "MirrorStatus", m.MirrorStatusRequest, m.MirrorStatusResponse, Operation.DESCRIBE)
    TRANSLATE_OFFSETS = Method(
        "Mirror", "TranslateOffsets", m.TranslateOffsetsRequest, m.TranslateOffsetsResponse, Operation.DESCRIBE
    )
    GROUP_POSITIONS = Method(
        "Mirror", "GroupPositions", m.GroupPositionsRequest, m.GroupPositionsResponse, Operation.DESCRIBE
    )
    PAUSE_FLOW = Method("Mirror", "PauseFlow", m.PauseFlowRequest, m.PauseFlowResponse, Operation.ALTER)
    FAILOVER = Method("Mirror", "Failover", m.MoveGroupsRequest, m.MoveGroupsResponse, Operation.ALTER)
    FAILBACK = Method("Mirror", "Failback", m.MoveGroupsRequest, m.MoveGroupsResponse, Operation.ALTER)
