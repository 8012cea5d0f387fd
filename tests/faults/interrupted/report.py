"""The row and its mutant, run and told: for people, and in the last line for machines."""

from __future__ import annotations

import time
from pathlib import Path

from tests.faults.interrupted.row import MINUTES, MUTANT, NAME, TITLE, run_interrupted_row, with_mutant
from tests.faults.report import print_aligned, print_summary


def run_interrupted(minutes: float, directory: Path, seed: int) -> int:
    """The exit code: 0 where nothing was left out, every floor was reached, and the mutant was caught in every way."""
    share = (minutes or MINUTES) / MINUTES
    print(f"{NAME}: {TITLE}, {share:.0%} of it; seed {seed} …", flush=True)
    began = time.monotonic()
    run = run_interrupted_row(directory, share=share, seed=seed)
    rows = [(kind, str(n.interrupts.total()), str(n.in_hand), str(n.seen)) for kind, n in run.notes.items()]
    print_aligned([("", "interrupts", "in hand", "records"), *rows])
    for failure in run.failures:
        print(f"{NAME}: {failure}")
    print(f"{MUTANT}: caught in {', '.join(sorted(run.caught)) or 'none'}\n", flush=True)
    mutants = len(with_mutant(share))
    print_summary(
        {
            "interrupts": run.interrupts,
            "in_hand": run.total("in_hand"),
            "skipped": run.total("skipped"),
            "repeated": run.total("repeated"),
            "misplaced": run.total("misplaced"),
            "kinds": {kind: notes.interrupts.total() for kind, notes in run.notes.items()},
            "mutants": mutants,
            "mutants_caught": len(run.caught),
            "seconds": round(time.monotonic() - began, 1),
            "seed": seed,
            "history": str(directory),
        }
    )
    return 1 if run.failures or len(run.caught) < mutants else 0
