"""The product speaks Kafka's words: what docs/glossary.md lists as not used stays out of names and of prose."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from sources import ROOT, listed

PRODUCT: Final = ("core", "sdk", "services", "spark", "stack")
_, _, TABLE = (ROOT / "docs/glossary.md").read_text().partition("## Words that are not used")
WORDS: Final = frozenset(
    word for row in re.findall(r"^\| (`.*?) \|", TABLE, re.MULTILINE) for word in re.findall(r"`(\w+)`", row)
)
PHRASES: Final = re.compile(
    "|".join(rf"\b{phrase}\b" for phrase in re.findall(r'"([^"]+)"', TABLE.partition("Phrases:")[2])), re.IGNORECASE
)
HISTORY: Final = (
    "docs/adr/",
    "docs/design/renamed.md",
    "docs/glossary.md",
    "docs/rules.md",
    "docs/features.md",
    "docs/regressions.md",
)
"""Of their time, generated from the names of tests, or the list itself."""

EXEMPT: Final = {("sdk/ottla/admin/group_info.py", "wanted"): "a public attribute of OffsetReset"}
"""(file, name): the reason. At most 20, and never more than there are."""


def sources() -> list[str]:
    return [name for name in listed(*(f"{folder}/**/*.py" for folder in PRODUCT)) if "_pb2" not in name]


def names(tree: ast.Module) -> Iterator[str]:
    """Every name that this module gives: of functions, classes, arguments, variables and attributes."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def parts(name: str) -> set[str]:
    return {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_are_made_of_kafkas_words() -> None:
    assert len(WORDS) > 30
    found = {
        (path, name)
        for path in sources()
        for name in (Path(path).stem, *names(ast.parse((ROOT / path).read_text())))
        if parts(name) & WORDS
    }
    assert sorted(found - EXEMPT.keys()) == []
    assert sorted(EXEMPT.keys() - found) == [], "an exemption that nothing needs any more goes"
    assert len(EXEMPT) <= 20


def test_prose_is_plain() -> None:
    pages = [name for name in listed("docs/*.md", "README.md") if not name.startswith(HISTORY)]
    product = sources()
    assert (len(pages) > 20, len(product) > 400) == (True, True)
    found = [
        f"{path}:{number}: {phrase}"
        for path in (*product, *pages)
        for number, line in enumerate((ROOT / path).read_text().splitlines(), 1)
        for phrase in PHRASES.findall(line)
    ]
    assert found == []


@pytest.mark.parametrize(("name", "split"), [("HTTPAnswer", {"http", "answer"}), ("_has_been_told", {"told"})])
def test_names_are_split_into_words(name: str, split: set[str]) -> None:
    assert parts(name) >= split
