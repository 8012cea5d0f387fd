"""The results as a table for people and one JSON object for machines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from tests.faults.checker import KINDS
from tests.faults.gaps import percentile
from tests.faults.row_run import RowResult
from tests.faults.rows import GOALS

_COLUMNS: Final = (
    "fault", "seconds", "hits", "operations", "acknowledged", "unknown", "lost", "duplicated", "reordered",
    "inconsistent", "other", "replicas",
)  # fmt: skip
_GAP_COLUMNS: Final = ("seconds without an acknowledgement after", "hits", "p50", "p99", "goal p50", "goal p99")
_SHOWN: Final = ("lost", "duplicated", "reordered", "inconsistent")
_MOST_FAILURES: Final = 12


def print_table(results: Sequence[RowResult]) -> None:
    print_aligned([_COLUMNS, *(_cells(result) for result in results)])
    print()
    print_aligned([_GAP_COLUMNS, *_gap_rows(results)])
    for result in results:
        for failure in result.failures[:_MOST_FAILURES]:
            print(f"{result.row.name}: {failure}")
        if len(result.failures) > _MOST_FAILURES:
            print(f"{result.row.name}: and {len(result.failures) - _MOST_FAILURES} more")


def summary(results: Sequence[RowResult], *, mutants: int, caught: int, seed: int, history: Path) -> dict[str, object]:
    """The last line of the run. Gaps are those of kill -9; the other kinds' p99 stand in `gaps_p99_s`."""
    gaps = gaps_of(results)
    found = {kind: sum(result.findings.counts[kind] for result in results) for kind in KINDS}
    return {
        "partitions": min((result.partitions for result in results), default=0),
        "kills": sum(result.kills for result in results),
        "operations": sum(result.findings.operations for result in results),
        "acked": sum(result.findings.acknowledged for result in results),
        **{kind: found[kind] for kind in _SHOWN},
        **{kind: count for kind, count in found.items() if kind not in _SHOWN},
        "unknown": sum(result.findings.unknown for result in results),
        "replicas_equal": bool(results) and all(result.audit.equal for result in results),
        "mutants": mutants,
        "mutants_caught": caught,
        "gap_p50_s": round(percentile(gaps.get("kill", ()), 0.5), 3),
        "gap_p99_s": round(percentile(gaps.get("kill", ()), 0.99), 3),
        "gaps_p99_s": {kind: round(percentile(seconds, 0.99), 3) for kind, seconds in sorted(gaps.items())},
        **_of_librdkafka(results),
        "seconds": round(sum(result.seconds for result in results), 1),
        "seed": seed,
        "history": str(history),
    }


def _of_librdkafka(results: Iterable[RowResult]) -> dict[str, object]:
    """Nothing unless one of the rows had its clients."""
    counts = [result.librdkafka for result in results if result.row.librdkafka]
    kinds = ("acknowledged", "read", "errors")
    return {"librdkafka": {kind: sum(count[kind] for count in counts) for kind in kinds}} if counts else {}


def print_summary(fields: dict[str, object]) -> None:
    print(json.dumps(fields, separators=(",", ":")), flush=True)


def gaps_of(results: Iterable[RowResult]) -> dict[str, list[float]]:
    gaps: dict[str, list[float]] = {}
    for result in results:
        for kind, seconds in result.gaps.items():
            gaps.setdefault(kind, []).extend(seconds)
    return gaps


def _cells(result: RowResult) -> tuple[str, ...]:
    findings = result.findings
    other = sum(count for kind, count in findings.counts.items() if kind not in _SHOWN)
    numbers = (result.hits, findings.operations, findings.acknowledged, findings.unknown)
    found = (*(findings.counts[kind] for kind in ("lost", "duplicated", "reordered", "inconsistent")), other)
    return (
        f"{result.row.name} {result.row.title}",
        f"{result.seconds:.0f}",
        *(f"{number:,}" for number in (*numbers, *found)),
        "equal" if result.audit.equal else "NOT EQUAL",
    )


def _gap_rows(results: Sequence[RowResult]) -> Iterable[tuple[str, ...]]:
    for kind, seconds in gaps_of(results).items():
        goal = GOALS.get(kind)
        goals = (f"{goal.p50_s:g}", f"{goal.p99_s:g}") if goal else ("", "")
        yield (kind, str(len(seconds)), *(f"{percentile(seconds, share):.2f}" for share in (0.5, 0.99)), *goals)


def print_aligned(rows: Sequence[Sequence[str]]) -> None:
    """The first column to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *rest = row
        cells = (cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))
        print("  ".join((first.ljust(widths[0]), *cells)))
