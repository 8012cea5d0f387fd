"""The row and its mutants, run and told: for people, and in the last line for machines."""

from __future__ import annotations

import time
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.faults.compacted.phases import STEPS
from tests.faults.compacted.rows import KILLS_PER_PHASE, LEAST_CLEANINGS, MUTANT_ROWS, ROW, kills_in
from tests.faults.compacted.run import CompactedResult, CompactedRun
from tests.faults.mutants_caught import catch_all
from tests.faults.report import print_aligned, print_summary

LEAST_PASSES: Final = 50
LEAST_READ: Final = 50_000
LEAST_KEYS: Final = 3_000
LEAST_TOMBSTONES: Final = 5_000
LEAST_IN_TRANSACTIONS: Final = 4_000
LEAST_ABORTED: Final = 2_000


def run_compacted(chosen: Collection[str], minutes: float, directory: Path, seed: int, *, unbroken: bool) -> int:
    """The exit code: 0 where nothing was found, every floor was reached and each mutant was caught.

    The row has its mutants with it, but where `minutes` say how long it takes. With `unbroken` the mutants' faults come
    without the mutants, and nothing is found there either."""
    began = time.monotonic()
    broken = [row for row in MUTANT_ROWS if row.name in chosen or (ROW.name in chosen and not minutes)]
    caught = catch_all(broken, CompactedRun, directory, seed, unbroken=unbroken)
    result = CompactedResult(ROW)
    if ROW.name in chosen:
        seconds = (minutes or ROW.minutes) * 60
        print(f"{ROW.name}: {ROW.title}, {kills_in(seconds):g} kills in each; seed {seed} …", flush=True)
        result = CompactedRun(ROW, directory / ROW.name, seed).run(seconds)
        _print(result)
        result.failures += _missed(result, kills_in(seconds) / KILLS_PER_PHASE)
        for failure in result.failures:
            print(f"{ROW.name}: {failure}")
    findings = result.findings
    print_summary(
        {
            "cleanings": result.cleanings,
            "cleaner_kills_per_phase": result.phases,
            "keys": findings.keys,
            "acked": findings.acknowledged,
            "in_transactions": findings.in_transactions,
            "aborted_records": findings.aborted,
            "tombstones": findings.tombstones,
            "passes": findings.passes,
            "read": findings.read,
            "map_equal": not findings.counts["lost"] and findings.keys > 0,
            "lost_committed": findings.counts["lost"],
            "tombstones_early": findings.counts["early"],
            **{kind: n for kind, n in findings.counts.items() if kind not in ("lost", "early")},
            "mutants": 0 if unbroken else len(broken),
            "mutants_caught": caught.number,
            "seconds": round(time.monotonic() - began, 1),
            "seed": seed,
            "history": str(directory),
        }
    )
    return 1 if result.failures or caught.failed else 0


def _print(result: CompactedResult) -> None:
    print_aligned([("killed", "times"), *((phase, str(count)) for phase, count in result.phases.items())])
    verdict = "FAILED" if result.failures else "as it must be"
    print(f"{ROW.name}: {verdict}, {result.cleanings} cleanings, {result.seconds:.0f} s\n", flush=True)


def _missed(result: CompactedResult, share: float) -> list[str]:
    """In words, what was done too little of to mean anything; `share` of the whole row can be asked for."""
    findings, share = result.findings, min(1.0, share)
    did = [(f"kills {phase}", result.phases.get(phase, 0), KILLS_PER_PHASE) for phase in STEPS]
    did += [("cleanings", result.cleanings, LEAST_CLEANINGS), ("passes", findings.passes, LEAST_PASSES)]
    did += [("read", findings.read, LEAST_READ), ("aborted", findings.aborted, LEAST_ABORTED)]
    did += [("in transactions", findings.in_transactions, LEAST_IN_TRANSACTIONS)]
    did += [("keys", findings.keys, LEAST_KEYS), ("tombstones", findings.tombstones, LEAST_TOMBSTONES)]
    return [
        f"{what}: {count}, the floor is {least * share:.0f}" for what, count, least in did if count < int(least * share)
    ]
