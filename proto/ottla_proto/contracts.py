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
