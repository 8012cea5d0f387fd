"""`make load`: every scenario against a stack of its own, users along a curve. About a minute and a half.

Exits with 1 if anything failed, a service was restarted, or less was done than any machine does.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from loadtest.locust import outcome
from loadtest.locust.curves import CURVES
from loadtest.locust.headless import Plan, run_locust
from loadtest.locust.thresholds import Thresholds
from loadtest.locust.topics import END_TO_END
from loadtest.rows.flow_file import write_flow
from loadtest.rows.resident import ResidentMemory
from ottla_stack.running import RunningStack

THRESHOLDS: Final = Thresholds(min_requests=1_000, min_records=500_000, max_p99_ms=2_000, min_rebalances=10)
"""A third of what the schedule of a minute holds; and whoever is behind it by two seconds does not keep up."""


ALIAS: Final = "east"


def mirrored(east: RunningStack, directory: Path, file: Path) -> RunningStack:
    """A second, small cluster, which a mirror copies one topic into."""
    west = RunningStack(directory, brokers=1, group_coordinators=1, txn_coordinators=1, mirror=file)
    write_flow(file, ALIAS, east.bootstrap, west.bootstrap, END_TO_END)
    return west


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(CURVES), default="ramp")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--users", type=int, default=24, help="at most; two of each scenario, and six that churn")
    parser.add_argument("--directory", type=Path, default=Path("build/load"), help="where the files go")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="ottla-load-"))
    try:
        file = data / "mirror.toml"
        with (
            RunningStack(data / "here", brokers=3, txn_coordinators=2) as stack,
            mirrored(stack, data / "west", file) as west,
            ResidentMemory(stack, every_s=1) as memory,
        ):
            copies = f"{ALIAS}@{west.bootstrap}"
            plan = Plan(given.seconds, given.users, given.shape, thresholds=THRESHOLDS, mirrored=copies)
            report, found = run_locust(stack.bootstrap, plan, given.directory, "load")
            found += [f"{name} was restarted" for name in memory.restarted]
    finally:
        shutil.rmtree(data, ignore_errors=True)
    title = f"{given.shape}: up to {given.users} users, {given.seconds:g} s"
    outcome.tell(report, memory, title, given.directory, "load", found)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
