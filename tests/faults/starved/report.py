"""What the row came to, for people and for machines."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.faults.checker import KINDS as LOG_KINDS
from tests.faults.groups.checker import KINDS as GROUP_KINDS
from tests.faults.report import print_aligned
from tests.faults.starved.run import HOGS, StarvedRun

_MOST_FAILURES: Final = 15


def print_starved(run: StarvedRun) -> None:
    result, figures = run.result, run.figures
    print_aligned(
        [
            ("p99 in ms", *figures.commit_p99_ms),
            ("commits", *(f"{p99_ms:.1f}" for p99_ms in figures.commit_p99_ms.values())),
            ("sends", *(f"{p99_ms:.1f}" for p99_ms in figures.send_p99_ms.values())),
        ]
    )
    print()
    print_aligned([("service", "of the processor time that it wanted, it waited for")])
    print_aligned([(name, f"{share:.0%}") for name, share in figures.starved.items()])
    for failure in result.failures[:_MOST_FAILURES]:
        print(f"{result.row.name}: {failure}")
    if len(result.failures) > _MOST_FAILURES:
        print(f"{result.row.name}: and {len(result.failures) - _MOST_FAILURES} more")


def starved_summary(run: StarvedRun, *, mutants: int, caught: int, seed: int, history: Path) -> dict[str, object]:
    """The last line. What services counted is of the time while the cores were shared."""
    result, figures = run.result, run.figures
    written, found = figures.written, result.findings
    return {
        "hits": result.hits,
        "hogs": HOGS,
        "acked": written.acknowledged,
        **{kind: written.counts[kind] for kind in LOG_KINDS},
        "commits": found.commits,
        "fetches": found.fetches,
        "rebalances": found.rebalances,
        **{kind: found.counts[kind] for kind in GROUP_KINDS},
        "replicas_equal": result.audit.equal,
        **figures.counted,
        "elections": figures.elections,
        **{f"p99_{phase}_ms": p99_ms for phase, p99_ms in figures.commit_p99_ms.items()},
        **{f"send_p99_{phase}_ms": p99_ms for phase, p99_ms in figures.send_p99_ms.items()},
        "starved": figures.starved,
        "failures": len(result.failures),
        "mutants": mutants,
        "mutants_caught": caught,
        "seconds": round(result.seconds, 1),
        "seed": seed,
        "history": str(history),
    }
