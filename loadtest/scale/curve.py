"""What a record, doing nothing and a replica cost, against how many partitions there are: a picture for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

_PANELS: Final = {
    "p50_ms": "acks=all, one at a time: ms at the median",
    "cpu_ms": "CPU ms a record, all processes",
    "idle_core_pct": "idle: % of a core, a broker",
    "kb_per_replica": "KB a replica",
    "create_s": "created, full ISR, a record each: s in all",
}


def draw(steps: Sequence[dict[str, float]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, len(_PANELS), figsize=(4 * len(_PANELS), 3.2), layout="constrained")
    for panel, (name, title) in zip(panels, _PANELS.items(), strict=True):
        panel.plot([step["partitions"] for step in steps], [step[name] for step in steps], marker="o")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("partitions of factor 3")
        panel.set_ylim(bottom=0)
    figure.savefig(path, dpi=100)
    pyplot.close(figure)
