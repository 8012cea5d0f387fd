"""Which of the connector's options are shown at work by a test: those that a test is marked with, of all there are."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Final

import pytest

from pyspark_ottla.options import READ_OPTIONS, WRITE_OPTIONS

_ROOT: Final = Path(__file__).parents[3]
_TESTS: Final = ("tests/spark", "tests/unit/spark")
MARK: Final = "spark_option"


class _Collected:
    """A pytest plugin that remembers the marks of what was collected."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        self.names.update(name for item in items for mark in item.iter_markers(MARK) for name in mark.args)


def all_options() -> set[str]:
    """The clients' own settings count as one."""
    return {*READ_OPTIONS, *WRITE_OPTIONS, "kafka.*"}


def shown_options() -> set[str]:
    """What tests are marked with. Raises RuntimeError where they can't be collected, or a mark names no option."""
    plugin = _Collected()
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(["--collect-only", "-q", *(str(_ROOT / name) for name in _TESTS)], plugins=[plugin])
    if code != 0:
        raise RuntimeError(f"the tests of the connector can't be collected:\n{output.getvalue()}")
    if unknown := plugin.names - all_options():
        raise RuntimeError(f"tests are marked with {', '.join(sorted(unknown))}, which is no option")
    return plugin.names
