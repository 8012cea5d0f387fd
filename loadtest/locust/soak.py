"""`make soak MINUTES=10`: half of the maximum, measured at the start, for a long time. Nothing may fail, nothing grow.

It runs over the whole stack, three brokers, a controller and two coordinators of each kind, with every scenario but
`Mirrored`, which wants a second cluster. First one user of each goes as fast as it can for a while; then each gets half
of the records a second that it reached, on a schedule. Beside them groups churn at the pace that is theirs. Exits with
1 if anything failed, a service was restarted, the load was not kept up, or (from 10 minutes on) the resident memory of
a service grew by more than 1 MB a minute after its settling-in.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from loadtest.locust import outcome
from loadtest.locust.headless import Plan, run_locust
from loadtest.locust.rates import reached
from loadtest.locust.slope import growing
from loadtest.locust.thresholds import Thresholds
from loadtest.rows.resident import ResidentMemory
from ottla_stack.running import RunningStack

AT_HALF: Final = (
    "ProduceSmall",
    "ProduceLarge",
    "ProduceKeyed",
    "ProduceAcksLeader",
    "ProduceAcksNone",
    "EndToEnd",
    "Transactions",
    "Replay",
)
"""One user each: writing in every way, reading what is written, reading what was."""

CHURNERS: Final = 3
"""Users of GroupChurn, as many as its weight says beside one of each other."""

MIN_REBALANCES_PER_MIN: Final = 5
"""Half of what `make load` asks for: there are fewer users."""

FIND_MAXIMUM_S: Final = 15.0
SHARE: Final = 0.5
KEPT: Final = 0.9
"""A schedule that is behind by a tenth at the end was more than the stack could take."""

RETENTION_CHECK_S: Final = 15.0


def find_rates(bootstrap: str, directory: Path) -> dict[str, float]:
    """Half of what each scenario's user reaches when all of them go as fast as they can."""
    plan = Plan(FIND_MAXIMUM_S, len(AT_HALF), scenarios=AT_HALF, rates=dict.fromkeys(AT_HALF, 0.0))
    report, found = run_locust(bootstrap, plan, directory, "maximum")
    if found:
        raise SystemExit(f"while the maximum was looked for: {'; '.join(found)}")
    return reached(report, SHARE)


def plan_for(rates: Mapping[str, float], minutes: float) -> Plan:
    """All users for the whole time: those of `rates` at theirs, and those who churn."""
    floor = round(sum(rates.values()) * minutes * 60 * KEPT)
    thresholds = Thresholds(1, floor, min_rebalances=int(MIN_REBALANCES_PER_MIN * minutes))
    return Plan(minutes * 60, len(rates) + CHURNERS, rates=rates, thresholds=thresholds)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--directory", type=Path, default=Path("build/soak"), help="where the files go")
    given = parser.parse_args()
    given.directory.mkdir(parents=True, exist_ok=True)
    data = Path(tempfile.mkdtemp(prefix="ottla-soak-"))
    os.environ["OTTLA_BROKER__RETENTION_CHECK_INTERVAL_S"] = str(RETENTION_CHECK_S)
    try:
        with RunningStack(data, brokers=3, txn_coordinators=2) as stack:
            rates = find_rates(stack.bootstrap, given.directory)
            told = ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items())
            print(f"half of the maximum, records/s: {told}", flush=True)
            with ResidentMemory(stack, every_s=2) as memory:
                plan = plan_for(rates, given.minutes)
                report, found = run_locust(stack.bootstrap, plan, given.directory, "soak")
                found += [f"{name} was restarted" for name in memory.restarted]
    finally:
        shutil.rmtree(data, ignore_errors=True)
    found += growing(memory.slopes(), given.minutes)
    outcome.tell(
        report, memory, f"soak: {given.minutes:g} minutes at half of the maximum", given.directory, "soak", found
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
