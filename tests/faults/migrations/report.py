"""Runs the row and its mutants, and prints the results: for people, and as JSON in the last line."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.faults.migrations.rows import MUTANT_ROWS, ROW
from tests.faults.migrations.run import MigrationResult, MigrationRun
from tests.faults.mutants_caught import catch_all
from tests.faults.report import print_aligned, print_summary

_MOST_FAILURES: Final = 15


def run_migrations(chosen: Collection[str], minutes: float, directory: Path, seed: int, *, unbroken: bool) -> int:
    """Return the exit code: 0 if nothing was found, every floor was reached and each mutant was caught.

    The row includes its mutants, unless `minutes` limit it. With `unbroken` the runs of the mutants have no mutant, and
    must find nothing.
    """
    began = time.monotonic()
    broken = [row for row in MUTANT_ROWS if row.name in chosen or (ROW.name in chosen and not minutes)]
    caught = catch_all(broken, MigrationRun, directory, seed, unbroken=unbroken)
    result = _run(minutes, directory, seed) if ROW.name in chosen else MigrationResult(ROW)
    found = result.findings
    print_summary(
        {
            "kills": result.kills,
            "migrations": result.migrations,
            "rebalances": found.rebalances,
            "commits": found.commits,
            "refused": found.refused,
            "old_commits": found.old_commits,
            "expelled": found.expelled,
            "written": found.written,
            **found.counts,
            "mutants": 0 if unbroken else len(broken),
            "mutants_caught": caught.number,
            "seconds": round(time.monotonic() - began, 1),
            "seed": seed,
            "history": str(directory),
        }
    )
    return 1 if result.failures or caught.failed else 0


def _run(minutes: float, directory: Path, seed: int) -> MigrationResult:
    """Run the row. `minutes` limit its time, and lower its floors accordingly."""
    row = replace(ROW, least=_share_of(minutes / ROW.minutes)) if minutes else ROW
    print(f"{row.name}: {row.title}, {minutes or row.minutes:.1f} minutes of it, seed {seed} …", flush=True)
    result = MigrationRun(row, directory / row.name, seed).run((minutes or row.minutes) * 60)
    print_aligned([("hit", "times"), *((kind, str(count)) for kind, count in sorted(result.by_kind.items()))])
    for failure in result.failures[:_MOST_FAILURES]:
        print(f"{row.name}: {failure}")
    if len(result.failures) > _MOST_FAILURES:
        print(f"{row.name}: and {len(result.failures) - _MOST_FAILURES} more")
    return result


def _share_of(share: float) -> dict[str, int]:
    return {what: int(least * min(1.0, share)) for what, least in ROW.least.items()}
