"""The product iterates no set where the order can be seen, because that order differs from process to process.

The order of RPCs, wake-ups, writes, log lines and elements of responses would follow it, and a simulation could not
repeat what it has found. A `dict[X, None]` keeps the order of arrival, and `sorted` makes one.

Types come from annotations and assignments, by names: those of the module come first, then those on which all modules
agree. mypy knows more, and takes a minute longer.
"""

from __future__ import annotations

import ast
from collections import ChainMap, defaultdict
from collections.abc import Iterable
from typing import Final

import pytest
from sources import ROOT, listed

PRODUCT: Final = ("cli", "core", "sdk", "services", "spark", "stack")
EXEMPT: Final[dict[str, str]] = {}
"""Places, as they are reported, and the reason why the order can't be seen there."""

SETS: Final = {"set", "frozenset", "Set", "AbstractSet", "MutableSet", "WeakSet"}
VIEWS: Final = {"keys": "KeysView[{0}]", "values": "ValuesView[{1}]", "items": "ItemsView[tuple[{0}, {1}]]"}
IN_ORDER: Final = {"Iterable", "Iterator", "Sequence", "Collection", "list", "tuple"}
"""Whatever declares a parameter or a result to be one of these may iterate it: `Container` and `Set` say otherwise."""

ORDERLESS: Final = {"all", "any", "frozenset", "len", "set", "sorted", "sum"}
EXTREMES: Final = {"max", "min"}
"""These have no order either, unless a key makes elements equal."""
OF_SETS: Final = {"copy", "difference", "intersection", "symmetric_difference", "union"}
OF_TWO_SETS: Final = {
    *OF_SETS,
    "difference_update",
    "intersection_update",
    "isdisjoint",
    "issubset",
    "issuperset",
    "update",
}
ONE_BY_ONE: Final = {"chain", "enumerate", "filter", "from_iterable", "iter", "list", "map", "tuple", "zip"}
ORDERED: Final = {
    *ONE_BY_ONE,
    *EXTREMES,
    "deque",
    "dict",
    "extend",
    "fromkeys",
    "gather",
    "join",
    "next",
    "repr",
    "str",
}

Type = ast.expr | None
UNKNOWN: Final = ast.Name("object")


def head(type_: Type) -> str:
    """Return the type's own name: `set` of `set[int]`."""
    if isinstance(type_, ast.Subscript):
        return head(type_.value)
    return type_.attr if isinstance(type_, ast.Attribute) else type_.id if isinstance(type_, ast.Name) else ""


def inner(type_: Type) -> list[ast.expr]:
    """Return what stands in the brackets of a type."""
    if not isinstance(type_, ast.Subscript):
        return []
    return type_.slice.elts if isinstance(type_.slice, ast.Tuple) else [type_.slice]


def first_of(type_: Type) -> Type:
    """Return the type of what iteration yields."""
    return next(iter(inner(type_)), None)


def is_set(type_: Type) -> bool:
    return head(type_) in SETS


def parsed(text: str, *parts: Type) -> ast.expr:
    return ast.parse(text.format(*(ast.unparse(part or UNKNOWN) for part in parts)), mode="eval").body


def bare(type_: Type) -> Type:
    """Return a type without `Final`, quotes and `| None`. If a union has a set, return the set."""
    match type_:
        case ast.Constant(value=str(text)):
            return bare(parsed(text))
        case ast.Constant():
            return None
        case ast.BinOp(left=left, right=right):
            return one_of([bare(left), bare(right)])
    if head(type_) in ("Final", "ClassVar"):
        return bare(inner(type_)[0]) if inner(type_) else None
    return type_


def one_of(types: Iterable[Type]) -> Type:
    """Return the set among them, or else the first that is known."""
    return min((each for each in types if each is not None), key=lambda each: not is_set(each), default=None)


class Order(ast.NodeVisitor):
    """Walks through all modules twice: the first time it learns what they declare, and the second time it judges."""

    def __init__(self) -> None:
        self.found: Final[dict[str, None]] = {}
        self._declared: Final[defaultdict[str, dict[str, ast.expr]]] = defaultdict(dict)
        """This maps each module, or "" for all modules, to the types of attributes and names. A function's result is
        under `name()`."""
        self._parameters: Final[defaultdict[tuple[str, int | str], set[str]]] = defaultdict(set)
        """This maps a function's name, and a parameter's position or name, to the heads of the types it is declared
        with."""
        self._names: ChainMap[str, ast.expr] = ChainMap()
        self._in_class = False
        self._returns: Type = None
        self._orderless: Final[set[ast.expr]] = set()
        self._module = ""

    def walk(self, name: str, tree: ast.Module) -> None:
        self._module, self._names = name, ChainMap()
        self.visit(tree)

    # ---- what is known ------------------------------------------------------------------------------------------

    def declare(self, name: str, type_: Type) -> None:
        if type_ is not None:
            for module in (self._module, ""):
                known = self._declared[module].setdefault(name, type_)
                if is_set(known) != is_set(type_):
                    self._declared[module][name] = UNKNOWN

    def known(self, name: str) -> Type:
        return self._declared[self._module].get(name) or self._declared[""].get(name)

    def type_of(self, node: Type) -> Type:
        """Return the type of an expression, or None if it is not known."""
        match node:
            case ast.Name(id=name):
                return self._names.get(name) or self.known(name)
            case ast.Attribute(attr=name):
                return self.known(name)
            case ast.Constant(value=value) if value is not None:
                return ast.Name(type(value).__name__)
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self.type_of(value)
            case ast.IfExp(body=one, orelse=other):
                return one_of(map(self.type_of, [one, other]))
            case ast.BoolOp(values=values):
                return one_of(map(self.type_of, values))
            case ast.Set(elts=[ast.Starred(value=value), *_]):
                return parsed("set[{}]", first_of(self.type_of(value)))
            case ast.Set(elts=[each, *_]) | ast.SetComp(elt=each):
                return parsed("set[{}]", self.type_of(each))
            case ast.BinOp(left=left, op=ast.BitOr() | ast.BitAnd() | ast.Sub() | ast.BitXor(), right=right):
                types = [self.type_of(left), self.type_of(right)]
                if any(head(each) in {*SETS, "KeysView", "ItemsView"} for each in types):
                    return parsed("set[{}]", one_of(map(first_of, types)))
            case ast.Subscript(value=value):
                return one_of(map(bare, inner(self.type_of(value))[-1:]))
            case ast.Call(func=ast.Subscript() as made):
                return made
            case ast.Call(func=ast.Name(id=name), args=given) if name in {*SETS, *ONE_BY_ONE, "sorted"}:
                return parsed(f"{name if name in SETS else 'list'}[{{}}]", *map(self._element, given[:1] or [UNKNOWN]))
            case ast.Call(func=ast.Attribute(value=ast.Name(id="asyncio"), attr="wait")):
                return parsed("tuple[set[asyncio.Future], set[asyncio.Future]]")
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=given):
                owner = self.type_of(value)
                if is_set(owner) and name in OF_SETS:
                    return owner
                if name in VIEWS and not given:
                    return parsed(VIEWS[name], *[*inner(owner), None, None][:2])
                if name in ("get", "pop", "setdefault") and given:
                    return one_of([*map(bare, inner(owner)[-1:]), self.type_of(given[-1])])
                return self.known(f"{name}()")
            case ast.Call(func=function):
                return self.known(f"{head(function)}()")
        return None

    def _element(self, node: ast.expr) -> Type:
        return self.type_of(node.elt) if isinstance(node, ast.GeneratorExp) else first_of(self.type_of(node))

    def bind(self, target: ast.expr, type_: Type) -> None:
        match target:
            case ast.Tuple(elts=parts) if head(type_) == "tuple":
                for part, each in zip(parts, inner(type_), strict=False):
                    self.bind(part, bare(each))
            case ast.Name(id=name) if self._names.maps[1:] and not self._in_class:
                if not is_set(self._names.maps[0].get(name)):
                    self._names[name] = type_ or UNKNOWN
            case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="self"), attr=name):
                self.declare(name, type_)

    # ---- the walk -----------------------------------------------------------------------------------------------

    def visit(self, node: ast.AST) -> None:
        match node:
            case ast.ClassDef():
                self._class(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self._function(node)
            case ast.For() | ast.AsyncFor() | ast.comprehension():
                self.visit(node.iter)
                self.bind(node.target, first_of(self.type_of(node.iter)))
                self.generic_visit(node)
                self.seen(node.iter)
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() | ast.DictComp():
                if isinstance(node, ast.SetComp):
                    self._orderless.update(part.iter for part in node.generators)
                for part in node.generators:  # they come last in the tree, and bind the names of what comes first
                    self.visit(part)
                self.generic_visit(node)
            case ast.Set():
                self.excuse(node.elts)
                self.generic_visit(node)
            case ast.Call():
                self._call(node)
            case _:
                self.generic_visit(node)
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                for target, value in zip(targets, values, strict=False):
                    self.bind(target, self.type_of(value))
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    self.bind(target, self.type_of(value))
            case ast.AnnAssign(target=target, annotation=annotation, value=value):
                self.bind(target, bare(annotation) or self.type_of(value))
            case ast.NamedExpr(target=target, value=value):
                self.bind(target, self.type_of(value))
            case ast.Starred(value=value) | ast.YieldFrom(value=value) | ast.FormattedValue(value=value):
                self.seen(value)
            case ast.Return(value=value) if head(self._returns) in IN_ORDER:
                self.seen(value)

    def _class(self, node: ast.ClassDef) -> None:
        outer, self._in_class = self._in_class, True
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and head(each.annotation) != "ClassVar"]
        for place, field in enumerate(fields):
            self._note(node.name, place, ast.unparse(field.target), field.annotation)
        self.generic_visit(node)
        self._in_class = outer

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        is_property = any(head(each) in ("property", "cached_property") for each in node.decorator_list)
        self.declare(node.name if is_property else f"{node.name}()", bare(node.returns))
        self._names[node.name] = UNKNOWN
        outer = self._names, self._in_class, self._returns
        self._names, self._in_class, self._returns = self._names.new_child(), False, bare(node.returns)
        for place, each in enumerate([*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]):
            self._names[each.arg] = bare(each.annotation) or UNKNOWN
            self._note(node.name, place - outer[1], each.arg, each.annotation)
        self.generic_visit(node)
        self._names, self._in_class, self._returns = outer

    def _note(self, function: str, place: int, name: str, annotation: Type) -> None:
        for key in (place, name):
            self._parameters[function, key].add(head(bare(annotation)))

    def _call(self, node: ast.Call) -> None:
        name, is_method = head(node.func), isinstance(node.func, ast.Attribute)
        has_key = any(each.arg == "key" for each in node.keywords)
        if name in (OF_TWO_SETS if is_method else ORDERLESS) or (name in EXTREMES and not has_key):
            self.excuse(node.args)
        self.generic_visit(node)
        if name == "pop" and not node.args and isinstance(node.func, ast.Attribute):
            self.seen(node.func.value)
        given: dict[int | str, ast.expr] = {
            **dict(enumerate(node.args)),
            **{k.arg or "": k.value for k in node.keywords},
        }
        for place, value in given.items():
            accepted = self._parameters[name, place]
            if name in ORDERED or (accepted & IN_ORDER and not accepted & SETS):
                self.seen(value)

    def seen(self, node: ast.expr | None) -> None:
        """Note an expression whose order is seen, if it is a set of anything but numbers."""
        type_ = self.type_of(node)
        if node is not None and node not in self._orderless and is_set(type_) and head(first_of(type_)) != "int":
            self.found[f"{self._module}: {ast.unparse(node)}"] = None

    def excuse(self, nodes: Iterable[ast.expr]) -> None:
        """Note what is iterated for something that has no order itself."""
        for node in nodes:
            self._orderless.add(node)
            match node:
                case ast.Starred(value=value):
                    self.excuse([value])
                case ast.GeneratorExp(generators=parts) | ast.ListComp(generators=parts):
                    self._orderless.update(part.iter for part in parts)
                case ast.Call(func=function, args=given) if head(function) in ONE_BY_ONE:
                    self.excuse(given)


def found(sources: dict[str, str]) -> list[str]:
    """Return where the order of a set can be seen in some modules."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    order = Order()
    for _ in range(2):
        order.found.clear()
        for name, tree in trees.items():
            order.walk(name, tree)
    return list(order.found)


def test_the_order_of_no_set_is_seen() -> None:
    sources = [name for name in listed(*(f"{folder}/*.py" for folder in PRODUCT)) if not name.endswith("_pb2.py")]
    assert len(sources) > 700
    assert [each for each in found({name: (ROOT / name).read_text() for name in sources}) if each not in EXEMPT] == []


CLASS: Final = """
class C:
    names: Final[set[str]] = set()
    numbers: set[int]
    def __init__(self, at: dict[str, int], given: Set[str] | None, ids: dict[int, None]) -> None:
        self.at, self.given, self.ids, self.tasks = at, given, ids, set()
    def left(self) -> frozenset[bytes]: ...
    def send(self, names: Iterable[str]) -> None: ...
    def has(self, names: Container[str]) -> None: ...
    async def run(self, c: C) -> Sequence[str]:
        {}
"""


@pytest.mark.parametrize(
    "line",
    [
        "for name in self.names: ...",
        "for name in self.at.keys() - given: ...",
        "[name for name in c.names | other]",
        "{name: 1 for name in c.given or ()}",
        "await asyncio.gather(*self.tasks)",
        "return [*c.left()]",
        "return list(self.names)",
        "return self.names",
        "c.send(self.names)",
        "c.send(names={each for each in other})",
        "first = next(iter(c.left()))",
        "last = c.names.pop()",
        "max(c.names, key=len)",
        "f'{self.names}'",
        "found = frozenset(other); ', '.join(found)",
        "done, late = await asyncio.wait(other); [task.cancel() for task in late]",
    ],
)
def test_an_order_that_is_seen_is_found(line: str) -> None:
    assert len(found({"m": CLASS.format(line)})) == 1


@pytest.mark.parametrize(
    "line",
    [
        "for name in sorted(self.names): ...",
        "for name in self.at.keys(): ...",
        "for number in c.numbers: ...",
        "for number in self.ids.keys() - other: ...",
        "{len(name) for name in self.names}",
        "{*self.names, *c.left()}",
        "any(name for name in self.names)",
        "sum(map(len, self.names)) + max(c.names)",
        "self.names.update(name for name in c.names)",
        "c.has(self.names)",
        "return [name for name in other if name in self.names]",
        "names = list(other); [name for name in names]",
        "(name,) = self.names",
    ],
)
def test_an_order_that_is_not_seen_is_not_found(line: str) -> None:
    assert found({"m": CLASS.format(line)}) == []
