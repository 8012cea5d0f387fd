"""The row and its mutants, run and reported: for people, and in the last line for machines."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.faults.mutants_caught import catch_all
from tests.faults.report import print_aligned, print_summary
from tests.faults.restarts.content import QUERY_TARGET
from tests.faults.restarts.readers import LEVELS, READ
from tests.faults.restarts.rows import (
    LEAST_DEAD_LETTERS,
    LEAST_DEATHS,
    LEAST_RESTARTS,
    LEAST_RESTORED,
    LEAST_ROWS,
    MINUTES,
    MUTANT_ROWS,
    QUERY,
    ROW,
)
from tests.faults.restarts.run import RestartResult, RestartRun

SHORT_MINUTES: Final = 0.5
"""A run that is shorter leaves out the query: to start Spark would take most of it."""

KINDS: Final[Sequence[str]] = (
    "lost",
    "doubled",
    "torn",
    "reordered",
    "short_listings",
    "false_failures",
    "false_hangs",
    "waits",
)


def run_restarted(chosen: Collection[str], minutes: float, directory: Path, seed: int, *, unbroken: bool) -> int:
    """Return the exit code: 0 if nothing was found, every floor was reached and each mutant was caught.

    The row runs its mutants, too, unless `minutes` is given. With `unbroken`, the mutants' stories run on unbroken
    code, and must find nothing."""
    began = time.monotonic()
    broken = [row for row in MUTANT_ROWS if row.name in chosen or (ROW.name in chosen and not minutes)]
    caught = catch_all(broken, RestartRun, directory, seed, unbroken=unbroken)
    is_short = 0 < minutes < SHORT_MINUTES
    row = replace(ROW, clients=[client for client in ROW.clients if client != QUERY]) if is_short else ROW
    result = RestartResult(row)
    if ROW.name in chosen:
        seconds = (minutes or ROW.minutes) * 60
        print(f"{ROW.name}: {ROW.title}, {seconds / 60:g} minutes of it; seed {seed} …", flush=True)
        result = RestartRun(row, directory / row.name, seed).run(seconds)
        result.failures += _missed(result, seconds / 60 / MINUTES)
        did = {**result.restarts, **result.drivers, **result.findings.did}
        print_aligned([("what", "times"), *((what, f"{count:,}") for what, count in did.items())])
        print(f"{ROW.name}: {'FAILED' if result.failures else 'as it must be'}, {result.seconds:.0f} s", flush=True)
        for failure in result.failures:
            print(f"{ROW.name}: {failure}")
    findings = result.findings
    print_summary(
        {
            "restarts": result.restarts.total(),
            "driver_deaths": result.drivers["deaths"],
            "checkpoints_restored": result.drivers["restored"],
            "checkpoints_copied": result.drivers["copied"],
            "second_attempts": result.second_attempts,
            "rows": findings.did["rows of the query"] + findings.did["rows of the App"] + findings.did["dead letters"],
            "listings": sum(count for what, count in findings.did.items() if what.startswith("listings")),
            **{kind: findings.counts[kind] for kind in KINDS},
            "longest_wait_s": max((s for topic, s in findings.waits_s.items() if topic != QUERY_TARGET), default=0.0),
            "longest_wait_for_the_query_s": findings.waits_s.get(QUERY_TARGET, 0.0),
            "longest_pause_of_the_query_s": round(findings.pause_s, 3),
            "mutants": 0 if unbroken else len(broken),
            "mutants_caught": caught.number,
            "seconds": round(time.monotonic() - began, 1),
            "seed": seed,
            "history": str(directory),
        }
    )
    return 1 if result.failures or caught.failed else 0


def _missed(result: RestartResult, share: float) -> list[str]:
    """Describe each floor that the run missed. A run of `share` of the row's minutes has to reach that share of it."""
    findings, drivers = result.findings, result.drivers
    of_query = (
        ("driver deaths", drivers["deaths"], LEAST_DEATHS),
        ("checkpoints restored", drivers["restored"], LEAST_RESTORED),
        ("checkpoints copied", drivers["copied"], LEAST_RESTORED),
        ("second attempts", result.second_attempts, LEAST_RESTORED),
        ("rows of the query", findings.did["rows of the query"], LEAST_ROWS),
    )
    did = (
        *(of_query if QUERY in result.row.clients else ()),
        *(
            (what := f"rows of {topic} with {level}", findings.did[what], LEAST_ROWS // 3)
            for topic in READ
            for level in LEVELS
            if topic != QUERY_TARGET or QUERY in result.row.clients
        ),
        ("restarts", result.restarts.total(), LEAST_RESTARTS),
        ("rows of the App", findings.did["rows of the App"], LEAST_ROWS // 3),
        ("dead letters", findings.did["dead letters"], LEAST_DEAD_LETTERS),
        ("looks", findings.did["looks"], LEAST_RESTARTS),
        ("transactions", findings.did["transactions"], LEAST_RESTARTS),
        ("listings of groups", findings.did["listings of groups"], 2_000),
        ("listings of transactions", findings.did["listings of transactions"], 2_000),
    )
    return [
        f"{what}: {count}, the floor is {least * min(1.0, share):.0f}"
        for what, count, least in did
        if count < int(least * min(1.0, share))
    ]
