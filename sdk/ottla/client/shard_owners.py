"""The coordinators of a cluster of ottla: each owns shards, and a name belongs to the shard that it hashes to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from ottla.client.cluster import ClusterClient
from ottla.client.listed_shards import check_all_listed
from ottla.errors import ErrorCode, error_from_code
from ottla_core.plural import counted
from ottla_core.routing import GROUP, shard_of
from ottla_proto import broker_pb2 as pb
from ottla_proto.contracts import Broker


class ShardOwners:
    """Finds coordinators by Broker.Metadata, which tells the owner of each shard (`client/finder.py`)."""

    def __init__(self, cluster: ClusterClient, kind: str) -> None:
        self._cluster: Final = cluster
        self._kind: Final = kind
        self._owners: tuple[str, ...] = ()  # addresses by shard, "" for one without an owner
        self._shards = 0

    def find(self, names: Collection[str], *, timeout: float) -> dict[str, str]:
        owners = self._owners or self._look_up(timeout)
        found = {name: owners[shard_of(name, len(owners))] for name in names} if owners else {}
        if not all(found.values()):
            self.forget()
        return {name: address for name, address in found.items() if address}

    def forget(self) -> None:
        self._owners = ()

    def _look_up(self, timeout: float) -> tuple[str, ...]:
        self._owners = owners = shard_owners(self._cluster, self._kind, timeout=timeout)
        return owners

    def all(self, *, timeout: float) -> list[str]:
        owners = self._look_up(timeout)
        self._shards = len(owners)
        if not all(owners) or not owners:
            missing = counted(owners.count(""), "shard") if owners else "any shard"
            raise error_from_code(
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"no {self._kind}-coordinator owns {missing} at the moment",
                hint=f"check that a {self._kind}-coordinator is running, and try again",
            )
        return sorted(set(owners))

    def check_listed(self, responses: Sequence[Any]) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if no response names some shard.

        Each coordinator lists the shards that it serves at that moment, and names them. A shard that no response names
        is on its way from one coordinator to another, or its new owner is still reading its log.
        """
        check_all_listed(self._kind, self._shards, responses)


def shard_owners(cluster: ClusterClient, kind: str = GROUP, *, timeout: float) -> tuple[str, ...]:
    """Return the address of each shard's owner, as some broker knows it now, "" for a shard without an owner.

    Raises what `ClusterClient.call_any` raises.
    """
    response = cluster.call_any(Broker.METADATA, pb.MetadataRequest(shards=True), timeout=timeout)
    shards = sorted((shard for shard in response.shards if shard.kind == kind), key=lambda shard: shard.shard)
    return tuple(shard.address if shard.owner >= 0 else "" for shard in shards)
