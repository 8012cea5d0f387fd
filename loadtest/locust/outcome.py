"""What `make load` and `make soak` say at their end: a table, the files, sentences on what failed, one line of JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from loadtest.rows.resident import ResidentMemory

_WIDE: Final = 120
_console = Console(width=None if sys.stdout.isatty() else _WIDE)


def tell(
    report: dict[str, Any], memory: ResidentMemory, title: str, directory: Path, name: str, found: Sequence[str]
) -> None:
    """Print the outcome; `found` are the sentences on what failed."""
    from loadtest.locust.chart import draw  # only here: the figures do not need the library that draws

    picture = directory / f"{name}.png"
    draw(report, memory.samples, title, picture)
    _console.print(scenario_table(report, title))
    if groups := report.get("groups"):
        told = ", ".join(f"{what.replace('_', ' ')} {figure:,}" for what, figure in groups.items())
        _console.print(f"groups churning: {told}", highlight=False)
    slopes = memory.slopes()
    _console.print(memory_table(memory, slopes))
    _console.print(f"{picture}, and {name}.html, .json, .txt and CSV files beside it", highlight=False)
    for sentence in found:
        _console.print(sentence, style="bold red", markup=False)
    print(last_line(report, max(slopes.values())))


def last_line(report: dict[str, Any], slope_mb_per_min: float) -> str:
    """The one line for machines."""
    figures = {key: report[key] for key in ("requests", "failures", "records", "p50_ms", "p99_ms")}
    return json.dumps({**figures, **report.get("groups", {}), "rss_slope_mb_per_min": slope_mb_per_min})


def scenario_table(report: dict[str, Any], title: str) -> Table:
    """A row for each scenario."""
    columns = ("requests", "failures", "records", "p50_ms", "p99_ms", "max_ms")
    table = Table("scenario", *(column.replace("_", " ") for column in columns), "records/s", title=title, box=None)
    for name, row in {**report["scenarios"], "all": report}.items():
        rate = row["records"] / max(1, report["seconds"])
        table.add_row(name, *(f"{row[column]:,}" for column in columns), f"{rate:,.0f}")
    return table


def memory_table(memory: ResidentMemory, slopes: dict[str, float]) -> Table:
    """A row for each service."""
    table = Table("service", "first MB", "last MB", "most MB", "MB a minute", title="resident memory", box=None)
    for name, samples in memory.samples.items():
        sizes = [mb for _, mb in samples]
        table.add_row(name, *(f"{mb:.1f}" for mb in (sizes[0], sizes[-1], max(sizes))), f"{slopes[name]:+.3f}")
    return table
