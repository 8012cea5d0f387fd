"""What the rows of groups came to, for people and for machines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.faults.gaps import percentile
from tests.faults.groups.checker import KINDS
from tests.faults.groups.rows import GOALS_S
from tests.faults.groups.run import GroupResult
from tests.faults.report import print_aligned

_COLUMNS: Final = (
    "groups",
    "seconds",
    "hits",
    "kills",
    "rebalances",
    "commits",
    "refused",
    "unknown",
    "fetches",
    "found",
)
_WAITS: Final = ("seconds until a shard's groups commit again, after", "shards", "p50", "p99", "goal p99")
_MOST_FAILURES: Final = 15
_KILL: Final = "coordinator killed"


def print_groups(results: Sequence[GroupResult]) -> None:
    rows = [_COLUMNS, *(_cells(result) for result in results)]
    print_aligned(rows)
    print()
    print_aligned([_WAITS, *_waits(results)])
    for result in results:
        for failure in result.failures[:_MOST_FAILURES]:
            print(f"{result.row.name}: {failure}")
        if len(result.failures) > _MOST_FAILURES:
            print(f"{result.row.name}: and {len(result.failures) - _MOST_FAILURES} more")


def group_summary(
    results: Sequence[GroupResult], *, mutants: int, caught: int, seed: int, history: Path
) -> dict[str, object]:
    """The last line of the run. Takeovers are those after a coordinator's kill -9; the others' stand beside it."""
    waits = _seconds(results)
    return {
        "kills": sum(result.kills for result in results),
        "rebalances": sum(result.findings.rebalances for result in results),
        "commits": sum(result.findings.commits for result in results),
        "fetches": sum(result.findings.fetches for result in results),
        **{kind: sum(result.findings.counts[kind] for result in results) for kind in KINDS},
        "replicas_equal": bool(results) and all(result.audit.equal for result in results),
        "takeover_p50_s": round(percentile(waits.get(_KILL, ()), 0.5), 3),
        "takeover_p99_s": round(percentile(waits.get(_KILL, ()), 0.99), 3),
        "takeovers_p99_s": {kind: round(percentile(seconds, 0.99), 3) for kind, seconds in sorted(waits.items())},
        "mutants": mutants,
        "mutants_caught": caught,
        "seconds": round(sum(result.seconds for result in results), 1),
        "seed": seed,
        "history": str(history),
    }


def _seconds(results: Sequence[GroupResult]) -> dict[str, list[float]]:
    waits: dict[str, list[float]] = {}
    for result in results:
        for kind, seconds in result.takeovers.items():
            waits.setdefault(kind, []).extend(seconds)
    return waits


def _cells(result: GroupResult) -> tuple[str, ...]:
    found = result.findings
    numbers = (result.hits, result.kills, found.rebalances, found.commits, found.refused, found.unknown, found.fetches)
    return (
        f"{result.row.name} {result.row.title}",
        f"{result.seconds:.0f}",
        *(f"{number:,}" for number in (*numbers, sum(found.counts.values()))),
    )


def _waits(results: Sequence[GroupResult]) -> list[tuple[str, ...]]:
    return [
        (
            kind,
            str(len(seconds)),
            *(f"{percentile(seconds, share):.2f}" for share in (0.5, 0.99)),
            f"{GOALS_S[kind]:g}" if kind in GOALS_S else "",
        )
        for kind, seconds in _seconds(results).items()
    ]
