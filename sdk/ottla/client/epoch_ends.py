"""Client.OffsetsForLeaderEpoch for many partitions: whether a log still has what was read of it (KIP-320)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.client.cluster import ClusterClient
from ottla.client.list_offsets import no_leader
from ottla.errors import ErrorCode, error_from_code
from ottla.machines.metadata import Route
from ottla_core.model import PartitionId, TopicId, TopicPartition
from ottla_proto import client_pb2 as pb
from ottla_proto.client_calls import Client


def ask_leader(
    cluster: ClusterClient, address: str, epochs: Iterable[tuple[Route, int]], *, timeout: float
) -> dict[PartitionId, pb.EpochEndOfPartition]:
    """Ask one leader where the epochs of these partitions end in its log. Each answer has its own error."""
    request = pb.OffsetsForLeaderEpochRequest(
        partitions=[
            pb.EpochOfPartition(
                topic_id=route.partition_id.topic_id,
                partition=route.partition_id.partition,
                current_leader_epoch=route.leader_epoch,
                leader_epoch=epoch,
            )
            for route, epoch in epochs
        ]
    )
    response = cluster.call(address, Client.OFFSETS_FOR_LEADER_EPOCH, request, timeout=timeout)
    return {PartitionId(TopicId(p.topic_id), p.partition): p for p in response.partitions}


def epoch_ends(
    cluster: ClusterClient, epochs: Mapping[TopicPartition, int], *, timeout: float
) -> dict[TopicPartition, int]:
    """Return the offset at which each partition's leader epoch ends in its present leader's log.

    A leader that does not know the epoch returns the end of the last one before it. Partitions whose leaders know
    neither are left out. Each call gets `timeout` seconds, and is not repeated. Raises the brokers' errors.
    """
    view = cluster.fetch_metadata(dict.fromkeys(partition.topic for partition in epochs), timeout=timeout)
    by_leader: dict[str, dict[TopicPartition, Route]] = {}
    for partition in epochs:
        if (route := view.routes.get(partition)) is None:
            raise no_leader(view, partition)
        by_leader.setdefault(route.address, {})[partition] = route
    ends: dict[TopicPartition, int] = {}
    for address, routes in by_leader.items():
        asked = ((route, epochs[partition]) for partition, route in routes.items())
        found = ask_leader(cluster, address, asked, timeout=timeout)
        for partition, route in routes.items():
            answer = found.get(route.partition_id)
            if answer is None or answer.error.code:
                code = ErrorCode.NETWORK_EXCEPTION if answer is None else answer.error.code
                message = "the response lacks it" if answer is None else answer.error.message
                raise error_from_code(code, message, of=partition, broker=address)
            if answer.end.end_offset >= 0:
                ends[partition] = answer.end.end_offset
    return ends
