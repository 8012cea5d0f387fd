"""Runs the row and its mutants, and reports them: for people, and in the last line for machines."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path

from tests.faults import network
from tests.faults.mutants_caught import catch_all
from tests.faults.power.aimed_run import AimedRun
from tests.faults.power.rows import (
    LEAST_ACKNOWLEDGED,
    LEAST_CLEANINGS,
    LEAST_CUTS,
    LEAST_ELECTIONS,
    LEAST_EPISODES,
    LEAST_HITS,
    MUTANT_ROWS,
    ROW,
    PowerRow,
)
from tests.faults.power.run import PowerResult, PowerRun
from tests.faults.report import print_aligned, print_summary


def run_power(chosen: Collection[str], minutes: float, directory: Path, seed: int, *, unbroken: bool) -> int:
    """Run the row, and return 0 if nothing was found, every floor was reached and each mutant was caught.

    The row has its mutants with it, except where `minutes` say how long it takes. With `unbroken` the mutants' faults
    come without the mutants, and nothing is found there either.
    """
    began = time.monotonic()
    network.raise_loopback()  # for the stories that have a cluster in one process
    broken = [row for row in MUTANT_ROWS if row.name in chosen or (ROW.name in chosen and not minutes)]
    caught = catch_all(broken, _run_of, directory, seed, unbroken=unbroken)
    result = PowerResult(ROW)
    if ROW.name in chosen:
        minutes = minutes or ROW.minutes
        print(f"{ROW.name}: {ROW.title}, {minutes:.1f} minutes of it; seed {seed} …", flush=True)
        result = PowerRun(ROW, directory / ROW.name, seed).run(minutes * 60)
        result.failures += missed(result, minutes / ROW.minutes)
        _print(result)
    findings = result.findings
    print_summary(
        {
            "kills": result.kills,
            "power_cuts": result.power_cuts,
            "acked": findings.acknowledged,
            "cleanings": result.cleanings,
            "elections": result.elections,
            **findings.counts,
            "mutants": 0 if unbroken else len(broken),
            "mutants_caught": caught.number,
            "keys": findings.keys,
            "replicas": findings.replicas,
            "batches": findings.batches,
            "bytes_cut": result.lost_bytes,
            "emptied": result.kinds.get("emptied", 0),
            "seconds": round(time.monotonic() - began, 1),
            "seed": seed,
            "history": str(directory),
        }
    )
    return 1 if result.failures or caught.failed else 0


def _run_of(row: PowerRow, directory: Path, seed: int, mutant: str) -> AimedRun | PowerRun:
    return (AimedRun if row.story else PowerRun)(row, directory, seed, mutant)


def missed(result: PowerResult, share: float) -> list[str]:
    """Return, in words, what was done too seldom to mean anything, in a run that is `share` of the whole row."""
    share = min(1.0, share)
    did = [("kills", result.kills, LEAST_HITS), ("power cuts", result.power_cuts, LEAST_CUTS)]
    did += [("cleanings", result.cleanings, LEAST_CLEANINGS), ("elections", result.elections, LEAST_ELECTIONS)]
    did += [("acknowledged", result.findings.acknowledged, LEAST_ACKNOWLEDGED)]
    did += [("emptied logs", result.kinds.get("emptied", 0), LEAST_EPISODES)]
    return [
        f"{what}: {count}, the floor is {least * share:.0f}" for what, count, least in did if count < int(least * share)
    ]


def _print(result: PowerResult) -> None:
    print_aligned([("hits", "times"), *((kind, str(count)) for kind, count in sorted(result.kinds.items()))])
    for failure in result.failures:
        print(f"{ROW.name}: {failure}")
    print(f"{ROW.name}: {'FAILED' if result.failures else 'as it must be'} ({result.seconds:.0f} s)\n", flush=True)
