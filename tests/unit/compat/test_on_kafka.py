"""The SDK's own tests with Apache Kafka: which tests a kind of cluster runs, and what is counted."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.compat.on_kafka.cells import Cells
from tests.compat.on_kafka.kind import KINDS
from tests.compat.on_kafka.suite import BEFORE_4, FILES, ONLY_OTTLA, SHORT, WITHOUT_LOGIN, why_not

SYSTEM = Path(__file__).parents[2] / "system"
PLAIN, SECURED, OLD = KINDS["4.4"], KINDS["4.4+SASL_SSL"], KINDS["3.9"]


def test_the_tests_that_the_tables_name_exist() -> None:
    known = set()
    for file in FILES:
        functions = ast.parse((SYSTEM / file).read_text()).body
        known |= {f"{file}::{f.name}" for f in functions if isinstance(f, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert {*SHORT, *ONLY_OTTLA, *BEFORE_4, *WITHOUT_LOGIN} - known == set()


def test_a_test_is_left_out_for_a_reason_that_holds_for_the_kind() -> None:
    assert why_not("test_app.py::test_x", SECURED) is None
    assert all(why_not(test, kind) == why for test, why in ONLY_OTTLA.items() for kind in (PLAIN, OLD))
    assert [[why_not("f::t", kind, version) is None for version in (1, 2)] for kind in (PLAIN, OLD)] == [
        [False, True],
        [True, False],
    ]
    for test, why in BEFORE_4.items():
        assert (why_not(test, PLAIN), why_not(test, OLD)) == (None, why)
    for test, why in WITHOUT_LOGIN.items():
        assert (why_not(test, PLAIN), why_not(test, SECURED)) == (None, why)


def item(node: str, **params: Any) -> Any:
    return SimpleNamespace(nodeid=node, callspec=SimpleNamespace(params=params), add_marker=lambda mark: None)


def report(node: str, when: str, outcome: str, why: str = "") -> Any:
    return SimpleNamespace(
        nodeid=node, when=when, failed=outcome == "failed", skipped=outcome == "skipped", longrepr=("f", 1, why)
    )


def test_a_cell_is_red_unless_all_of_it_has_passed(tmp_path: Path) -> None:
    cells = Cells(PLAIN, tmp_path / "report")
    good, bad, late, left_out, never = (f"tests/system/test_app.py::test_{name}[x/y]" for name in "abcde")
    cells.pytest_collection_modifyitems([item(node) for node in (good, bad, late, left_out, never)])
    for arrived in (
        report(good, "setup", "passed"),
        report(good, "call", "passed"),
        report(bad, "setup", "failed"),
        report(late, "call", "passed"),
        report(late, "teardown", "failed"),
        report(left_out, "call", "skipped", "Skipped: needs ottla"),
    ):
        cells.pytest_runtest_logreport(arrived)
    cells.pytest_sessionfinish()
    assert json.loads((tmp_path / "report").read_text()) == {
        "cells": 4,
        "red": [bad, late, never],
        "skipped": [{"test": "test_app.py::test_d[x/y]", "why": "needs ottla"}],
    }


@pytest.mark.parametrize(
    ("name", "listener", "release"), [("3.9", "PLAINTEXT", "3.9"), ("4.4+SASL_SSL", "SASL_SSL", "4.4")]
)
def test_a_kind_is_named_by_its_version_and_its_listener(name: str, listener: str, release: str) -> None:
    assert str(KINDS[name]) == name
    assert KINDS[name].listener == listener
    assert KINDS[name].release.startswith(release)
