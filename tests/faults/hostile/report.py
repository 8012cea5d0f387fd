"""The row and its mutant, run and told: for people, and in the last line for machines."""

from __future__ import annotations

from pathlib import Path

from tests.faults.hostile.client import REPEATS
from tests.faults.hostile.row import BOUNDS, CONNECTIONS, HOSTILE_ROW, MUTANT, HostileRun
from tests.faults.report import print_aligned, print_summary


def run_hostile(minutes: float, directory: Path, seed: int) -> int:
    """The exit code: 0 where every figure is within its bound, no phase was skipped, and the mutant was caught."""
    row, minutes = HOSTILE_ROW, minutes or HOSTILE_ROW.minutes
    print(f"{MUTANT}: one quiet and one hostile phase …", flush=True)
    mutant = HostileRun(directory / MUTANT, seed, MUTANT)
    mutant.run(0)
    print(f"{MUTANT}: {'caught' if mutant.caught else 'NOT CAUGHT'}: {mutant.result.failures}", flush=True)
    print(f"{row.name}: {row.title}, {minutes:.1f} minutes of it; seed {seed} …", flush=True)
    run = HostileRun(directory, seed)
    failures = run.run(minutes * 60).failures
    print(f"{row.name}: {'as it must be' if not failures else 'FAILED'}\n", flush=True)
    print_hostile(run)
    print_summary(hostile_summary(run, caught=mutant.caught, seed=seed))
    return 1 if failures or not mutant.caught else 0


def print_hostile(run: HostileRun) -> None:
    figures = run.figures
    p99s = [(name, *(f"{ms:.1f}" for ms in each)) for name, each in figures.p99_ms.items()]
    pairs = [f"pair {n + 1}" for n in range(len(figures.phases) // 2)]
    print_aligned([("p99 in ms", *pairs), *p99s])
    measured = [(name, f"{figures.measured.get(name, -1):.1f}", f"{bound:g}") for name, bound in BOUNDS.items()]
    print_aligned([("", "is", "may be"), *measured])
    for failure in run.result.failures:
        print(f"{HOSTILE_ROW.name}: {failure}")


def hostile_summary(run: HostileRun, *, caught: bool, seed: int) -> dict[str, object]:
    """The last line of the run."""
    figures = run.figures
    return {
        "pairs": len(figures.phases) // 2,
        "connections": CONNECTIONS,
        "repeats": REPEATS,
        **{name: round(figures.measured.get(name, -1.0), 2) for name in BOUNDS},
        "p99_ms": {name: [round(ms, 2) for ms in each] for name, each in figures.p99_ms.items()},
        "samples": dict(figures.samples),
        "did": dict(figures.did),
        "bounds": {name: round(bound, 1) for name, bound in BOUNDS.items()},
        "mutants": 1,
        "mutants_caught": int(caught),
        "seconds": round(run.result.seconds, 1),
        "seed": seed,
        "history": str(run.history),
    }
