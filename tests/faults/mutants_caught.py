"""Mutants of a row, run and told one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple


class Caught(NamedTuple):
    """How many of the mutants were; `failed` where one was not, or, without the mutants, where anything was found."""

    number: int
    failed: bool


def catch_all(rows: Sequence[Any], run: Callable[..., Any], directory: Path, seed: int, *, unbroken: bool) -> Caught:
    """`run` makes a run of a row, in a directory, by a seed, with the mutant of that name, "" for none; its result has
    `caught`, `findings`, `failures` and `seconds`. With `unbroken` the mutants' faults come without the mutants."""
    count, failed = 0, False
    for row in rows:
        result = run(row, directory / row.name, seed, "" if unbroken else row.name).run(row.minutes * 60)
        found = {kind: number for kind, number in result.findings.counts.items() if number}
        count += result.caught
        failed |= bool(result.failures) if unbroken else not result.caught
        verdict = f"caught: {found}" if result.caught else f"NOT CAUGHT: {found}, {result.failures}"
        if unbroken:
            verdict = f"FAILED: {result.failures}" if result.failures else "as it must be"
        print(f"{row.name}: {verdict} ({result.seconds:.0f} s)", flush=True)
    return Caught(count, failed)
