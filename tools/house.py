"""`python tools/house.py`: check the product's rules of structure, and print signals of its size and complexity.

Five rules fail the run: imports respect the layers and machines reach no IO (both are contracts of `.importlinter`), no
module is in an import cycle, every function has types, and a class's attributes are assigned in its own file. Sizes,
counts and complexity are signals for people to judge, printed with the worst first; none of them fails the run.
Generated files are left out. The last line is one JSON object.
"""

from __future__ import annotations

import ast
import configparser
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import grimp

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGES: Final = {
    "ottla_core": "core",
    "ottla_broker": "services/broker",
    "ottla_controller": "services/controller",
    "ottla_group_coordinator": "services/group-coordinator",
    "ottla_txn_coordinator": "services/txn-coordinator",
    "ottla_mirror": "services/mirror",
    "ottla": "sdk",
    "ottla_cli": "cli",
    "ottla_stack": "stack",
    "pyspark_ottla": "spark",
}
SHOWN: Final = 5
"""How many of the worst places a signal prints."""

_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of structure with every place that breaks it. It fails the run unless there is none."""

    name: str
    broken_by: Sequence[str]
    tool: str


@dataclass(frozen=True, slots=True)
class Signal:
    """A measured figure and the places that it is about, worst first. It never fails the run."""

    name: str
    value: float
    tool: str
    worst: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True, slots=True)
class Module:
    """A source file of the product."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def nodes(self, *kinds: type[Node]) -> Iterator[Node]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))

    def lines(self) -> int:
        return len(self.path.read_text().splitlines())


def modules() -> list[Module]:
    paths = (path for folder in PACKAGES.values() for path in sorted((ROOT / folder).rglob("*.py")))
    return [Module(path, ast.parse(path.read_text())) for path in paths if not _is_generated(path)]


# ---- rules ----------------------------------------------------------------------------------------------------------
def _is_generated(path: Path) -> bool:
    return "_pb2" in path.name or path.parts[-2:] in (("kafka", "messages.py"), ("kafka", "private_messages.py"))


def rules(found: list[Module]) -> list[Rule]:
    return [_contracts(), _cycles(), untyped(found), assigned_elsewhere(found)]


def _contracts() -> Rule:
    """Layers and purity, as `.importlinter` says them."""
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    wide = os.environ | {"COLUMNS": "500"}  # no name of a contract is broken in two
    ended = subprocess.run(command, cwd=ROOT, env=wide, capture_output=True, text=True, check=False, timeout=120)
    return Rule("layers and purity", broken_contracts(ended.returncode, ended.stdout), "import-linter")


def broken_contracts(code: int, told: str) -> list[str]:
    """Name the contracts that import-linter calls broken, and the imports that break them.

    A failure that names no contract is told with its last line.
    """
    broken = re.findall(r"^(.+) BROKEN(?: \(.*\))?$", told, re.MULTILINE)
    if code and not broken:
        return [(told.strip().splitlines() or ["import-linter failed and printed nothing"])[-1]]
    return [*broken, *dict.fromkeys(re.findall(r"^[- ] +(\S+ -> \S+ .*)$", told, re.MULTILINE))]


def _cycles() -> Rule:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)  # its cache confuses two versions of a file of one second
    found = in_cycles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    return Rule("no module is in an import cycle", sorted(found), "grimp")


def in_cycles(imports: Mapping[str, Set[str]]) -> Set[str]:
    """Take away, again and again, modules that import none of the rest or that none of the rest imports."""
    left = set(imports)
    while True:
        imported = {name for module in left for name in imports[module]}
        inner = {module for module in left & imported if imports[module] & left}
        if inner == left:
            return left
        left = inner


def untyped(found: list[Module]) -> Rule:
    """Find functions that lack the type of an argument or of what they return. mypy checks the rest."""
    places = [
        f"{module.name}:{node.name}"
        for module in found
        for node in module.nodes(ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, Function) and not _is_typed(node)
    ]
    return Rule("every function has types", places, "ast")


def _is_typed(function: Function) -> bool:
    """As mypy's strict mode asks: `__init__` may leave its return type out where an argument has a type."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    starred = [argument for argument in (arguments.vararg, arguments.kwarg) if argument is not None]
    own = named[1:] if named and named[0].arg in ("self", "cls", "mcs") else named
    typed = all(argument.annotation is not None for argument in [*own, *starred])
    return typed and (function.returns is not None or (function.name == "__init__" and bool(own or starred)))


def assigned_elsewhere(found: list[Module]) -> Rule:
    """Find attributes that another file assigns than the one of their class, as where a class was cut into mixins.

    These are attributes that a class declares and its file never assigns, and private ones of another file's class.
    Every other attribute that a class reads is its own or a base's: mypy checks that.
    """
    stored = {module.name: [node for node in module.nodes(ast.Attribute) if _is_stored(node)] for module in found}
    own = {name: {node.attr for node in nodes if _is_own(node)} for name, nodes in stored.items()}
    everywhere = set().union(*own.values())
    places: list[str] = []
    for module in found:
        here = {node.attr for node in stored[module.name]}
        for scope in module.nodes(ast.ClassDef):
            places += [f"{module.name}:{scope.name}.{name}" for name in _declared(scope) if name not in here]
        foreign = {name for name in here - own[module.name] if name.startswith("_") and not name.endswith("__")}
        places += [f"{module.name}: {name} of another file's class" for name in sorted(foreign & everywhere)]
    return Rule("a class's attributes are born at home", places, "ast")


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_own(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _declared(scope: ast.ClassDef) -> Iterator[str]:
    """The attributes that a class body annotates without a value, unless these are a dataclass's fields or the like."""
    told = [ast.unparse(each).partition("(")[0].partition("[")[0] for each in (*scope.decorator_list, *scope.bases)]
    if {each.rpartition(".")[2] for each in told} & {"dataclass", "NamedTuple", "Protocol", "TypedDict"}:
        return
    for node in scope.body:
        if not isinstance(node, ast.AnnAssign) or node.value is not None or not isinstance(node.target, ast.Name):
            continue
        # A class variable without a value is for subclasses to set.
        if not ast.unparse(node.annotation).startswith("ClassVar"):
            yield node.target.id


# ---- signals --------------------------------------------------------------------------------------------------------
def signals(found: list[Module]) -> list[Signal]:
    return [
        longest("lines of the longest function", found, ast.FunctionDef, ast.AsyncFunctionDef),
        longest("lines of the largest class", found, ast.ClassDef),
        highest("lines of the largest module", ((module.lines(), module.name) for module in found), "ast"),
        _complexity(),
        folders(found),
        without_io(found),
        docstrings(found),
        Signal("code lines", sum(map(code_lines, found)), "tokenize: no comments, no docstrings"),
    ]


def highest(name: str, measured: Iterable[tuple[float, str]], tool: str) -> Signal:
    worst = sorted(measured, key=lambda each: (-each[0], each[1]))[:SHOWN]
    return Signal(name, worst[0][0] if worst else 0, tool, worst)


def longest(name: str, found: list[Module], *kinds: type[ast.AST]) -> Signal:
    lengths = (
        (node.end_lineno - node.lineno + 1, f"{module.name}:{node.name}")
        for module in found
        for node in module.nodes(*kinds)
        if isinstance(node, Function | ast.ClassDef) and node.end_lineno is not None
    )
    return highest(name, lengths, "ast")


def _complexity() -> Signal:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--output-format", "concise"]
    command += ["--config", "lint.mccabe.max-complexity=8", *(str(ROOT / folder) for folder in PACKAGES.values())]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60).stdout
    found = re.findall(r"^(.+?):\d.*C901 `(\w+)` is too complex \((\d+) > 8\)", told, re.MULTILINE)
    return highest("McCabe complexity", ((int(n), f"{path}:{name}") for path, name, n in found), "ruff C901")


def folders(found: list[Module]) -> Signal:
    """Count the files of each folder, but for folders of one file an API, whose listing is the table of APIs."""
    sizes = Counter(module.path.parent for module in found if module.path.parent.name != "handlers")
    measured = ((size, str(folder.relative_to(ROOT))) for folder, size in sizes.items())
    return highest("files in a folder", measured, "ls")


def without_io(found: list[Module]) -> Signal:
    law = configparser.ConfigParser()
    law.read(ROOT / ".importlinter")
    forbidden = set(law["importlinter:contract:pure"]["forbidden_modules"].split())
    lines = {module.name: module.lines() for module in found}
    pure = sum(lines[module.name] for module in found if not forbidden & _imported(module))
    share = round(pure / sum(lines.values()), 3)
    return Signal("share of lines in modules without IO", share, "ast, .importlinter's list")


def _imported(module: Module) -> set[str]:
    """Return the top-level names of the packages that a module imports."""
    names: set[str] = set()
    for node in module.nodes(ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def docstrings(found: list[Module]) -> Signal:
    """Measure the share of public names with a docstring, and name the modules with the most that lack one."""
    public = {module.name: list(_public(module.tree)) for module in found}
    lacking = {name: sum(ast.get_docstring(node) is None for node in nodes) for name, nodes in public.items()}
    total = sum(map(len, public.values()))
    worst = highest("", ((n, name) for name, n in lacking.items() if n), "").worst
    return Signal("public docstrings", round(1 - sum(lacking.values()) / total, 3), f"ast, of {total:,}", worst)


def _public(scope: ast.Module | ast.ClassDef) -> Iterator[ast.Module | ast.ClassDef | Function]:
    """The module or class itself, and what is public in it. An overload has its docstring at the last of its kind."""
    yield scope
    for node in scope.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node)
        elif isinstance(node, Function) and not node.name.startswith("_") and not _is_repeated(node):
            yield node


def _is_repeated(node: Function) -> bool:
    """Whether the docstring is at another function of its name."""
    return any(ast.unparse(decorator).endswith(("overload", ".setter")) for decorator in node.decorator_list)


def code_lines(module: Module) -> int:
    """Count the lines with something on them that is neither comment nor docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.path.read_text()).readline):
        if token.type not in _NO_CODE and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in module.nodes(ast.Expr):  # docstrings, and those of attributes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main(
    judge: Callable[[list[Module]], list[Rule]] = rules, measure: Callable[[list[Module]], list[Signal]] = signals
) -> int:
    found = modules()
    judged, measured = judge(found), measure(found)
    for signal in measured:
        print(f"{signal.name:38} {signal.value:>9g}  {signal.tool}".rstrip())
        for value, where in signal.worst:
            print(f"{'':38} {value:>9g}  {where}")
    for rule in judged:
        print(f"{rule.name:38} {'BROKEN' if rule.broken_by else 'kept':>9}  {rule.tool}")
        for place in rule.broken_by:
            print(f"{'':48}  {place}")
    broken = [rule.name for rule in judged if rule.broken_by]
    print(json.dumps({"signals": {signal.name: signal.value for signal in measured}, "broken": broken}))
    return int(bool(broken))


if __name__ == "__main__":
    sys.exit(main())
