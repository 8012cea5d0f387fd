"""`python -m tests.world`: seeds of the whole cluster in one process, under virtual time."""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from collections import Counter

from tests.regressions.stories import ALL
from tests.world.seed import Outcome, Plan, run_in_a_fork


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.world", description=__doc__)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--storm", type=float, default=40.0, help="how long the weather blows, in virtual seconds")
    parser.add_argument("--without", default="", help="mends to take out, by their stories' names")
    parser.add_argument("--log", action="store_true", help="print what the services log")
    parser.add_argument("--until-red", action="store_true")
    given = parser.parse_args(arguments)
    wanted = given.without.split(",") if given.without else []
    injections = [each for name in wanted for each in ALL[name].injections]
    began, red, totals = time.monotonic(), 0, Counter[str]()
    outcomes: list[Outcome] = []
    for seed in range(given.first, given.first + given.seeds):
        outcome = run_in_a_fork(Plan(seed, given.storm, injections, given.log))
        outcomes.append(outcome)
        totals.update(outcome.counts)
        totals.update({"faults": outcome.faults, "kills": outcome.kills})
        totals["virtual_s"] += int(outcome.virtual_s)
        totals["cpu_ms"] += int(outcome.cpu_s * 1000)
        print(
            f"seed {seed}: trace {outcome.trace}, {outcome.virtual_s:.0f} s in {outcome.cpu_s:.1f} s, "
            f"{outcome.faults} faults, {outcome.counts}",
            flush=True,
        )
        if not outcome.is_green:
            red += 1
            print(
                *outcome.last_steps[-30:],
                *outcome.waiting,
                *outcome.violations,
                "" if outcome.healed else "not healed",
                sep="\n  ",
            )
            if given.until_red:
                break
    traces = hashlib.sha256(" ".join(each.trace for each in outcomes).encode()).hexdigest()[:16]
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps({"seeds": len(outcomes), "red": red, "traces": traces, "seconds": seconds, **totals}))
    return 1 if red else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
