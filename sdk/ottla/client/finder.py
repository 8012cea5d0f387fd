"""How coordinators are found. Each protocol has its own way, which the callers of `Coordinators` do not see."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from ottla.client.cluster import ClusterClient
from ottla.client.door import KAFKA
from ottla.client.shard_owners import ShardOwners


class Finder(Protocol):
    """Finds the coordinators of groups, or of transactional ids. It remembers nothing. Timeouts are in seconds.

    Each method raises what `ClusterClient.ask_any` raises.
    """

    def find(self, names: Collection[str], *, timeout: float) -> dict[str, str]:
        """Return the addresses of the coordinators of these names, without those that have none at the moment."""
        ...

    def all(self, *, timeout: float) -> list[str]:
        """Return the addresses that have to be asked for a listing. Raises COORDINATOR_NOT_AVAILABLE if some of what is
        to be listed has no coordinator."""
        ...

    def check_listed(self, responses: Sequence[Any]) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if the responses from all of these addresses do not cover everything."""
        ...


def finder_of(cluster: ClusterClient, kind: str) -> Finder:
    """Return the finder for the protocol that the client speaks with its cluster."""
    if cluster.door is not KAFKA:
        return ShardOwners(cluster, kind)
    from ottla.client.named_coordinators import NamedCoordinators  # with Kafka's messages

    return NamedCoordinators(cluster, kind)
