"""Rate, latency and memory over the time of a load test, as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")  # no display is needed

from matplotlib import pyplot as plt

from loadtest.locust.slope import Sample


def draw(report: dict[str, Any], memory: Mapping[str, Sequence[Sample]], title: str, path: Path) -> None:
    """Draw a timeline's report and the resident memory of each service into a PNG file."""
    rows = report["rows"]
    at = [row["at"] for row in rows]
    figure, (rate, latency, resident) = plt.subplots(3, 1, figsize=(11, 10), sharex=True, layout="constrained")
    figure.suptitle(title)

    rate.plot(at, [row["records"] for row in rows], color="tab:blue", label="records/s")
    rate.set_ylabel("records/s")
    batches = rate.twinx()
    batches.plot(at, [row["requests"] for row in rows], color="tab:gray", linestyle=":", label="batches/s")
    batches.set_ylabel("batches/s")
    batches.set_ylim(bottom=0)
    failed = [row["at"] for row in rows if row["failures"]]
    rate.plot(failed, [0] * len(failed), "x", color="tab:red", label="failures")
    rate.set_ylim(bottom=0)
    lines = [*rate.get_lines(), *batches.get_lines()]
    rate.legend(lines, [str(line.get_label()) for line in lines], loc="lower right")

    for name, color in (("p50_ms", "tab:green"), ("p99_ms", "tab:orange"), ("max_ms", "tab:red")):
        latency.plot(at, [row[name] or None for row in rows], color=color, linewidth=1, label=name.removesuffix("_ms"))
    latency.set_yscale("log")
    latency.yaxis.set_major_formatter("{x:g}")
    latency.set_ylabel("latency of a batch, ms")
    latency.legend(loc="upper right")

    for name, samples in memory.items():
        resident.plot([at for at, _ in samples], [mb for _, mb in samples], linewidth=1, label=name)
    resident.set_ylim(bottom=0)
    resident.set_ylabel("resident, MB")
    resident.set_xlabel("seconds")
    resident.legend(loc="lower right", ncols=3)

    for axes in (rate, latency, resident):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=100)
    plt.close(figure)
