"""The cluster whose brokers' power can be cut, with one coordinator of each kind."""

from __future__ import annotations

import os
import random
import shutil
import signal
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.faults.cluster import FaultCluster, until
from tests.faults.history import Operation, read_lines
from tests.faults.network import Network
from tests.faults.power.journal import workers_in
from tests.faults.power.power_cut import Cut, cut_power

SHARDS: Final = 2
_MODULES: Final = {
    "controller": "ottla_controller",
    "coordinator": "ottla_group_coordinator",
    "txn": "ottla_txn_coordinator",
}
_LEASE_S: Final = 3
"""The lease of coordinators, which are killed all the time."""
_WORKER: Final = b"tests.faults.power.worker"
_RETENTION_CHECK_S: Final = 5
_GONE_LIMIT_S: Final = 10.0


class PowerCluster(FaultCluster):
    """`mutant` names one of tests.faults.power.mutants."""

    def __init__(self, directory: Path, network: Network, *, mutant: str = "") -> None:
        self.launched: Final = directory / "launched"
        self.launched.mkdir(parents=True, exist_ok=True)
        self._broken: Final = mutant or "none"
        super().__init__(directory, network, coordinators=1, txn_coordinators=1)

    def module(self, kind: str) -> list[str]:
        if kind != "broker":
            return [_MODULES[kind]]
        return ["tests.faults.power.launch", self._broken, str(self.launched), kind]

    def settings(self, kind: str) -> Mapping[str, object]:
        match kind:
            case "controller":
                shards = f"offsets.topic.num.partitions={SHARDS},transaction.state.log.num.partitions={SHARDS}"
                return {"first-configs": f"{shards},min.insync.replicas=2"}
            case "coordinator" | "txn":
                return {"lease-ttl-s": _LEASE_S}
            case "broker":
                return {"retention-check-interval-s": _RETENTION_CHECK_S}
            case _:
                return {}

    def kill_cleaner(self, name: str) -> bool:
        """SIGKILL the worker of that broker's cleaner; return whether one was running."""
        killed = False
        for pid in filter(_runs, workers_in(self.launched / name)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed = True
        return killed

    def cut_power(self, name: str, chance: random.Random) -> Cut:
        """Cut the power of a broker that was killed a moment ago."""
        self._end_cleaner(name)
        return cut_power(self.directory / name, self.launched / name, chance)

    def replace_disk(self, name: str) -> None:
        """Give an empty disk to a broker that was killed a moment ago."""
        self._end_cleaner(name)
        shutil.rmtree(self.directory / name)
        shutil.rmtree(self.launched / name)

    def _end_cleaner(self, name: str) -> None:
        def is_gone() -> bool:
            self.kill_cleaner(name)
            return not any(map(_runs, workers_in(self.launched / name)))

        until(is_gone, f"the cleaner of {name} to be gone", _GONE_LIMIT_S)

    def cleanings(self) -> Iterator[Operation]:
        """Iterate over the cleanings of every broker, in the order of each."""
        for name in self.brokers:
            yield from read_lines(self.launched, name)

    def cleanings_done(self) -> int:
        return sum(1 for _ in self.cleanings())

    def partition_name(self, topic: str, partition: int) -> str:
        """Return the name of the partition's directories."""
        [found] = self.admin().topics.describe(topic)
        return f"{found.id.replace('-', '')}-{partition}"


def _runs(pid: int) -> bool:
    """Whether the process is still a worker: if it is over, its command is empty or another process's."""
    try:
        return _WORKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except FileNotFoundError:
        return False
