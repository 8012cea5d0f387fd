"""`make house` finds each kind of disorder: the sources in every test are out of order in one way alone."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from tools import house
from tools.house import Module, Rule, Signal

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


def test_the_longest_function_and_the_largest_class_come_first(root: Path) -> None:
    found = [module(root, "def short() -> None: ..."), module(root, LONG, "sdk/ottla/o.py"), module(root, LARGE)]
    function = house.longest("f", found, ast.FunctionDef)
    assert function.value == 61
    assert function.worst == [(61, "sdk/ottla/o.py:long"), (1, "sdk/ottla/m.py:short")]
    assert house.longest("c", found, ast.ClassDef).worst == [(351, "sdk/ottla/m.py:Large")]


def test_a_signal_shows_several_of_the_worst_places() -> None:
    signal = house.highest("s", [(1, "a"), (9, "b"), (3, "c"), (3, "d"), (2, "e"), (4, "f")], "t")
    assert signal.worst == [(9, "b"), (4, "f"), (3, "c"), (3, "d"), (2, "e")]


def test_what_imports_io_counts_with_all_of_its_lines(root: Path) -> None:
    pure, impure = "import json\n\n\n", "from time import monotonic\n"
    assert house.without_io([module(root, pure), module(root, impure, "sdk/ottla/n.py")]).value == 0.75


def test_what_is_public_and_has_no_docstring_is_counted(root: Path) -> None:
    text = '"""M."""\nclass C:\n  """C."""\n  def f(self): ...\n  def _g(self): ...\n  @x.setter\n  def y(self): ...\n'
    figure = house.docstrings([module(root, text)])
    assert (figure.value, figure.worst) == (0.667, [(1, "sdk/ottla/m.py")])


def test_folders_of_many_files_are_named_and_handlers_are_left_out(root: Path) -> None:
    found = [module(root, "", f"cli/ottla_cli/m{n}.py") for n in range(26)]
    found += [module(root, "", f"services/broker/ottla_broker/kafka/handlers/m{n}.py") for n in range(40)]
    assert house.folders(found).worst == [(26, "cli/ottla_cli")]


def test_comments_docstrings_and_empty_lines_are_no_code(root: Path) -> None:
    text = '"""M."""\n\nimport json  # why\n\n# alone\nn = (\n    1,\n)\n"""Of n."""\n'
    assert house.code_lines(module(root, text)) == 4


def test_cycles_are_found_and_what_lies_between_two_of_them() -> None:
    cycle = {"a": {"b"}, "b": {"a", "c"}, "c": set(), "d": {"a"}}
    assert house.in_cycles(cycle) == {"a", "b"}
    assert house.in_cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()


def test_functions_without_types_are_named(root: Path) -> None:
    text = """
class C:
    def __init__(self, n: int): ...
    def method(self) -> None: ...
    def open(self, *names) -> None: ...

def typed(n: int, *, m: int = 0, **rest: str) -> None: ...
async def argument(n) -> None: ...
def result(n: int): ...
"""
    broken = house.untyped([module(root, text)]).broken_by
    assert sorted(broken) == ["sdk/ottla/m.py:argument", "sdk/ottla/m.py:open", "sdk/ottla/m.py:result"]


def test_attributes_that_another_file_assigns_are_named(root: Path) -> None:
    mixin = """
class Seeking:
    _positions: dict[str, int]
    assignor: ClassVar[str]
    def seek(self) -> None: self._positions.clear()

@dataclass(frozen=True)
class Value:
    field: int
"""
    facade = """
class Consumer(Seeking):
    _late: int
    def __init__(self, other: Peer) -> None:
        self._positions = {}
        self._late = 0
        other._state = other.public = 1
        other.__cause__ = None
        library._version = 2
"""
    peer = "class Peer:\n    def __init__(self) -> None:\n        self._state = self.public = 0\n"
    found = [module(root, text, f"sdk/ottla/{name}.py") for name, text in [("m", mixin), ("f", facade), ("p", peer)]]
    assert house.assigned_elsewhere(found).broken_by == [
        "sdk/ottla/m.py:Seeking._positions",
        "sdk/ottla/f.py: _state of another file's class",
    ]


def test_broken_contracts_are_named() -> None:
    told = "inside core KEPT\nmachines never reach IO BROKEN\ninside the SDK BROKEN (1 warning)\n\nContracts: 1 kept.\n"
    assert house.broken_contracts(1, f"{told}-   a.machines -> time (l.8)\n") == [
        "machines never reach IO",
        "inside the SDK",
        "a.machines -> time (l.8)",
    ]


def test_a_linter_that_fails_without_naming_a_contract_breaks_the_rule() -> None:
    assert house.broken_contracts(1, "Could not find package.\n") == ["Could not find package."]
    assert house.broken_contracts(0, "Contracts: 1 kept, 0 broken.\n") == []


def test_a_broken_rule_fails_the_run_and_a_signal_never_does(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signal = Signal("size", 9000, "t", [(9000, "m:f")])
    kept, broken = Rule("kept", [], "t"), Rule("no cycle", ["a", "b"], "t")
    assert house.main(lambda _: [kept], lambda _: [signal]) == 0
    assert house.main(lambda _: [kept, broken], lambda _: [signal]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in lines[-3:-1]] == ["a", "b"]
    assert json.loads(lines[-1]) == {"signals": {"size": 9000}, "broken": ["no cycle"]}
