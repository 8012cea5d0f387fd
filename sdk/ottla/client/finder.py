"""How coordinators are found. Each protocol has its own way, which the callers of `Coordinators` do not see."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from ottla.client.cluster import ClusterClient
from ottla.client.door import KAFKA
from ottla.client.shard_owners import ShardOwners
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.routing import GROUP


class Finder(Protocol):
    """Finds the coordinators of groups, or of transactional ids. Timeouts are in seconds.

    The methods with a timeout raise what `ClusterClient.ask_any` raises.
    """

    def find(self, names: Collection[str], *, timeout: float) -> dict[str, str]:
        """Return the addresses of the coordinators of these names, from memory if they are known. Names that have none
        at the moment are left out."""
        ...

    def forget(self) -> None:
        """Forget all coordinators, because a known one is wrong or silent."""
        ...

    def all(self, *, timeout: float) -> list[str]:
        """Return the addresses that have to be asked for a listing. Raises COORDINATOR_NOT_AVAILABLE if a part of the
        listing has no coordinator."""
        ...

    def check_listed(self, responses: Sequence[Any]) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if the responses from all of these addresses do not cover everything."""
        ...


def finder_of(cluster: ClusterClient, kind: str) -> Finder:
    """Return the finder for the protocol that the client speaks with its cluster."""
    if cluster.door is not KAFKA:
        return ShardOwners(cluster, kind)
    from ottla.client.named_coordinators import NamedCoordinators  # it imports Kafka's messages

    return NamedCoordinators(cluster, kind)


def no_coordinator(cluster: ClusterClient, kind: str, name: str) -> OttlaError:
    """Return the error for a group or a transactional id that has no coordinator at the moment."""
    noun = "group" if kind == GROUP else "transactional id"
    hint = f"check that a {kind}-coordinator is running, and try again"
    if cluster.door is KAFKA:  # Kafka has no such service, and creates the coordinators' topics at the first call
        hint = "try again; a new cluster has no coordinators in its first seconds"
    message = f"the {noun} {name!r} has no coordinator at the moment"
    return error_from_code(ErrorCode.COORDINATOR_NOT_AVAILABLE, message, hint=hint)
