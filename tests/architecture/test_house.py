"""`make house` finds what it is there to find: each figure is of sources that are out of order in that way alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from tools import house
from tools.house import Figure, Module

LONG = "\n".join(["def long() -> None:", *["    pass"] * 60])
LARGE = "\n".join(["class Large:", *["    n = 1"] * 350])


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(house, "ROOT", tmp_path)
    (tmp_path / ".importlinter").write_text("[importlinter:contract:pure]\nforbidden_modules =\n    socket\n    time\n")
    return tmp_path


def module(root: Path, text: str, name: str = "sdk/ottla/m.py") -> Module:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return Module(path, ast.parse(text))


def test_the_longest_function_and_the_largest_class_are_named(root: Path) -> None:
    found = [module(root, LONG), module(root, LARGE, "sdk/ottla/n.py")]
    function = house.longest("f", found, 60, ast.FunctionDef)
    assert (function.value, function.where, function.missed) == (61, "sdk/ottla/m.py:long", True)
    large = house.longest("c", found, 350, ast.ClassDef)
    assert (large.value, large.where, large.missed) == (351, "sdk/ottla/n.py:Large", True)


def test_what_imports_io_counts_with_all_of_its_lines(root: Path) -> None:
    pure, impure = "import json\n\n\n", "from time import monotonic\n"
    assert house.without_io([module(root, pure), module(root, impure, "sdk/ottla/n.py")]).value == 0.75
    assert house.without_io([module(root, "import socket.x as y\n")]).missed


def test_what_is_public_needs_a_docstring(root: Path) -> None:
    text = '"""M."""\nclass C:\n  """C."""\n  def f(self): ...\n  def _g(self): ...\n  @x.setter\n  def y(self): ...\n'
    figure = house.docstrings([module(root, text)])
    assert (figure.value, figure.missed) == (0.667, True)


def test_folders_of_many_files_are_named(root: Path) -> None:
    found = [module(root, "", f"sdk/ottla/cli/m{n}.py") for n in range(26)]
    found += [module(root, "", f"services/broker/ottla_broker/kafka/handlers/m{n}.py") for n in range(40)]
    figure = house.folders(found)
    assert (figure.value, figure.where, figure.missed) == (26, "sdk/ottla/cli", True)


def test_comments_docstrings_and_empty_lines_are_no_code(root: Path) -> None:
    text = '"""M."""\n\nimport json  # why\n\n# alone\nn = (\n    1,\n)\n"""Of n."""\n'
    assert house.code_lines(module(root, text)) == 4


def test_cycles_are_found_and_what_lies_between_two_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    cycle = {"a": {"b"}, "b": {"a", "c"}, "c": set(), "d": {"a"}}
    assert house.in_cycles(cycle) == {"a", "b"}
    assert house.in_cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()


def test_a_figure_that_misses_its_goal_fails_the_run(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Figure("good", 0.6, 0.57, "t", at_least=True), Figure("bad", 61, 60, "t", "m:f")
    assert house.main(lambda _: [good]) == 0
    assert house.main(lambda _: [good, bad]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert "missed" in lines[-2]
    assert json.loads(lines[-1]) == {"figures": {"good": 0.6, "bad": 61}, "missed": ["bad"]}
