"""`python -m tests.faults.spark`: kills Spark over and over while it copies a topic, and says what became of the rows.

First the faults planted in the sink, which have to be found, then the sink as it is. Exit code 0: every kill was made,
no row is missing or out of its key's order, every planted fault was found, and every option has a test.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from pathlib import Path

from tests.faults.spark.options import all_options, shown_options
from tests.faults.spark.run import SparkResult, SparkRun
from tests.faults.spark.schedule import PYTHON, TREE, Kill, Life, schedule, tally

from ottla.testing import Cluster

LEAST_KILLS = 30

MUTANTS = {
    "hasty": Life([Kill("latest", TREE, skip=3)]),
    "forgetful": Life([Kill("write", PYTHON), Kill("writing", PYTHON)]),
}
"""The faults that are planted, and the kills that show them."""


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

    with Cluster() as cluster:
        caught = [name for name in MUTANTS if _is_caught(name, cluster.bootstrap, directory, seed)]
        result = SparkRun(cluster.bootstrap, directory / "run", "run", seed=seed).run(schedule(seed))
    failures = [*result.failures]
    failures += [f"the planted fault {name!r} was not found" for name in MUTANTS if name not in caught]
    failures += [f"no test shows the option {name}" for name in sorted(there_are - shown)]
    if len(result.kills) < LEAST_KILLS:
        failures.append(f"{len(result.kills)} kills, the floor is {LEAST_KILLS}")
    for words in failures:
        print(words)
    _print_summary(result, caught, seed, directory, time.monotonic() - began_at, len(shown), len(there_are))
    return 1 if failures else 0


def _is_caught(name: str, bootstrap: str, directory: Path, seed: int) -> bool:
    result = SparkRun(bootstrap, directory / name, name, seed=seed, mutant=name).run([MUTANTS[name]])
    caught = result.findings.missing > 0
    verdict = f"caught: {result.findings.missing} rows are missing" if caught else f"NOT CAUGHT: {result.failures}"
    print(f"{name}: {verdict} ({result.seconds:.0f} s)", flush=True)
    return caught


def _print_summary(
    result: SparkResult, caught: list[str], seed: int, directory: Path, seconds: float, shown: int, there_are: int
) -> None:
    print(f"kills: {tally(result.kills)}")
    found = result.findings
    print(
        json.dumps(
            {
                "kills": len(result.kills),
                "rows": found.rows,
                "missing": found.missing,
                "repeated": found.repeated,
                "reordered": found.reordered,
                "options_covered": shown,
                "options_total": there_are,
                "lives": result.lives,
                "mutants": len(MUTANTS),
                "mutants_caught": len(caught),
                "seconds": round(seconds, 1),
                "seed": seed,
                "history": str(directory),
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
