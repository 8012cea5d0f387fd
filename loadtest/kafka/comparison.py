"""Figures of two sides that ran in turn: the ratio of each pair, their median and spread, and the goal."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from rich import box
from rich.console import Console
from rich.table import Table

from loadtest.compare import short


@dataclass(frozen=True, slots=True)
class Goal:
    """For the median of the ratios; `own` is one for the median of the first side's figures."""

    least: float = 0
    most: float = float("inf")
    own: Goal | None = None

    def __str__(self) -> str:
        bounds = [f"≥ {self.least:,g}"] if self.least else []
        bounds += [f"≤ {self.most:.3g}"] if self.most < float("inf") else []
        return ", ".join([*bounds, *([f"itself {self.own}"] if self.own else [])])

    def is_reached(self, ratio: float, own: float) -> bool:
        return self.least <= ratio <= self.most and (self.own is None or self.own.is_reached(own, own))


Pair = tuple[dict[str, Any], dict[str, Any]]
"""What a run gave at the one side and at the other, right after one another."""

S = TypeVar("S")


def in_turn(sides: tuple[S, S], pairs: int, once: Callable[[S, int], dict[str, Any]]) -> list[Pair]:
    """`once(side, number)` of both, pair by pair; who runs first changes. One pair more is run before, and thrown away:
    it warms up the JVM, and ottla as well.
    """
    found: list[Pair] = []
    for number in range(pairs + 1):
        order = (0, 1) if number % 2 else (1, 0)
        runs = {index: once(sides[index], number) for index in order}
        found.append((runs[0], runs[1]))
    return found[1:]


ANY: Final = Goal()
AT_LEAST_AS_MUCH: Final = Goal(least=1.0)


@dataclass(frozen=True, slots=True)
class Figure:
    """A field of what a run gives. The ratio is the first side's to the second's; `quicker`: the other way round."""

    key: str
    title: str
    goal: Goal = ANY
    field: str = "records_s"
    unit: str = "records/s"
    quicker: bool = False

    def ratio(self, first: float, second: float) -> float:
        return second / first if self.quicker else first / second


@dataclass(slots=True)
class Comparison:
    """What was measured, as a table for people and `raw` for machines."""

    title: str
    sides: tuple[str, str]
    raw: dict[str, dict[str, Any]] = field(default_factory=dict)
    _rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, figure: Figure, pairs: Sequence[Pair]) -> str:
        """A line about it."""
        first, second = ([float(run[figure.field]) for run in runs] for runs in zip(*pairs, strict=True))
        ratios = [figure.ratio(*values) for values in zip(first, second, strict=True)]
        median = statistics.median(ratios)
        reached = figure.goal.is_reached(median, statistics.median(first))
        cpu_s = [_cpu_s_per_million(runs) for runs in zip(*pairs, strict=True)]
        self.raw[figure.key] = {
            "ratio": median,
            "reached": reached,
            "goal": str(figure.goal),
            "ratios": ratios,
            "unit": figure.unit,
            **dict(zip(self.sides, (first, second), strict=True)),
            "cpu_s_per_million": cpu_s,
        }
        medians = [f"{short(statistics.median(values))} {figure.unit}" for values in (first, second)]
        spread = f"{min(ratios):.2f} … {max(ratios):.2f}"
        verdict = "" if figure.goal == ANY else "yes" if reached else "NO"
        cpu = [f"{each:.2g}" if each is not None else "" for each in cpu_s]
        self._rows.append((figure.title, *medians, f"{median:.2f}", spread, str(figure.goal), verdict, *cpu))
        return f"{figure.title}: {' and '.join(medians)}, {median:.2f} ×"

    @property
    def missed(self) -> list[str]:
        return [key for key, figure in self.raw.items() if not figure["reached"]]

    @property
    def ratios(self) -> dict[str, float]:
        return {f"{key}_ratio": round(figure["ratio"], 3) for key, figure in self.raw.items()}

    def tell(self, console: Console) -> None:
        """As Markdown, for docs/benchmarks.md."""
        cpu = [f"CPU s a million, {side}" for side in self.sides]
        columns = ("figure", *self.sides, "ratio", "spread", "goal", "reached", *cpu)
        table = Table(*columns, title=self.title, box=box.MARKDOWN)
        for row in self._rows:
            table.add_row(*row)
        console.print(table)


def _cpu_s_per_million(runs: Sequence[dict[str, Any]]) -> float | None:
    """Median over the runs; None where it was not measured."""
    measured = [run["cpu_s"] / run["records"] * 1e6 for run in runs if "cpu_s" in run]
    return statistics.median(measured) if measured else None
