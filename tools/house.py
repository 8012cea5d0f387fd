"""`python tools/house.py`: whether the house is in order. Prints each figure with its goal and what measured it.

Over the product's packages without generated files. Exit code 1 where a figure misses its goal; the last line is one
JSON object.
"""

from __future__ import annotations

import ast
import configparser
import io
import json
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Final

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
    "ottla_stack": "stack",
    "pyspark_ottla": "spark",
}
MOST_CODE_LINES: Final = 58_000
"""Before the rooms there were 40,760, and after them 41,497: imports, and lines that longer names wrap.

Raised since, so that cost follows the work and not the number of partitions: fetch sessions, changes of metadata by
partition (520), logs made together, parked fetches, metadata kept encoded, an image that is shared (1,200). For
compaction (1,200), tools that read its files without a broker (900), and tables in the SDK (1,000); to compact offline
and to import a log (400). For transactions: the txn-coordinator (1,500), what a partition knows of them (700), offsets
in them (500), the Kafka APIs (600), the SDK's (1,500). For the mirror (2,300),
its failover, its proof and its demonstration (2,000), and batches as bytes in the SDK (200). So that clients keep their
word where a topic is made anew, a thread fails or nobody closes them (500)."""

LEAST_WITHOUT_IO: Final = 0.47
"""The aim is 0.57: adapters that only log (6 %), wait (8 %), or take a path (3 %) import what does."""

_FOLDERS_OF_MANY: Final = ("handlers",)  # a file an API: `ls` is the table
_NO_CODE: Final = frozenset(
    {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
)
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Figure:
    """`at_least` says on which side of the goal it has to be; `where` names the worst."""

    name: str
    value: float
    goal: float
    tool: str
    where: str = ""
    at_least: bool = False

    @property
    def missed(self) -> bool:
        return self.value < self.goal if self.at_least else self.value > self.goal


@dataclass(frozen=True, slots=True)
class Module:
    """A source file of the product."""

    path: Path
    tree: ast.Module

    @property
    def name(self) -> str:
        return str(self.path.relative_to(ROOT))

    def nodes(self, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        return (node for node in ast.walk(self.tree) if isinstance(node, kinds))


def modules() -> list[Module]:
    paths = (path for folder in PACKAGES.values() for path in sorted((ROOT / folder).rglob("*.py")))
    return [Module(path, ast.parse(path.read_text())) for path in paths if "_pb2" not in path.name]


def figures(found: list[Module]) -> list[Figure]:
    return [
        longest("longest function, lines", found, 60, ast.FunctionDef, ast.AsyncFunctionDef),
        longest("largest class, lines", found, 350, ast.ClassDef),
        _complexity(),
        _cycles(),
        without_io(found),
        docstrings(found),
        folders(found),
        Figure("files at the root of the SDK", len(list((ROOT / "sdk/ottla").glob("*.py"))), 12, "ls"),
        Figure("code lines", sum(map(code_lines, found)), MOST_CODE_LINES, "tokenize: no comments, no docstrings"),
    ]


def longest(name: str, found: list[Module], goal: int, *kinds: type[ast.AST]) -> Figure:
    lengths = (
        (node.end_lineno - node.lineno + 1, f"{module.name}:{node.name}")
        for module in found
        for node in module.nodes(*kinds)
        if isinstance(node, Function | ast.ClassDef) and node.end_lineno is not None
    )
    length, where = max(lengths)
    return Figure(name, length, goal, "ast", where)


def _complexity() -> Figure:
    command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "C901", "--output-format", "concise"]
    command += ["--config", "lint.mccabe.max-complexity=8", *(str(ROOT / folder) for folder in PACKAGES.values())]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
    found = [(int(n), where) for where, n in re.findall(r"C901 `(\w+)` is too complex \((\d+) > 8\)", told)]
    highest, where = max(found, default=(8, ""))
    return Figure("McCabe complexity", highest, 14, "ruff C901", where)


def _cycles() -> Figure:
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)  # its cache takes a file of the same second for the same
    found = in_cycles({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})
    return Figure("modules in an import cycle", len(found), 0, "grimp", ", ".join(sorted(found)[:4]))


def in_cycles(imports: Mapping[str, Set[str]]) -> Set[str]:
    """What is left when modules that import none of the others, or that none of them imports, are taken away."""
    left = set(imports)
    while True:
        imported = {name for module in left for name in imports[module]}
        inner = {module for module in left & imported if imports[module] & left}
        if inner == left:
            return left
        left = inner


def without_io(found: list[Module]) -> Figure:
    law = configparser.ConfigParser()
    law.read(ROOT / ".importlinter")
    forbidden = set(law["importlinter:contract:pure"]["forbidden_modules"].split())
    lines = {module.name: len(module.path.read_text().splitlines()) for module in found}
    pure = sum(lines[module.name] for module in found if not forbidden & _imported(module))
    share = round(pure / sum(lines.values()), 3)
    return Figure(
        "share of lines in modules without IO", share, LEAST_WITHOUT_IO, "ast, .importlinter's list", at_least=True
    )


def _imported(module: Module) -> set[str]:
    """The top-level names of what it imports."""
    names: set[str] = set()
    for node in module.nodes(ast.Import, ast.ImportFrom):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def docstrings(found: list[Module]) -> Figure:
    public = [node for module in found for node in _public(module.tree)]
    share = round(sum(ast.get_docstring(node) is not None for node in public) / len(public), 3)
    return Figure("public docstrings", share, 0.80, f"ast, of {len(public):,}", at_least=True)


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


def folders(found: list[Module]) -> Figure:
    sizes = Counter(module.path.parent for module in found if module.path.parent.name not in _FOLDERS_OF_MANY)
    folder, size = sizes.most_common(1)[0]
    return Figure("files in a folder", size, 25, "ls", str(folder.relative_to(ROOT)))


def code_lines(module: Module) -> int:
    """Lines with something on them that is neither comment nor docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(module.path.read_text()).readline):
        if token.type not in _NO_CODE and token.type != tokenize.ENDMARKER:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in module.nodes(ast.Expr):  # docstrings, and those of attributes
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def main(measure: Callable[[list[Module]], list[Figure]] = figures) -> int:
    measured = measure(modules())
    for figure in measured:
        goal = f"{'≥' if figure.at_least else '≤'} {figure.goal:g}"
        mark = "missed" if figure.missed else ""
        print(f"{figure.name:38} {figure.value:>9g}  {goal:>9}  {mark:6}  {figure.tool}  {figure.where}".rstrip())
    missed = [figure.name for figure in measured if figure.missed]
    print(json.dumps({"figures": {figure.name: figure.value for figure in measured}, "missed": missed}))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
