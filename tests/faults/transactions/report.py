"""The rows and their mutants, run and told: for people, and in the last line for machines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.faults.mutants_caught import catch_all
from tests.faults.report import print_aligned, print_summary
from tests.faults.transactions.client import KINDS
from tests.faults.transactions.failpoints import STEPS
from tests.faults.transactions.rows import KILLED, KILLS_PER_STEP, MUTANT_ROWS, ROWS, THREADS, TransactionRow
from tests.faults.transactions.run import TransactionResult, TransactionRun

SHORT_MINUTES: Final = 0.5
"""A run that is shorter leaves out the JVM, which would take most of it."""
LEAST_TRANSACTIONS: Final = 20_000
LEAST_SHARE: Final = 0.2
"""The minimum share of the transactions for each kind of client."""
LEAST_KILLS: Final = 200
MOST_MINUTES: Final = 36.0
"""From the start of a whole run, its mutants included: so long the last row goes on while transactions are too few."""

_KNOWN: Final = 1.02
"""Times as many as there are to be: some are noted that a checker knows no end of."""


def needs_java(chosen: Collection[str], minutes: float) -> bool:
    return not 0 < minutes < SHORT_MINUTES and any(row.name in chosen for row in ROWS)


def run_transactions(chosen: Collection[str], minutes: float, directory: Path, seed: int, *, unbroken: bool) -> int:
    """The exit code: 0 where nothing was found, every floor was reached and each mutant was caught.

    All three rows together have the mutants with them, but where `minutes` say how long they take. With `unbroken` the
    mutants' faults come without the mutants, and nothing is found there either."""
    began = time.monotonic()
    rows = [row for row in ROWS if row.name in chosen]
    if not needs_java(chosen, minutes):
        rows = [replace(row, kinds=[kind for kind in row.kinds if kind != "java"]) for row in rows]
    whole = len(rows) == len(ROWS) and not minutes
    broken = [row for row in MUTANT_ROWS if row.name in chosen or whole]
    caught = catch_all(broken, TransactionRun, directory, seed, unbroken=unbroken)
    scale, results = minutes / sum(row.minutes for row in rows) if minutes else 1.0, list[TransactionResult]()
    for row in rows:
        ended = sum(result.findings.by_client.total() for result in results)
        least = int(_KNOWN * LEAST_TRANSACTIONS) - ended if whole and row is rows[-1] else 0
        results.append(_run(row, directory, seed, scale, least, began + 60 * MOST_MINUTES))
    failures = [failure for result in results for failure in result.failures]
    total = sum((result.findings.by_client for result in results), Counter[str]())
    steps = sum((result.steps for result in results), Counter[str]())
    if whole:
        failures += _missed(results, total, steps)
    for failure in failures:
        print(failure)
    known = [step for of_kind in STEPS.values() for step in of_kind]
    counts = sum((Counter(result.findings.counts) for result in results), Counter[str]())
    print_aligned([("killed", "times"), *((step, str(count)) for step, count in sorted(steps.items()))])
    kinds = ("torn", "aborted_reads", "duplicates", "hanging", "lost", "offsets", "zombies", "went_back", "unknown")
    print_summary(
        {
            "transactions": total.total(),
            "by_client": dict(total),
            "kills": steps.total(),
            "failpoints_hit": {step: steps[step] for step in known},
            **{kind: counts[kind] for kind in kinds},
            "epoch_wraps": sum(result.epoch_wraps for result in results),
            "cut_off": dict(sum((result.cuts for result in results), Counter[str]())),
            "fenced": sum((result.findings.fenced for result in results), Counter[str]()).total(),
            "replayed": sum(result.replayed for result in results),
            "mutants": 0 if unbroken else len(broken),
            "mutants_caught": caught.number,
            "seconds": round(time.monotonic() - began, 1),
            "seed": seed,
            "history": str(directory),
        }
    )
    return 1 if failures or caught.failed else 0


def _run(
    row: TransactionRow, directory: Path, seed: int, scale: float, least: int, give_up_at: float
) -> TransactionResult:
    print(f"{row.name}: {row.title}, {row.minutes * scale:.1f} minutes of it, seed {seed} …", flush=True)
    run = TransactionRun(row, directory / row.name, seed, least=least, give_up_at=give_up_at)
    result = run.run(row.minutes * scale * 60)
    found = result.findings
    verdict = f"FAILED: {result.failures[0]}" if result.failures else "as it must be"
    print(
        f"{row.name}: {verdict}; {dict(found.by_client)} transactions, {found.unknown} of unknown end, {result.kills} "
        f"kills, {dict(result.cuts)} cut off, {dict(found.fenced)} fenced of {result.zombies} zombies, "
        f"{result.replayed} requests came twice, {result.epoch_wraps} ids have a new producer id "
        f"({result.seconds:.0f} s)",
        flush=True,
    )
    return result


def _missed(results: Sequence[TransactionResult], total: Counter[str], steps: Counter[str]) -> list[str]:
    """In words, what was done too little of to mean anything."""
    [killed] = [result for result in results if result.row is KILLED]
    did = [("transactions", total.total(), LEAST_TRANSACTIONS), ("kills", steps.total(), LEAST_KILLS)]
    did += [(f"transactions of {kind}", total[kind], int(LEAST_SHARE * total.total())) for kind in KINDS]
    did += [(f"kills {step}", killed.steps[step], KILLS_PER_STEP) for of_kind in STEPS.values() for step in of_kind]
    did += [("epoch wraps", sum(result.epoch_wraps for result in results), 1)]
    cuts = sum((result.cuts for result in results), Counter[str]())
    did += [(f"cut off: {kind}", cuts[kind], 1) for kind in ("producers", "txn")]
    did += [("replayed", sum(result.replayed for result in results), 1_000)]
    fenced = sum((result.findings.fenced for result in results if result.zombies), Counter[str]())
    did += [(f"fenced of {kind}", fenced[f"{kind}-0"] + fenced[f"{kind}-1"], THREADS) for kind in KINDS]
    return [f"{what}: {count}, the floor is {least}" for what, count, least in did if count < least]
