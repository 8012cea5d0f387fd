"""One row of disks: a row of the log, on file systems that can be filled where that is its story."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from tests.faults.disks.nemesis import DiskNemesis
from tests.faults.disks.rows import DiskRow
from tests.faults.fault_run import CLIENTS
from tests.faults.nemesis import LEAST_HITS
from tests.faults.row_run import PARTITIONS, TOPIC, RowResult, RowRun

_SMALL: Final = "64m"


def run_disk_row(row: DiskRow, directory: Path, *, seconds: float, seed: int, mutant: str = "") -> RowResult:
    """For so many seconds at least, and until it had its share of hits; with a `mutant` until it is found."""
    return _DiskRun(row, directory, seconds, seed, mutant).run(seconds)


class _DiskRun(RowRun):
    def __init__(self, row: DiskRow, directory: Path, seconds: float, seed: int, mutant: str) -> None:
        super().__init__(row, directory, seed, mutant)
        log = directory / "nemesis.log"
        self.nemesis = DiskNemesis(self.cluster, TOPIC, PARTITIONS, CLIENTS, f"{seed}-{row.name}", log, self.history)
        share = min(1.0, seconds / (row.minutes * 60))
        self.nemesis.least_hits = max(LEAST_HITS, int(row.least_hits * share))
        if mutant:
            self.nemesis.caught = lambda: bool(self.nemesis.failures)
        self._mounted: Final[list[Path]] = []
        if row.small_disks:
            self._mount()

    def judge(self, *, share: float) -> None:
        """Logs were compared by now, and nobody runs any more."""
        super().judge(share=share)
        for directory in self._mounted:
            subprocess.run(["umount", "-l", directory], check=False)

    def _mount(self) -> None:
        """In the run's own namespace: nothing of it outlives the run."""
        for directory in self.cluster.data_dirs:
            directory.mkdir()
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={_SMALL}", "tmpfs", directory], check=True)
            self._mounted.append(directory)
