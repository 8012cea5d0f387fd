"""Fill docs/features.md and docs/rules.md with the tests that show each row, from the markers on the tests.

Fails on a broken link: a marker on something that pytest does not collect, or a number that no row has; and where a row
that no test shows is not in the page's list of such rows, or one that is shown is. The last line is one JSON object.
`--check` writes nothing and fails where the pages are stale.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"feature": ROOT / "docs/features.md", "rule": ROOT / "docs/rules.md"}
ROW = re.compile(r"^\| (\d+) \| .* \| ([^|]*) \|$")
OPEN = re.compile(r"^- ([\d–, ]+): ")
"""A line of the list of rows that no test shows, with the reason: single numbers, and from-to with an en dash."""

Place = tuple[str, str, int]  # kind, test file and function, number
Tests = dict[tuple[str, int], list[str]]


class Collected:
    """A pytest plugin that remembers the markers of what was collected."""

    def __init__(self) -> None:
        self.places: set[Place] = set()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            name = f"{item.path.relative_to(ROOT)}::{getattr(item, 'originalname', item.name)}"
            for kind in PAGES:
                self.places.update((kind, name, n) for mark in item.iter_markers(kind) for n in mark.args)


def collect() -> set[Place]:
    plugin = Collected()
    os.environ["COMPAT_CLIENTS"] = "all"  # some rows are shown by what `make compat` alone runs
    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main(["--collect-only", "-q", str(ROOT / "tests")], plugins=[plugin])
    if code != 0:
        raise SystemExit(f"pytest could not collect the tests:\n{output.getvalue()}")
    return plugin.places


def written() -> set[Place]:
    """Every marker that stands in the source of a test, collected or not."""
    places: set[Place] = set()
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                name = f"{path.relative_to(ROOT)}::{node.name}"
                places.update((k, name, n) for k, numbers in map(_marker, node.decorator_list) for n in numbers)
    return places


def _marker(node: ast.expr) -> tuple[str, list[int]]:
    match node:
        case ast.Call(func=ast.Attribute(attr="feature" | "rule" as kind), args=numbers):
            return kind, [n.value for n in numbers if isinstance(n, ast.Constant) and isinstance(n.value, int)]
        case _:
            return "", []


def fill(page: Path, kind: str, tests: Tests) -> tuple[str, set[int]]:
    """Return the page with a new last column, and the numbers of its rows.

    Of a row's tests, the column names the one that shows the fewest other rows, and counts the others.
    """
    lines, numbers = [], set()
    rows_of = Counter(test for of_row in tests.values() for test in of_row)
    for line in page.read_text().splitlines():
        if row := ROW.match(line):
            number = int(row[1])
            numbers.add(number)
            shown = (
                " and ".join(_named(sorted(tests.get((kind, number), []), key=lambda t: (rows_of[t], t)))) or "not yet"
            )
            line = f"{line[: row.start(2)]}{shown} |"
        lines.append(line)
    return "\n".join(lines) + "\n", numbers


def _named(tests: list[str]) -> list[str]:
    return [*(f"`{test}`" for test in tests[:1]), *([f"{len(tests) - 1} more"] if len(tests) > 1 else [])]


def listed_as_open(page: Path) -> set[int]:
    """The rows that the page gives a reason for, why no test shows them."""
    spans = [
        span for line in page.read_text().splitlines() if (found := OPEN.match(line)) for span in found[1].split(",")
    ]
    ends = [[int(end) for end in span.split("–")] for span in spans]
    return {number for first, *last in ends for number in range(first, (last or [first])[0] + 1)}


def main() -> int:
    collected, in_source = collect(), written()
    tests: Tests = defaultdict(list)
    for kind, name, number in collected:
        tests[kind, number].append(name)
    broken = [f"{name} is marked {kind}({n}) but is not collected" for kind, name, n in in_source - collected]
    stale, counts = [], {}
    for kind, page in PAGES.items():
        text, numbers = fill(page, kind, tests)
        broken += [
            f"{t[0]} is marked {kind}({n}), which is no row"
            for (k, n), t in tests.items()
            if k == kind and n not in numbers
        ]
        shown = {n for k, n in tests if k == kind} & numbers
        open_rows = listed_as_open(page)
        broken += [
            f"{kind} {n} has no test, and {page.name} does not say why" for n in sorted(numbers - shown - open_rows)
        ]
        broken += [f"{kind} {n} has a test, and {page.name} says that it has none" for n in sorted(shown & open_rows)]
        counts[kind] = (len(numbers), len(shown))
        if page.read_text() != text:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(text)
    for line in broken:
        print(line)
    if "--check" in sys.argv and stale:
        print(f"stale: {', '.join(stale)}; run `make coverage-table`")
    (features, features_shown), (rules, rules_shown) = counts["feature"], counts["rule"]
    print(
        json.dumps(
            {
                "features": features,
                "shown": features_shown,
                "rules": rules,
                "rules_shown": rules_shown,
                "broken_links": len(broken),
            }
        )
    )
    return 1 if broken or ("--check" in sys.argv and stale) else 0


if __name__ == "__main__":
    sys.exit(main())
