"""Counts the cells of a run: a plugin of pytest that remembers what became of every test that is one."""

from __future__ import annotations

from collections import Counter

import pytest
from tests.compat.cells import CAPABILITIES, PROGRAMS

_NOTHING = "–"


class Matrix:
    """A cell is green where its test has passed, with set-up and all; skipped where it was; else red."""

    def __init__(self) -> None:
        self._cells: dict[str, tuple[str, str]] = {}
        self._ended: dict[str, str] = {}
        self.differs: list[str] = []
        """What a client experienced in another way than with Apache Kafka."""

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if (mark := item.get_closest_marker("cell")) is not None:
                capability, client = mark.args
                self._cells[item.nodeid] = (capability, client)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep one outcome of set-up, test and teardown: the first that did not pass, or else the test's own."""
        if report.when == "call":
            self.differs += [str(value) for name, value in report.user_properties if name == "differs"]
        counts = report.when == "call" or not report.passed
        if counts and self._ended.get(report.nodeid, "passed") == "passed":
            self._ended[report.nodeid] = report.outcome

    def counts(self) -> dict[str, int]:
        """`cells`, and of them `green`, `red` and `skipped`. A cell that never ran is red."""
        colours = Counter(self._colour(node) for node in self._cells)
        return {"cells": len(self._cells), **{colour: colours[colour] for colour in ("green", "red", "skipped")}}

    def table(self) -> str:
        """A row for each capability, a column for each client: green cells, of how many where that is not all."""
        clients = list(dict.fromkeys(client for _, client in self._cells.values()))
        capabilities = {capability for capability, _ in self._cells.values()}
        known = (*CAPABILITIES, *(program.word for program in PROGRAMS))
        listed = [capability for capability in known if capability in capabilities]
        rows = [["", *clients], *([c, *(self._words(c, client) for client in clients)] for c in listed)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join("  ".join(w.ljust(n) for w, n in zip(row, widths, strict=True)).rstrip() for row in rows)

    def _words(self, capability: str, client: str) -> str:
        of_it = [node for node, cell in self._cells.items() if cell == (capability, client)]
        green = sum(self._colour(node) == "green" for node in of_it)
        if not of_it:
            return _NOTHING
        return str(green) if green == len(of_it) else f"{green} of {len(of_it)}"

    def _colour(self, node: str) -> str:
        return {"passed": "green", "skipped": "skipped"}.get(self._ended.get(node, ""), "red")
