"""The methods of every contract as typed values.

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

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Response]):
    """One RPC. For a framed stream `request` and `response` are the frames' bodies."""

    service: str
    name: str
    request: type[Request]
    response: type[Response]

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
    FETCH = Method("Broker", "Fetch", b.FetchRequest, b.FetchResponse)
    REPLICA_FETCH = Method("Broker", "ReplicaFetch", b.FetchRequest, b.FetchResponse)
    LIST_OFFSETS = Method("Broker", "ListOffsets", b.ListOffsetsRequest, b.ListOffsetsResponse)
    SHARD_APPEND = Method("Broker", "ShardAppend", b.ShardAppendRequest, b.ShardAppendResponse)
    CHECK_FENCE = Method("Broker", "CheckFence", b.CheckFenceRequest, b.CheckFenceResponse)
    LOG_ENDS = Method("Broker", "LogEnds", b.LogEndsRequest, b.LogEndsResponse)
    WRITE_TXN_MARKERS = Method("Broker", "WriteTxnMarkers", b.WriteTxnMarkersRequest, b.WriteTxnMarkersResponse)
    CALLS = GatheredCalls("Broker", "Calls", b.BrokerCall, b.BrokerResponse)
    APPENDS = GatheredCalls("Broker", "Appends", b.AppendCall, b.AppendResponse)


class ClientCalls:
    """The calls of clients in the private API of brokers (docs/adr/0028). No service has a method for them."""

    IMPORT_RECORDS = Method("Broker", "ImportRecords", b.ImportRecordsRequest, b.ImportRecordsResponse)
    REPLICA_EPOCHS = Method("Broker", "ReplicaEpochs", b.ReplicaEpochsRequest, b.ReplicaEpochsResponse)


class Controller:
    SERVICE: Final[ServiceDescriptor] = c.DESCRIPTOR.services_by_name["Controller"]
    CREATE_TOPICS = Method("Controller", "CreateTopics", c.CreateTopicsRequest, c.CreateTopicsResponse)
    DELETE_TOPICS = Method("Controller", "DeleteTopics", c.DeleteTopicsRequest, c.DeleteTopicsResponse)
    CREATE_PARTITIONS = Method("Controller", "CreatePartitions", c.CreatePartitionsRequest, c.CreatePartitionsResponse)
    DESCRIBE_CONFIGS = Method("Controller", "DescribeConfigs", c.DescribeConfigsRequest, c.DescribeConfigsResponse)
    ALTER_CONFIGS = Method("Controller", "AlterConfigs", c.AlterConfigsRequest, c.AlterConfigsResponse)
    ALLOCATE_PRODUCER_IDS = Method(
        "Controller", "AllocateProducerIds", c.AllocateProducerIdsRequest, c.AllocateProducerIdsResponse
    )
    ALLOCATE_BROKER_ID = Method("Controller", "AllocateBrokerId", c.AllocateBrokerIdRequest, c.AllocateBrokerIdResponse)
    ALTER_PARTITION = Method("Controller", "AlterPartition", c.AlterPartitionRequest, c.AlterPartitionResponse)
    CONTROLLED_SHUTDOWN = Method(
        "Controller", "ControlledShutdown", c.ControlledShutdownRequest, c.ControlledShutdownResponse
    )
    ELECT_LEADERS = Method("Controller", "ElectLeaders", c.ElectLeadersRequest, c.ElectLeadersResponse)
    RELEASE_SHARD = Method("Controller", "ReleaseShard", c.ReleaseShardRequest, c.ReleaseShardResponse)
    DESCRIBE_QUORUM = Method("Controller", "DescribeQuorum", c.DescribeQuorumRequest, c.DescribeQuorumResponse)
    DECLARE_RESTORED = Method("Controller", "DeclareRestored", c.DeclareRestoredRequest, c.DeclareRestoredResponse)
    CREATE_ACLS = Method("Controller", "CreateAcls", c.CreateAclsRequest, c.CreateAclsResponse)
    DELETE_ACLS = Method("Controller", "DeleteAcls", c.DeleteAclsRequest, c.DeleteAclsResponse)
    ALTER_SCRAM_CREDENTIALS = Method(
        "Controller", "AlterScramCredentials", c.AlterScramCredentialsRequest, c.AlterScramCredentialsResponse
    )


class Group:
    SERVICE: Final[ServiceDescriptor] = g.DESCRIPTOR.services_by_name["Group"]
    JOIN = Method("Group", "Join", g.JoinRequest, g.JoinResponse)
    SYNC = Method("Group", "Sync", g.SyncRequest, g.SyncResponse)
    HEARTBEAT = Method("Group", "Heartbeat", g.HeartbeatRequest, g.HeartbeatResponse)
    CONSUMER_HEARTBEAT = Method("Group", "ConsumerHeartbeat", g.ConsumerHeartbeatRequest, g.ConsumerHeartbeatResponse)
    LEAVE = Method("Group", "Leave", g.LeaveRequest, g.LeaveResponse)
    COMMIT_OFFSETS = Method("Group", "CommitOffsets", g.CommitOffsetsRequest, g.CommitOffsetsResponse)
    FETCH_OFFSETS = Method("Group", "FetchOffsets", g.FetchOffsetsRequest, g.FetchOffsetsResponse)
    DELETE_OFFSETS = Method("Group", "DeleteOffsets", g.DeleteOffsetsRequest, g.DeleteOffsetsResponse)
    LIST_GROUPS = Method("Group", "ListGroups", g.ListGroupsRequest, g.ListGroupsResponse)
    DESCRIBE_GROUPS = Method("Group", "DescribeGroups", g.DescribeGroupsRequest, g.DescribeGroupsResponse)
    DELETE_GROUPS = Method("Group", "DeleteGroups", g.DeleteGroupsRequest, g.DeleteGroupsResponse)
    EXPLAIN_GROUP = Method("Group", "ExplainGroup", g.ExplainGroupRequest, g.ExplainGroupResponse)
    LAG = Method("Group", "Lag", g.LagRequest, g.LagResponse)
    SHARDS = Method("Group", "Shards", ShardsRequest, ShardsResponse)
    WRITE_TXN_MARKERS = Method("Group", "WriteTxnMarkers", g.WriteShardMarkersRequest, g.WriteShardMarkersResponse)
    CALLS = GatheredCalls("Group", "Calls", g.GroupCall, g.GroupResponse)


class Txn:
    SERVICE: Final[ServiceDescriptor] = t.DESCRIPTOR.services_by_name["Txn"]
    INIT_PRODUCER = Method("Txn", "InitProducer", t.InitProducerRequest, t.InitProducerResponse)
    ADD_PARTITIONS = Method("Txn", "AddPartitions", t.AddPartitionsRequest, t.AddPartitionsResponse)
    ADD_OFFSETS = Method("Txn", "AddOffsets", t.AddOffsetsRequest, t.AddOffsetsResponse)
    END_TXN = Method("Txn", "EndTxn", t.EndTxnRequest, t.EndTxnResponse)
    PREPARE = Method("Txn", "Prepare", t.PrepareRequest, t.PrepareResponse)
    FORGET = Method("Txn", "Forget", t.ForgetRequest, t.ForgetResponse)
    LIST_TRANSACTIONS = Method("Txn", "ListTransactions", t.ListTransactionsRequest, t.ListTransactionsResponse)
    DESCRIBE_TRANSACTIONS = Method(
        "Txn", "DescribeTransactions", t.DescribeTransactionsRequest, t.DescribeTransactionsResponse
    )
    SHARDS = Method("Txn", "Shards", ShardsRequest, ShardsResponse)
    CALLS = GatheredCalls("Txn", "Calls", t.TxnCall, t.TxnResponse)


class Mirror:
    SERVICE: Final[ServiceDescriptor] = m.DESCRIPTOR.services_by_name["Mirror"]
    MIRROR_STATUS = Method("Mirror", "MirrorStatus", m.MirrorStatusRequest, m.MirrorStatusResponse)
    TRANSLATE_OFFSETS = Method("Mirror", "TranslateOffsets", m.TranslateOffsetsRequest, m.TranslateOffsetsResponse)
    GROUP_POSITIONS = Method("Mirror", "GroupPositions", m.GroupPositionsRequest, m.GroupPositionsResponse)
    PAUSE_FLOW = Method("Mirror", "PauseFlow", m.PauseFlowRequest, m.PauseFlowResponse)
    FAILOVER = Method("Mirror", "Failover", m.MoveGroupsRequest, m.MoveGroupsResponse)
    FAILBACK = Method("Mirror", "Failback", m.MoveGroupsRequest, m.MoveGroupsResponse)
