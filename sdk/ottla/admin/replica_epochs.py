"""The exchange that asks a broker of ottla for the leader epochs of its replica."""

from __future__ import annotations

from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.private_call import private_call
from ottla_core.model import PartitionId
from ottla_core.records.leader_epochs import EpochStart, ReplicaEpochs
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import ClientCalls


def replica_epochs(partition: PartitionId) -> Exchange[ReplicaEpochs]:
    """Return the exchange that asks where the leader epochs of a replica began."""

    def read(response: pb.ReplicaEpochsResponse) -> ReplicaEpochs:
        entries = [EpochStart(entry.leader_epoch, entry.start_offset) for entry in response.epochs]
        return ReplicaEpochs(entries, response.log_start_offset, response.high_watermark)

    request = pb.ReplicaEpochsRequest(topic_id=partition.topic_id, partition=partition.partition)
    return private_call(ClientCalls.REPLICA_EPOCHS, request, read)
