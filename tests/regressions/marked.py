"""Which tests tell which story, by their markers."""

from __future__ import annotations

import contextlib
import io

import pytest
from tests.regressions.tree import ROOT


class _Collected:
    """A pytest plugin that remembers the stories of what was collected."""

    def __init__(self) -> None:
        self.tests: dict[str, list[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            node = item.nodeid.partition("[")[0]
            for mark in item.iter_markers("story"):
                for name in mark.args:
                    told = self.tests.setdefault(name, [])
                    if node not in told:
                        told.append(node)


def tests_by_story() -> dict[str, list[str]]:
    """The tests of each story, by their ids without parameters. RuntimeError where pytest can't collect them."""
    collected = _Collected()
    files = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.story(" in path.read_text()]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *files],
            plugins=[collected],
        )
    if code != 0:
        raise RuntimeError(f"pytest could not collect the tests:\n{output.getvalue()[-3000:]}")
    return collected.tests
