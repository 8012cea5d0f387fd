"""The row's cluster has two coordinators of each kind, and allows two-phase commit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.faults.cluster import BROKERS, FaultCluster
from tests.faults.network import Network

COORDINATORS: Final = 2
SHARDS: Final = 6
_LEASE_S: Final = 3


class RestartedCluster(FaultCluster):
    """`mutant` names one of tests.faults.restarts.mutants, "" for none."""

    def __init__(self, directory: Path, network: Network, mutant: str) -> None:
        self._name: Final = mutant or "none"
        super().__init__(directory, network, coordinators=COORDINATORS, txn_coordinators=COORDINATORS)

    def module(self, kind: str) -> list[str]:
        return ["tests.faults.restarts.launch", self._name, f"ottla_{MODULES[kind]}"]

    def settings(self, kind: str) -> Mapping[str, object]:
        match kind:
            case "controller":
                shards = f"offsets.topic.num.partitions={SHARDS},transaction.state.log.num.partitions={SHARDS}"
                return {"first-configs": f"{shards},min.insync.replicas=2,default.replication.factor={BROKERS}"}
            case "txn":
                return {"lease-ttl-s": _LEASE_S, "transaction-two-phase-commit-enable": "true"}
            case "coordinator":
                return {"lease-ttl-s": _LEASE_S}
            case _:
                return {}


MODULES: Final = {
    "controller": "controller",
    "broker": "broker",
    "coordinator": "group_coordinator",
    "txn": "txn_coordinator",
}
"""By the kind of service."""
