"""The cluster with two group-coordinators and two txn-coordinators, which can be killed in each step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.faults.cluster import FaultCluster
from tests.faults.compacted.phases import HIT
from tests.faults.network import Network
from tests.faults.transactions.client import PARTITIONS
from tests.faults.transactions.producers import SOURCE

import ottla

COORDINATORS: Final = 2
SHARDS: Final = 4
_LEASE_S: Final = 3
"""The lease of coordinators, which are killed all the time."""
_ASK_S: Final = 5.0


class TransactionCluster(FaultCluster):
    """`mutant` names one of tests.faults.transactions.mutants, `mode` what services do (launch)."""

    def __init__(self, directory: Path, network: Network, *, mode: str, mutant: str = "", first_epoch: int = 0) -> None:
        self.launched: Final = directory / "launched"
        self.launched.mkdir(parents=True, exist_ok=True)
        self._arguments: Final = [mutant or "none", mode, str(self.launched)]
        self._first_epoch: Final = first_epoch
        super().__init__(directory, network, coordinators=COORDINATORS, txn_coordinators=COORDINATORS)

    def module(self, kind: str) -> list[str]:
        if kind == "controller":
            return ["ottla_controller"]
        return ["tests.faults.transactions.launch", *self._arguments, kind]

    def settings(self, kind: str) -> Mapping[str, object]:
        match kind:
            case "controller":
                shards = f"offsets.topic.num.partitions={SHARDS},transaction.state.log.num.partitions={SHARDS}"
                return {"first-configs": f"{shards},min.insync.replicas=2"}
            case "txn":
                return {"first-producer-epoch": self._first_epoch, "lease-ttl-s": _LEASE_S}
            case "coordinator":
                return {"lease-ttl-s": _LEASE_S}
            case _:
                return {}

    # ---- killing --------------------------------------------------------------------------------------------------

    def arm(self, name: str, step: str) -> None:
        """The service is killed the next time that it is in that step."""
        aside = self.launched / f"{name}.aside"
        aside.write_text(f"{step} 1", encoding="utf-8")
        aside.rename(self.launched / name)

    def disarm(self, name: str) -> None:
        (self.launched / name).unlink(missing_ok=True)

    def was_hit(self, name: str) -> bool:
        return self._hit(name).exists()

    def was_killed(self, name: str) -> bool:
        """Whether it was hit; once."""
        was_hit = self.was_hit(name)
        self._hit(name).unlink(missing_ok=True)
        return was_hit

    def _hit(self, name: str) -> Path:
        return (self.launched / name).with_suffix(HIT)

    def replayed(self) -> int:
        """How many requests were carried out again."""
        return sum(file.stat().st_size for file in self.launched.glob("*.replayed"))

    # ---- what the cluster says of its transactions ----------------------------------------------------------------

    def producer_ids(self) -> dict[str, int]:
        """Return the producer id of each transactional id. Raises OttlaError."""
        return {each.name: each.producer_id for each in self.admin().transactions.list(timeout=_ASK_S)}

    def ending(self) -> int:
        """How many transactions wait for their markers. Raises OttlaError."""
        return len(self.admin().transactions.list(states=["PrepareCommit", "PrepareAbort"], timeout=_ASK_S))

    def unfinished(self) -> list[str]:
        """In words, the transactions that are not over, and the partitions in which one is open. Raises OttlaError."""
        transactions = self.admin().transactions
        found = [
            f"{each.name} is {each.state}"
            for each in transactions.list(timeout=_ASK_S)
            if each.state not in ("Empty", "CompleteCommit", "CompleteAbort")
        ]
        for topic in sorted({topic for topic, _ in PARTITIONS}):
            found += [
                f"{each.partition} is stable up to {each.last_stable_offset} of {each.high_watermark}: {each.open}"
                for each in transactions.open_in(topic, timeout=_ASK_S)
                if each.is_blocked
            ]
        return found

    def committed(self, group: str) -> int:
        """How far it has read the topic `source`; 0 of a group that has never committed. Raises OttlaError."""
        committed = self.admin().groups.committed(group, if_missing="ok", timeout=_ASK_S)
        return committed.get(ottla.TopicPartition(SOURCE, 0), 0)
