"""Counts the cells of a run with one kind of cluster: a plugin of pytest. A cell is one test that is not skipped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
from tests.compat.on_kafka.kind import Kind
from tests.compat.on_kafka.suite import why_not

_SKIPPED: Final = "Skipped: "


class Cells:
    """`report` is the file that gets the outcome, as JSON."""

    def __init__(self, kind: Kind, report: Path) -> None:
        self._kind: Final = kind
        self._report: Final = report
        self._ended: dict[str, str] = {}
        self._why: dict[str, str] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            version = item.callspec.params.get("transaction_version") if hasattr(item, "callspec") else None
            if (why := why_not(_function(item.nodeid), self._kind, version)) is not None:
                item.add_marker(pytest.mark.skip(reason=why))
        self._ended = dict.fromkeys((item.nodeid for item in items), "never ran")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep one outcome of set-up, test and teardown: the worst."""
        if report.failed:
            self._ended[report.nodeid] = "failed"
        elif report.skipped and self._ended[report.nodeid] != "failed":
            self._ended[report.nodeid] = "skipped"
            reason: Any = report.longrepr
            self._why[report.nodeid] = str(reason[2]).removeprefix(_SKIPPED)
        elif report.when == "call" and self._ended[report.nodeid] == "never ran":
            self._ended[report.nodeid] = "passed"

    def pytest_sessionfinish(self) -> None:
        skipped = {node for node, ended in self._ended.items() if ended == "skipped"}
        outcome = {
            "cells": len(self._ended) - len(skipped),
            "red": [node for node, ended in self._ended.items() if ended not in ("passed", "skipped")],
            "skipped": [{"test": _name(node), "why": self._why[node]} for node in self._ended if node in skipped],
        }
        self._report.write_text(json.dumps(outcome))


def _name(node: str) -> str:
    """Return `file::function[parameters]`."""
    path, bracket, parameters = node.partition("[")  # parameters may have slashes, too
    return path.rpartition("/")[2] + bracket + parameters


def _function(node: str) -> str:
    return _name(node.partition("[")[0])
