"""What docs and sources name is there: pages, links between them, and the files that the reading order goes through."""

from __future__ import annotations

import ast
import functools
import re
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest
from loadtest.programs import Program
from sources import ROOT, listed

from ottla_core.configs.config_table import BROKER_CONFIGS, TOPIC_CONFIGS

PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md\b")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
SOURCE = re.compile(
    r"`((?:cli|core|examples|sdk|services|spark|stack|loadtest|tests|tools|proto)/[\w/.-]+\.(?:py|proto|txt))(?:::([\w.]+))?`"
)
COMMAND = re.compile(r"-m\"?,? \"?((?:examples|loadtest|tests|tools|peers|ottla\w*)(?:\.\w+)*)\b(?!\.)")
PRODUCT = ("cli", "core", "sdk", "services", "spark", "stack")
MODULES = [ROOT / name for name in listed(*(f"{folder}/**/*.py" for folder in PRODUCT))]
HISTORY = ("CHANGELOG.md", "docs/adr/")
"""They tell of what was; its names are those of its time."""


def pages_and_sources(*patterns: str) -> list[str]:
    return [name for name in listed(*patterns) if not name.startswith(HISTORY)]


def test_every_page_that_is_named_anywhere_exists() -> None:
    named = {
        (name, page)
        for name in pages_and_sources("*.py", "*.md", "*.toml", "*.yml", "*.proto", "Makefile", ".importlinter")
        for page in PAGE.findall((ROOT / name).read_text())
    }
    assert len(named) > 100
    assert [f"{name}: {page}" for name, page in sorted(named) if not (ROOT / page).is_file()] == []


def test_every_module_that_is_run_by_its_name_exists() -> None:
    files = ("*.py", "*.md", "*.yml", "Makefile", "*Dockerfile")
    named = {
        (name, module) for name in pages_and_sources(*files) for module in COMMAND.findall((ROOT / name).read_text())
    }
    named |= {("loadtest/programs.py", f"loadtest.{program}") for program in get_args(Program)}
    assert len(named) > 50
    assert [f"{name}: {module}" for name, module in sorted(named) if not can_be_run(module)] == []


def can_be_run(module: str) -> bool:
    found = find_spec(module)
    return found is not None and bool(not found.submodule_search_locations or find_spec(f"{module}.__main__"))


@pytest.mark.parametrize("name", pages_and_sources("*.md"))
def test_links_and_named_sources_of_a_page_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    links = [link for link in LINK.findall(text) if "://" not in link]
    missing = [link for link in links if not (ROOT / name).parent.joinpath(link).exists()]
    missing += [f"{source}::{symbol}" for source, symbol in SOURCE.findall(text) if not is_there(ROOT / source, symbol)]
    assert missing == []


@functools.cache
def parsed(source: Path) -> ast.Module:
    return ast.parse(source.read_text())


def is_there(source: Path, symbol: str) -> bool:
    """Whether the file is, and in it the function, class or variable; `Class.name` is a method or an attribute.

    That tests are where docs/features.md and docs/rules.md name them is seen to where those pages are made.
    """
    if not source.is_file() or source.name.startswith("test_"):
        return source.is_file()
    scope: ast.AST | None = parsed(source) if symbol else None
    for name in filter(None, symbol.split(".")):
        scope = next((node for node in ast.walk(scope) if name in names(node)), None) if scope else None
        if scope is None:
            return False
    return True


def names(node: ast.AST) -> set[str]:
    """What this statement gives a name to."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {node.name}
        case ast.Assign(targets=targets):
            return {getattr(target, "id", getattr(target, "attr", "")) for target in targets}
        case ast.AnnAssign(target=ast.Name(id=name) | ast.Attribute(attr=name)):
            return {name}
        case _:
            return set()


def test_what_holds_an_invariant_exists() -> None:
    """A dotted name there is a module, by the end of its path, with or without a symbol; or an attribute of a class."""
    rows = [line for line in (ROOT / "docs/invariants.md").read_text().splitlines() if re.match(r"\| I\d+ ", line)]
    named = {name for row in rows for name in re.findall(r"`(\w+(?:\.\w+)+)(?:\(\))?`", row.rsplit(" | ", 1)[1])}
    named -= BROKER_CONFIGS.keys() | TOPIC_CONFIGS.keys()
    assert len(named) > 30
    assert sorted(name for name in named if not is_defined(name)) == []
    assert not is_defined("machines.nowhere")
    assert not is_defined("consumer.reader.RecordReader._nowhere")


def is_defined(dotted: str) -> bool:
    parts = dotted.split(".")
    for count in range(len(parts), 0, -1):
        path, symbol = "/".join(parts[:count]), ".".join(parts[count:])
        if any(
            is_there(module, symbol)
            for module in MODULES
            if f"/{module.relative_to(ROOT).with_suffix('')}".endswith(f"/{path}")
        ):
            return True
    return any(is_there(module, dotted) for module in MODULES if f"class {parts[0]}" in module.read_text())


def test_each_rule_of_the_controller_is_defined_and_its_sources_exist() -> None:
    page = (ROOT / "docs/design/controller.md").read_text()
    kept_in = dict(re.findall(r"^\| (C\d+) \| .+ \| (.+) \|$", page, re.MULTILINE))
    cited = {
        (name, rule)
        for name in pages_and_sources("*.py", "*.md", "*.proto", "*.txt")
        for rule in re.findall(r"\bC\d{1,2}\b", (ROOT / name).read_text())
    }
    assert len(cited) > 60
    assert [f"{name}: {rule}" for name, rule in sorted(cited) if rule not in kept_in] == []
    for rule, places in kept_in.items():
        sources = [SOURCE.fullmatch(place) for place in re.findall(r"`[^`]+`", places)]
        assert sources, rule
        assert all(source and is_there(ROOT / source[1], source[2] or "") for source in sources), rule


def test_where_is_names_symbols() -> None:
    page = (ROOT / "docs/reading-the-code.md").read_text()
    _, _, table = page.partition("## Where is")
    assert sum(bool(symbol) for _, symbol in SOURCE.findall(table)) >= 8
    assert not is_there(ROOT / "tools/house.py", "Rule.nowhere")
    assert not is_there(ROOT / "tools/nowhere.py", "")


def test_each_row_of_what_transactions_guarantee_names_tests_that_are_there() -> None:
    _, _, section = (ROOT / "docs/guarantees.md").read_text().partition("## Transactions\n")
    rows = [line.split(" | ") for line in section.partition("\n## ")[0].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    for _, *promises, shown in rows:
        assert any(promises), shown
        named = SOURCE.findall(shown)
        assert named, promises
        found = {
            name
            for source, _ in named
            for node in ast.walk(ast.parse((ROOT / source).read_text()))
            for name in names(node)
        }
        assert {symbol for _, symbol in named} <= found
