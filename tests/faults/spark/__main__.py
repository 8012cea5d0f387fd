"""`python -m tests.faults.spark`: kills Spark over and over while it copies a topic, and says what became of the rows.

First the faults planted in the sink, which have to be found, then the sink as it is: exactly once, and at least once.
Exit code 0: every kill was made, no row is missing or out of its key's order, exactly once none is repeated and no
transaction is left, every planted fault was found, and every option has a test.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from functools import partial
from pathlib import Path

from tests.faults.spark.mutants import MUTANTS
from tests.faults.spark.options import all_options, shown_options
from tests.faults.spark.run import SparkRun
from tests.faults.spark.schedule import OUTAGES, by_step, schedule, tally, transactional_schedule
from tests.faults.spark.services import Services

from ottla_stack.running import RunningStack

LEAST_KILLS = 30
LEAST_TRANSACTIONAL_KILLS = 60
LEAST_IN_A_STEP = 5
_EXACTLY_ONCE = {"delivery": "exactly_once"}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.spark", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="which kills come when; by chance by default")
    parser.add_argument("--directory", type=Path, default=Path("build/faults-spark"), help="for histories and logs")
    given = parser.parse_args(arguments)
    seed = given.seed or random.randrange(1, 1 << 31)
    directory = given.directory.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    print(f"seed {seed}; histories, checkpoints and logs in {directory}", flush=True)
    began_at = time.monotonic()
    shown, there_are = shown_options(), all_options()

    with RunningStack(directory / "stack", group_coordinators=1, txn_coordinators=2) as stack:
        services = Services(stack, seed)
        run = partial(SparkRun, stack.bootstrap, seed=seed)
        caught = [name for name in MUTANTS if _is_caught(name, run(directory / name, name, mutant=name))]
        once = run(directory / "once", "once", options=_EXACTLY_ONCE, services=services).run(
            transactional_schedule(seed)
        )
        services.close()
        result = run(directory / "run", "run").run(schedule(seed))
    steps = by_step(once.kills)
    failures = [*result.failures, *once.failures]
    failures += [f"the planted fault {name!r} was not found" for name in MUTANTS if name not in caught]
    failures += [f"no test shows the option {name}" for name in sorted(there_are - shown)]
    floors = [("", len(result.kills), LEAST_KILLS), ("exactly once ", len(once.kills), LEAST_TRANSACTIONAL_KILLS)]
    floors += [(f"exactly once at {step} ", number, LEAST_IN_A_STEP) for step, number in steps.items()]
    failures += [f"{where}{kills} kills, the floor is {floor}" for where, kills, floor in floors if kills < floor]
    for words in failures:
        print(words)
    print(f"at least once: {tally(result.kills)}\nexactly once: {tally(once.kills)}")
    last = {
        "kills": len(result.kills),
        "rows": result.findings.rows,
        "missing": result.findings.missing,
        "repeated": result.findings.repeated,
        "reordered": result.findings.reordered,
        "eos_kills": len(once.kills),
        "kills_by_step": steps,
        "eos_rows": once.findings.rows,
        "eos_missing": once.findings.missing,
        "eos_duplicates": once.findings.repeated,
        "outages": sum(kill.victim in OUTAGES for kill in once.kills),
        "options_covered": len(shown),
        "options_total": len(there_are),
        "lives": result.lives + once.lives,
        "mutants": len(MUTANTS),
        "mutants_caught": len(caught),
        "seconds": round(time.monotonic() - began_at, 1),
        "seed": seed,
        "history": str(directory),
    }
    print(json.dumps(last))
    return 1 if failures else 0


def _is_caught(name: str, run: SparkRun) -> bool:
    """By rows, once all its kills were made."""
    mutant = MUTANTS[name]
    result = run.run(mutant.lives)
    missing, repeated = result.findings.missing, result.findings.repeated
    caught = list(result.kills) == list(mutant.kills) and (
        missing > 0 or (repeated > 0 and "delivery" in mutant.options)
    )
    verdict = f"caught: {missing} rows are missing, {repeated} repeated" if caught else "NOT CAUGHT"
    print(f"{name}: {verdict} ({result.seconds:.0f} s) {result.failures[:1]}", flush=True)
    return caught


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
