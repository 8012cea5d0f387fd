"""The mutants of these rows, and how each is caught: by its row with real processes, or by a replay of decisions.

A replay (`replays`) runs the product's own decisions over any order of events, which meets more orders in a second than
a row does in an hour. The same replay of what is sound must find nothing, or it proves nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tests.faults.disks.rows import DISK_ROWS
from tests.faults.disks.run import run_disk_row
from tests.faults.node import python_path

_ROOT: Final = Path(__file__).parents[3]
_REPLAY_LIMIT_S: Final = 300.0
SOUND: Final = "sound"

_PROCESSES_S: Final = 1.0
"""At least, and two hits: each hit is directed at the rule."""


@dataclass(frozen=True, slots=True)
class DiskMutant:
    """`row` is the row that is there for the rule; `processes`: whether it is run, else the rule is replayed."""

    name: str
    row: str
    processes: bool = False


class Verdict(NamedTuple):
    caught: bool
    words: str


DISK_MUTANTS: Final = (
    DiskMutant("directory-id-ignored", "F25"),
    DiskMutant("elr-kept-after-an-unclean-stop", "F25"),
    DiskMutant("elr-kept-when-min-insync-replicas-is-lowered", "F25"),
    DiskMutant("sole-member-proof-without-the-elr", "F25"),
    DiskMutant("marker-without-epoch", "F26", processes=True),
    DiskMutant("backups-isr-believed", "F27"),
    DiskMutant("full-disk-electable", "F28"),
)


def catch(mutant: DiskMutant, directory: Path, seed: int) -> Verdict:
    try:
        return _by_processes(mutant, directory, seed) if mutant.processes else _by_replay(mutant)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        return Verdict(False, str(error))


def _by_processes(mutant: DiskMutant, directory: Path, seed: int) -> Verdict:
    """Clients' histories have to be wrong; to be slow or stuck is not enough."""
    row = replace(next(row for row in DISK_ROWS if row.name == mutant.row), least_hits=0, least_acknowledged=0)
    result = run_disk_row(row, directory, seconds=_PROCESSES_S, seed=seed, mutant=mutant.name)
    found = {kind: count for kind, count in result.findings.counts.items() if count}
    if result.caught:
        return Verdict(True, f"{mutant.row}: {found or result.audit.differences[0]}")
    return Verdict(False, f"{result.hits} hits, {result.failures}")


def _by_replay(mutant: DiskMutant) -> Verdict:
    sound, broken = _replay(SOUND), _replay(mutant.name)
    if sound["found"]:
        return Verdict(False, f"the replay finds something without the mutant: {sound['found']}")
    return Verdict(bool(broken["found"]), f"the replay: {broken['found'] or 'nothing'}; {sound['runs']} sound runs")


@cache
def _replay(name: str) -> dict[str, str]:
    """In a process of its own, for it breaks the product. Raises RuntimeError where it comes to no verdict."""
    paths = [_ROOT / part for part in ("", "tests/support", "tests/properties")]
    environment = os.environ | {"PYTHONPATH": python_path(*paths)}
    command = [sys.executable, "-m", "tests.faults.disks.replays", name]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False, timeout=_REPLAY_LIMIT_S
    )
    if done.returncode != 0:
        raise RuntimeError(f"the replay of {name} failed: {done.stderr.strip()}")
    told: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return told
