"""The leaders that responses to Produce and Fetch name with an error of a partition (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import FetchResponse, ProduceResponse
from ottla_core.model import PartitionId


class NamedLeader(NamedTuple):
    """The leader of a partition, as a response names it."""

    partition: PartitionId
    address: str
    leader_epoch: int


def endpoints_of(nodes: Iterable[FetchResponse.NodeEndpoint | ProduceResponse.NodeEndpoint]) -> Mapping[int, str]:
    """Return the addresses of the brokers that a response names, by their ids."""
    return {node.node_id: str(HostPort(node.host, node.port)) for node in nodes}


def leader_of(
    partition: PartitionId,
    leader: FetchResponse.LeaderIdAndEpoch | ProduceResponse.LeaderIdAndEpoch | None,
    endpoints: Mapping[int, str],
) -> NamedLeader | None:
    """Return the leader, or None if there is none or its address is unknown."""
    if leader is None or (address := endpoints.get(leader.leader_id)) is None:
        return None
    return NamedLeader(partition, address, leader.leader_epoch)
