"""`python -m tests.faults --rows F1,F5 --minutes 3`: runs rows of the fault table and says what they found.

All rows and the mutants take at most 15 minutes. Exit code 0: every row ran, reached its floors and its goals, and
nothing was found; and every mutant was caught.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path
from typing import Final

from tests.faults import network
from tests.faults.mutant_rows import MUTANT_ROWS
from tests.faults.report import print_summary, print_table, summary
from tests.faults.row_run import RowResult, run_row
from tests.faults.rows import ROWS, Row

MUTANTS: Final = "mutants"
LEAST_KILLS: Final = 30
LEAST_ACKNOWLEDGED: Final = 1_000_000


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--rows", default="", help="such as F1,F5,mutants, or a mutant's name; all by default")
    parser.add_argument("--minutes", type=float, default=0.0, help="of faults, over all the rows; their own by default")
    parser.add_argument("--seed", type=int, default=0, help="which faults come when; by chance by default")
    parser.add_argument("--directory", type=Path, default=Path("build/faults"), help="for histories and logs")
    parser.add_argument("--unbroken", action="store_true", help="the mutants' faults without the mutants: all is well")
    given = parser.parse_args(arguments)
    known = {row.name: row for row in ROWS}
    known_mutants = [MUTANTS, *(row.name for row in MUTANT_ROWS)]
    chosen = [name for name in given.rows.split(",") if name] or [*known, MUTANTS]
    if unknown := [name for name in chosen if name not in (*known, *known_mutants)]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join((*known, *known_mutants))}")
    try:
        network.enter(arguments)
    except RuntimeError as error:
        print(f"no row can run: {error}", file=sys.stderr)
        return 1

    seed = given.seed or random.randrange(1, 1 << 31)
    directory = given.directory.absolute() / f"{time.strftime('%Y%m%d-%H%M%S')}-{seed}"
    rows = [known[name] for name in chosen if name in known]
    mutant_rows = [row for row in MUTANT_ROWS if {MUTANTS, row.name}.intersection(chosen)]
    if given.unbroken:
        rows, mutant_rows = [*rows, *mutant_rows], []
    scale = given.minutes / sum(row.minutes for row in rows) if given.minutes and rows else 1.0
    results = [_run(row, directory, scale, seed) for row in rows]
    mutants = [_run_mutant(row, directory, seed) for row in mutant_rows]
    print()
    print_table(results)
    missed = _missed_totals(results) if len(rows) == len(ROWS) and scale >= 1.0 else []
    for words in missed:
        print(words)
    caught = sum(result.caught for result in mutants)
    print_summary(summary(results, mutants=len(mutants), caught=caught, seed=seed, history=directory))
    return 1 if missed or caught < len(mutants) or any(result.failures for result in results) else 0


def _run(row: Row, directory: Path, scale: float, seed: int) -> RowResult:
    print(f"{row.name}: {row.title}, {row.minutes * scale:.1f} minutes of it …", flush=True)
    result = run_row(row, directory / row.name, seconds=row.minutes * scale * 60, seed=seed)
    print(f"{row.name}: {'as it must be' if not result.failures else 'FAILED'}", flush=True)
    return result


def _run_mutant(row: Row, directory: Path, seed: int) -> RowResult:
    result = run_row(row, directory / row.name, seconds=row.minutes * 60, seed=seed, mutant=row.name)
    found = {kind: count for kind, count in result.findings.counts.items() if count}
    verdict = f"caught: {found or result.audit.differences[0]}" if result.caught else f"NOT CAUGHT: {result.failures}"
    print(f"{row.name}: {verdict} ({result.seconds:.0f} s)", flush=True)
    return result


def _missed_totals(results: list[RowResult]) -> list[str]:
    kills = sum(result.leader_kills for result in results)
    acknowledged = sum(result.findings.acknowledged for result in results)
    totals = (("leader kills", kills, LEAST_KILLS), ("acknowledged", acknowledged, LEAST_ACKNOWLEDGED))
    return [f"{what}: {count} in all, the floor is {least}" for what, count, least in totals if count < least]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
