"""Which tests tell which story, by their markers."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Collection

import pytest
from tests.regressions.injector import ROOT


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


def tests_by_story(names: Collection[str]) -> dict[str, list[str]]:
    """Return the tests of these stories, or of all if none is named, by their ids without parameters.

    RuntimeError where pytest can't collect them.
    """
    collected = _Collected()
    files = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if _may_tell(path.read_text(), names)]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:cacheprovider", "--rootdir", str(ROOT), *files],
            plugins=[collected],
        )
    if code != 0:
        raise RuntimeError(f"pytest could not collect the tests:\n{output.getvalue()[-3000:]}")
    return {name: tests for name, tests in collected.tests.items() if not names or name in names}


def _may_tell(text: str, names: Collection[str]) -> bool:
    return "mark.story(" in text and (not names or any(f'"{name}"' in text for name in names))
