"""What the rows came to: one JSON object, with an entry for each row."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

from tests.faults.gaps import percentile
from tests.faults.row_run import RowResult

_SHOWN = ("lost", "duplicated", "reordered")


def disks_summary(
    results: Sequence[RowResult], *, mutants: int, caught: int, seed: int, history: Path
) -> dict[str, object]:
    """The last line. `unavailable` is how long a partition went without an acknowledgement around a hit."""
    rows = {result.row.name: _row(result, history / result.row.name) for result in results}
    return {"rows": rows, "mutants": mutants, "mutants_caught": caught, "seed": seed, "history": str(history)}


def _row(result: RowResult, history: Path) -> dict[str, object]:
    gaps = list(chain.from_iterable(result.gaps.values()))
    return {
        "hits": result.hits,
        "acked": result.findings.acknowledged,
        **{kind: result.findings.counts[kind] for kind in _SHOWN},
        "replicas_equal": result.audit.equal,
        "unavailable_p50_s": round(percentile(gaps, 0.5), 3),
        "unavailable_p99_s": round(percentile(gaps, 0.99), 3),
        "failures": len(result.failures),
        "seconds": round(result.seconds, 1),
        "history": str(history),
    }
