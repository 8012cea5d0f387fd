"""Each figure is measured by a program in a process of its own, which prints what it found as its last line."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any, Final, Literal

Program = Literal[
    "kafka.aio",
    "kafka.consume",
    "kafka.latency",
    "kafka.perf_test",
    "kafka.produce",
    "kafka.transactions",
    "kafka.transform",
    "kafka.wide_transaction",
    "mirror.arrivals",
    "mirror.paced",
    "rows.aio_produce",
    "rows.append",
    "rows.codec",
    "rows.connections",
    "rows.consume",
    "rows.failover",
    "rows.first_produce",
    "rows.footprint",
    "rows.groups",
    "rows.large_groups",
    "rows.memory",
    "rows.produce",
    "rows.txn_takeover",
    "rows.walk",
]
"""Modules of this package."""

_LIMIT_S: Final = 600


def run(program: Program, *arguments: str) -> dict[str, Any]:
    """Return what the program found. Raises CalledProcessError and TimeoutExpired."""
    command = [sys.executable, "-m", f"loadtest.{program}", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=_LIMIT_S, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
