"""Which of the connector's options are shown at work by a test: those that a test is marked with, of all there are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from pyspark_ottla.options import READ_OPTIONS, WRITE_OPTIONS

_ROOT: Final = Path(__file__).parents[3]
_TESTS: Final = ("tests/spark", "tests/unit/spark")
MARK: Final = "spark_option"
_LIMIT_S: Final = 120.0


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
    """What tests are marked with. Raises RuntimeError where they can't be collected, or a mark names no option.

    In a process of its own: pytest wants to be there before what it rewrites.
    """
    command = [sys.executable, "-m", "tests.faults.spark.options"]
    told = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    if told.returncode != 0:
        raise RuntimeError(f"the tests of the connector can't be collected:\n{told.stdout}{told.stderr}")
    names = set(json.loads(told.stdout.splitlines()[-1]))
    if unknown := names - all_options():
        raise RuntimeError(f"tests are marked with {', '.join(sorted(unknown))}, which is no option")
    return names


def main() -> int:
    """Print the marks as JSON."""
    plugin = _Collected()
    code = pytest.main(["--collect-only", "-q", *(str(_ROOT / name) for name in _TESTS)], plugins=[plugin])
    print(json.dumps(sorted(plugin.names)))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
