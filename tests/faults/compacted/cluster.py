"""The cluster with brokers that are killed in the phases of their cleanings, and one coordinator of each kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from tests.faults.cluster import FaultCluster, until
from tests.faults.compacted.phases import HIT
from tests.faults.compacted.replicas import Replica, fences_in, read_replica
from tests.faults.history import Operation, read_lines
from tests.faults.network import Network

OFFSETS_TOPIC: Final = "__consumer_offsets"
SHARDS: Final = 2
_MODULES: Final = {
    "controller": "ottla_controller",
    "coordinator": "ottla_group_coordinator",
    "txn": "ottla_txn_coordinator",
}
_READ_LIMIT_S: Final = 10.0


class CompactedCluster(FaultCluster):
    """`mutant` names one of tests.faults.compacted.mutants or worker_mutants."""

    def __init__(self, directory: Path, network: Network, *, mutant: str = "") -> None:
        self.launched: Final = directory / "launched"
        self.launched.mkdir(parents=True, exist_ok=True)
        self._broken: Final = mutant or "none"
        super().__init__(directory, network, coordinators=1, txn_coordinators=1)

    def module(self, kind: str) -> list[str]:
        if kind != "broker":
            return [_MODULES[kind]]
        return ["tests.faults.compacted.launch", self._broken, str(self.launched), kind]

    def settings(self, kind: str) -> Mapping[str, object]:
        shards = f"offsets.topic.num.partitions={SHARDS},transaction.state.log.num.partitions={SHARDS}"
        return {"first-configs": shards} if kind == "controller" else {}

    # ---- killing --------------------------------------------------------------------------------------------------

    def arm(self, name: str, phase: str, step: int) -> None:
        """The broker is killed at that step, the next time that it is in that phase."""
        aside = self.launched / f"{name}.aside"
        aside.write_text(f"{phase} {step}", encoding="utf-8")
        aside.rename(self.launched / name)

    def was_hit(self, name: str) -> bool:
        """Whether that has come; once."""
        try:
            (self.launched / name).with_suffix(HIT).unlink()  # one look: what comes after it is for the next
        except FileNotFoundError:
            return False
        return True

    # ---- what brokers have on their disks -------------------------------------------------------------------------

    def cleanings(self) -> Iterator[Operation]:
        """Yield the cleanings of every broker, in the order of each broker."""
        for name in self.brokers:
            yield from read_lines(self.launched, name)

    def partition_name(self, topic: str, partition: int) -> str:
        """Return the name of the partition's directories."""
        [found] = self.admin().topics.describe(topic)
        return f"{found.id.replace('-', '')}-{partition}"

    def replicas(self, names: Mapping[int, str]) -> dict[str, dict[int, Replica]]:
        """By broker and partition; `names` are those of the partitions' directories."""
        return {
            data_dir.name: {partition: read_replica(data_dir / name) for partition, name in names.items()}
            for data_dir in self.data_dirs
        }

    def newest_fence(self, name: str) -> int:
        """Return the newest fence that any replica has, of a partition that is written and cleaned at the same time."""

        def fences() -> list[int]:
            found = []
            for data_dir in self.data_dirs:
                try:
                    found += fences_in(data_dir / name)
                except (OSError, ValueError):  # it is being written, or cleaned
                    continue
            return found

        return max(until(fences, f"a fence in {name}", _READ_LIMIT_S))

    def active_segment(self, name: str) -> int:
        """Its base offset, of the replica whose is the oldest."""
        return min(max(int(log.stem) for log in (data_dir / name).glob("*.log")) for data_dir in self.data_dirs)
