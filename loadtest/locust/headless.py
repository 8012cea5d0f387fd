"""One headless run of Locust as a process of its own: what it is told, and what it found.

Locust patches its whole process for gevent, so whoever starts a stack or draws charts stays out of it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from loadtest.locust.rates import rates_text
from loadtest.locust.thresholds import Thresholds

LOCUSTFILE: Final = Path(__file__).with_name("locustfile.py")
_STOP_S: Final = 40
"""A user may finish what it has begun; a batch fails after 30 s."""

_LIMIT_S: Final = 120
"""What may come on top of the time that was asked for: topics, starting, stopping."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`scenarios` are names of user classes, all of them where it is empty; `rates` are records/s of one user.
    `mirrored` is where copies are, as `ALIAS@HOST:PORT`. `profile` has the login and the TLS of the cluster."""

    seconds: float
    users: int
    shape: str = "soak"
    scenarios: Sequence[str] = ()
    rates: Mapping[str, float] = field(default_factory=dict)
    thresholds: Thresholds = field(default_factory=Thresholds)
    mirrored: str = ""
    profile: str = ""


def run_locust(bootstrap: str, plan: Plan, directory: Path, name: str) -> tuple[dict[str, Any], list[str]]:
    """The timeline's report, and a sentence for each thing that went wrong.

    CSV files, an HTML page, the report and what Locust said (`.txt`) lie in `directory` afterwards.
    """
    result, said = directory / f"{name}.json", directory / f"{name}.txt"
    result.unlink(missing_ok=True)
    with said.open("w") as output:
        done = subprocess.run(
            _command(bootstrap, plan, directory / name, result),
            stdout=output,
            stderr=output,
            timeout=plan.seconds + _LIMIT_S,
            check=False,
        )
    if not result.exists():
        raise SystemExit(f"locust ended with {done.returncode} and left no figures; see {said}")
    report: dict[str, Any] = json.loads(result.read_text())
    found = plan.thresholds.breaches(report)
    if done.returncode and not found:
        found.append(f"locust ended with {done.returncode}; see {said}")
    return report, found


def _command(bootstrap: str, plan: Plan, csv: Path, result: Path) -> list[str]:
    limits = plan.thresholds
    command = [sys.executable, "-m", "locust", "-f", str(LOCUSTFILE), "--headless", "--only-summary"]
    command += ["--host", bootstrap] if bootstrap else []
    command += ["--users", str(plan.users), "--run-time", f"{plan.seconds:.0f}s"]
    command += ["--shape", plan.shape, "--stop-timeout", str(_STOP_S), "--loglevel", "WARNING"]
    command += ["--csv", str(csv), "--html", f"{csv}.html", "--result", str(result)]
    command += ["--rate", rates_text(plan.rates)]
    command += ["--mirrored", plan.mirrored] if plan.mirrored else []
    command += ["--cluster-profile", plan.profile] if plan.profile else []
    command += ["--min-requests", str(limits.min_requests), "--min-records", str(limits.min_records)]
    command += ["--max-p99-ms", str(limits.max_p99_ms), "--min-rebalances", str(limits.min_rebalances)]
    return [*command, *plan.scenarios]
