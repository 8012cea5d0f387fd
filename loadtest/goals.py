"""The end of a benchmark: the median and spread of each figure, the goals that were missed, in one line of JSON."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

Figures = dict[str, list[float]]
"""The figures of every run, by name; for two sides, the ratio of each pair."""


@dataclass(frozen=True, slots=True)
class Goal:
    """For a figure's median."""

    least: float = 0.0
    most: float = float("inf")


def rows_of(parser: argparse.ArgumentParser, given: str, known: Collection[str]) -> list[str]:
    """The rows that were named, with commas between them; all, where none is. Ends the program where one is unknown."""
    names = [name for name in given.split(",") if name] or list(known)
    if unknown := set(names) - set(known):
        parser.error(f"there is no row {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    return names


def say(row: str, **found: Any) -> None:
    """What a run gave, as it comes."""
    text = json.dumps(found, default=str, separators=(",", ":"))
    print(f"{time.strftime('%H:%M:%S')} {row} {text}", flush=True)


def conclude(figures: Figures, goals: Mapping[str, Goal], pairs: int) -> int:
    """Print the last line; the program's exit code, 1 where a goal was missed or not measured."""
    middles = {name: statistics.median(values) for name, values in figures.items()}
    missed = [name for name, goal in goals.items() if name in middles and not goal.least <= middles[name] <= goal.most]
    left_out = sorted(goals.keys() - figures.keys())
    line = {name: [round(x, 3) for x in (middles[name], min(v), max(v))] for name, v in figures.items()}
    print(json.dumps({**line, "pairs": pairs, "missed": missed, "left_out": left_out}))
    return 1 if missed or left_out else 0
