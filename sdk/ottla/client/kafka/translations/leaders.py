"""The new leader of a partition, as responses to Produce and Fetch name it (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import FetchResponse, ProduceResponse
from ottla_proto import broker_pb2 as pb


def endpoints_of(nodes: Iterable[FetchResponse.NodeEndpoint | ProduceResponse.NodeEndpoint]) -> dict[int, str]:
    """Return the addresses of the brokers that a response names, by their ids."""
    return {node.node_id: str(HostPort(node.host, node.port)) for node in nodes}


def leader_of(
    leader: FetchResponse.LeaderIdAndEpoch | ProduceResponse.LeaderIdAndEpoch | None, endpoints: Mapping[int, str]
) -> pb.Leader | None:
    """Return the leader, or None if there is none or its address is unknown."""
    if leader is None or (address := endpoints.get(leader.leader_id)) is None:
        return None
    return pb.Leader(broker_id=leader.leader_id, leader_epoch=leader.leader_epoch, address=address)
