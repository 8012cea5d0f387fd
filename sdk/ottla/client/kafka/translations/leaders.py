"""The new leader of a partition, as responses to Produce and Fetch name it (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla_core.kafka.messages import FetchResponse, ProduceResponse
from ottla_proto import broker_pb2 as pb


def endpoints_of(nodes: Iterable[FetchResponse.NodeEndpoint | ProduceResponse.NodeEndpoint]) -> dict[int, str]:
    """Return the addresses of the brokers that a response names, by their ids."""
    return {node.node_id: f"{node.host}:{node.port}" for node in nodes}


def enter_leader(
    added: pb.PartitionFetched | pb.PartitionAppended,
    leader: FetchResponse.LeaderIdAndEpoch | ProduceResponse.LeaderIdAndEpoch | None,
    endpoints: Mapping[int, str],
) -> None:
    """Enter the leader, unless there is none or its address is unknown."""
    if leader is not None and leader.leader_id in endpoints:
        added.current_leader.broker_id = leader.leader_id
        added.current_leader.leader_epoch = leader.leader_epoch
        added.current_leader.address = endpoints[leader.leader_id]
