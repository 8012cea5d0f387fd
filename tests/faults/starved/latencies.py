"""How long commits and sends waited for their answers, before, while and after the cores were shared."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from statistics import median
from typing import Final

from tests.faults.gaps import SECOND_NS, percentile
from tests.faults.history import Operation

WINDOW_S: Final = 5.0
"""The p99 of a phase is the median of those of its windows: another tenant's burst is not what is measured."""

Phases = Mapping[str, tuple[int, int]]
"""From and until, in nanoseconds of the monotonic clock, by name."""


class Latencies:
    """Feed it every operation, those of one process in their order."""

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], int] = {}
        self._sent: dict[tuple[str, int], tuple[list[int], list[int]]] = {}  # (writer, partition): numbers, instants
        self._waits: dict[str, list[tuple[int, float]]] = {"commit": [], "send": []}  # (asked, seconds)

    def on_operation(self, operation: Operation) -> None:
        match operation["f"], operation["type"]:
            case "commit", "invoke":
                self._asked[operation["process"], operation["id"]] = operation["mono_ns"]
            case "commit", "ok":
                asked = self._asked.pop((operation["process"], operation["id"]))
                self._add("commit", asked, operation["mono_ns"])
            case "send", "invoke":
                numbers, instants = self._sent.setdefault((operation["process"], operation["partition"]), ([], []))
                numbers.append(operation["first"])
                instants.append(operation["mono_ns"])
            case "send", "ok":
                numbers, instants = self._sent[operation["process"], operation["partition"]]
                asked = instants[bisect_right(numbers, operation["first"]) - 1]
                self._add("send", asked, operation["mono_ns"])

    def p99_ms(self, f: str, phases: Phases) -> dict[str, float]:
        """By phase, of what was asked in it."""
        return {name: round(self._p99_ms(f, *span), 1) for name, span in phases.items()}

    def _p99_ms(self, f: str, from_ns: int, until_ns: int) -> float:
        windows: dict[int, list[float]] = {}
        for asked, seconds in self._waits[f]:
            if from_ns <= asked < until_ns:
                windows.setdefault(int((asked - from_ns) / SECOND_NS / WINDOW_S), []).append(seconds)
        return median(percentile(each, 0.99) for each in windows.values()) * 1000 if windows else float("nan")

    def _add(self, f: str, asked: int, answered: int) -> None:
        self._waits[f].append((asked, (answered - asked) / SECOND_NS))
