"""The calls that only clients make: no service has a method for them.

They travel in Kafka's messages or, as ImportRecords does, in the private API (docs/adr/0028). The broker that gets one
answers it. Clients name them like the methods of the contracts, and so need one way to call either.
"""

from __future__ import annotations

from ottla_proto import client_pb2 as b
from ottla_proto import group_pb2 as g
from ottla_proto.contracts import Method


class Client:
    OFFSETS_FOR_LEADER_EPOCH = Method(
        "Broker", "OffsetsForLeaderEpoch", b.OffsetsForLeaderEpochRequest, b.OffsetsForLeaderEpochResponse
    )
    INIT_PRODUCER_ID = Method("Broker", "InitProducerId", b.InitProducerIdRequest, b.InitProducerIdResponse)
    IMPORT_RECORDS = Method("Broker", "ImportRecords", b.ImportRecordsRequest, b.ImportRecordsResponse)
    REPLICA_EPOCHS = Method("Broker", "ReplicaEpochs", b.ReplicaEpochsRequest, b.ReplicaEpochsResponse)
    DESCRIBE_PRODUCERS = Method("Broker", "DescribeProducers", b.DescribeProducersRequest, b.DescribeProducersResponse)
    DESCRIBE_CONSUMER_GROUPS = Method(
        "Group", "DescribeConsumerGroups", g.DescribeGroupsRequest, g.DescribeGroupsResponse
    )
    METADATA = Method("Broker", "Metadata", b.MetadataRequest, b.MetadataResponse)
    PRODUCE = Method("Broker", "Produce", b.ProduceRequest, b.ProduceResponse)
