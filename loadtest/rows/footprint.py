"""What an idle stack costs: seconds until it is ready, resident memory, CPU; and what small commands take."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ottla_stack.running import RunningStack
from ottla_stack.view import resident_mb

IDLE_S = 30
_STARTS = 5


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(command: list[str], runs: int = 5) -> float:
    """Median seconds of a whole process."""
    taken = []
    for _ in range(runs):
        began = time.monotonic()
        subprocess.run(command, check=True, capture_output=True)
        taken.append(time.monotonic() - began)
    return round(statistics.median(taken), 3)


def cluster_ready_s() -> float:
    program = (
        "import time\nfrom ottla.testing import Cluster\nbegan = time.monotonic()\n"
        "with Cluster() as c: print(time.monotonic() - began)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True) for _ in range(5)
    ]
    return round(statistics.median(float(run.stdout) for run in runs), 3)


def main() -> None:
    directory = Path(tempfile.mkdtemp(prefix="ottla-footprint-"))
    ready = []
    try:
        for n in range(_STARTS):
            began = time.monotonic()
            with RunningStack(directory / str(n), txn_coordinators=2):
                ready.append(time.monotonic() - began)
        with RunningStack(directory / "idle", txn_coordinators=2) as stack:  # as `ottla up` starts it
            names = ["etcd", *(s.name for s in stack.plan.services())]
            topic_ls = timed([sys.executable, "-m", "ottla", "-b", stack.bootstrap, "topic", "ls"])
            before = {name: cpu_seconds(stack.pid(name)) for name in names}
            began = time.monotonic()
            time.sleep(IDLE_S)
            idle_s = time.monotonic() - began
            services = {
                name: {
                    "mb": round(resident_mb(stack.pid(name))),
                    "cpu_percent": round(100 * (cpu_seconds(stack.pid(name)) - before[name]) / idle_s, 2),
                }
                for name in names
            }
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    print(
        json.dumps(
            {
                "up_ready_s": [round(each, 2) for each in ready],
                "topic_ls_s": topic_ls,
                "help_s": timed([sys.executable, "-m", "ottla", "--help"]),
                "testing_cluster_ready_s": cluster_ready_s(),
                "services": services,
            }
        )
    )


if __name__ == "__main__":
    main()
