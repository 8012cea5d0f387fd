"""Count what is reachable from an object: the size of every container, by the class and attribute that hold it.

The walk knows nothing of the product. It follows attributes, slots, elements, closures, partials, bound methods and the
frames of coroutines, each object once, breadth first. A container is named by its nearest owner, such as
`Transactions._ended`, and a container inside another one by a `[]` for each level. All that have one name and role are
added up, so that a name stands for a line of code and not for one of a thousand instances of it.

Strings, numbers, classes and modules are not followed, and neither is whatever `is_foreign` knows of: the clients and
the test beside the cluster, say.
"""

from __future__ import annotations

import asyncio
import functools
import types
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

MOST_OBJECTS: Final = 5_000_000
"""A walk that meets more than this many has left the cluster, and is a mistake of the harness."""

PRODUCT: Final = "ottla"
"""The beginning of the names of all packages whose instances are counted by class."""


class Structure(NamedTuple):
    """One name in the report. `kind` is "items", "bytes" or "instances"."""

    role: str
    name: str
    kind: str


@dataclass
class Census:
    """How large each structure is. `paths` has, for each, how one of its containers was reached."""

    sizes: Counter[Structure] = field(default_factory=Counter)
    paths: dict[Structure, str] = field(default_factory=dict)

    def add(self, structure: Structure, size: int, path: str) -> None:
        self.sizes[structure] += size
        self.paths.setdefault(structure, path)


class Root(NamedTuple):
    role: str
    name: str
    value: object


class _Found(NamedTuple):
    """An object that is to be looked at. `owner` is how its nearest owner names it."""

    value: object
    role: str
    owner: str
    path: str


RoleOf = Callable[[object, str], str]
"""The role that an object and all that is reached through it play, by the role it was reached in."""

_ATOMS: Final = (
    str,
    int,
    float,
    complex,
    type(None),
    type(...),
    type,
    Enum,
    types.ModuleType,
    types.CodeType,
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
)
_BYTES: Final = (bytes, bytearray, array)
_SEQUENCES: Final = (list, set, frozenset, deque, AbstractSet)
_MAPPINGS: Final = (dict, types.MappingProxyType)
_WEAK: Final = (WeakSet, WeakValueDictionary, WeakKeyDictionary)
"""They have entries and hold nothing."""
_DEEPEST_PATH: Final = 400


class Walk:
    """One census. `roots` come in an order: what two of them reach belongs to the first."""

    def __init__(self, role_of: RoleOf, is_foreign: Callable[[object], bool]) -> None:
        self.census: Final = Census()
        self._role_of: Final = role_of
        self._is_foreign: Final = is_foreign
        self._seen: Final[dict[int, object]] = {}
        self._queue: Final[deque[_Found]] = deque()

    def run(self, roots: Iterable[Root]) -> Census:
        for root in roots:
            self._reach(root.value, root.role, root.name, root.name)
            while self._queue:
                self._look_at(self._queue.popleft())
        return self.census

    def _reach(self, value: object, role: str, owner: str, path: str) -> None:
        """Queue it unless it has been met. It is kept alive until the end, lest another object get its id."""
        if isinstance(value, _ATOMS) or id(value) in self._seen or self._is_foreign(value):
            return
        if len(self._seen) >= MOST_OBJECTS:
            raise RuntimeError(f"the walk met {MOST_OBJECTS} objects; it has left the cluster, at {path}")
        self._seen[id(value)] = value
        self._queue.append(_Found(value, self._role_of(value, role), owner, path[:_DEEPEST_PATH]))

    def _look_at(self, found: _Found) -> None:
        value, role, owner, path = found
        if isinstance(value, _BYTES):
            self.census.add(Structure(role, owner, "bytes"), len(value), path)
        elif isinstance(value, memoryview):
            self.census.add(Structure(role, owner, "bytes"), value.nbytes, path)
        elif isinstance(value, _WEAK):
            self.census.add(Structure(role, owner, "items"), len(value), path)
        elif isinstance(value, tuple):
            self._look_at_tuple(value, found)
        elif module_of(value).startswith(PRODUCT):
            self._look_at_instance(value, found)
        elif isinstance(value, _MAPPINGS):
            self._look_at_mapping(value, found)
        elif isinstance(value, _SEQUENCES):
            self.census.add(Structure(role, owner, "items"), len(value), path)
            for each in list(value):
                self._reach(each, role, f"{owner}[]", f"{path}[]")
        else:
            for name, part in parts_of(value):
                self._reach(part, role, f"{owner}.{name}", f"{path}.{name}")

    def _look_at_tuple(self, value: tuple[object, ...], found: _Found) -> None:
        """One with named fields has as many of them as its class says; another one may be a sequence."""
        names = getattr(type(value), "_fields", None)
        if names is None:
            self.census.add(Structure(found.role, found.owner, "items"), len(value), found.path)
        for number, each in enumerate(value):
            name = f".{names[number]}" if names else "[]"
            self._reach(each, found.role, f"{found.owner}{name}", f"{found.path}{name}")

    def _look_at_mapping(self, value: Mapping[object, object], found: _Found) -> None:
        self.census.add(Structure(found.role, found.owner, "items"), len(value), found.path)
        for key, each in list(value.items()):
            self._reach(key, found.role, f"{found.owner}<key>", f"{found.path}<key>")
            self._reach(each, found.role, f"{found.owner}[]", f"{found.path}[]")

    def _look_at_instance(self, value: object, found: _Found) -> None:
        name = type(value).__qualname__
        self.census.add(Structure(found.role, name, "instances"), 1, found.path)
        if isinstance(value, _MAPPINGS):
            self._look_at_mapping(value, found._replace(owner=name))
        elif isinstance(value, _SEQUENCES):
            self.census.add(Structure(found.role, name, "items"), len(value), found.path)
        for attribute, part in attributes_of(value):
            self._reach(part, found.role, f"{name}.{attribute}", f"{found.path}.{attribute}")


def module_of(value: object) -> str:
    """Where the value's class comes from; "" for a class that does not say."""
    module = type(value).__module__
    return module if isinstance(module, str) else ""


def attributes_of(value: object) -> Iterator[tuple[str, object]]:
    """The instance's own attributes and slots."""
    yield from list(getattr(value, "__dict__", {}).items())
    for class_ in type(value).__mro__:
        slots = class_.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if slot in ("__dict__", "__weakref__"):
                continue
            private = slot.startswith("__") and not slot.endswith("__")
            try:
                yield slot, getattr(value, f"_{class_.__name__.lstrip('_')}{slot}" if private else slot)
            except AttributeError:
                continue  # it was never set


def parts_of(value: object) -> Iterator[tuple[str, object]]:
    """What anything holds that is neither a container nor the product's: a function, a task, a lock."""
    match value:
        case types.FunctionType():
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                try:
                    yield f"<{name}>", cell.cell_contents
                except ValueError:
                    continue  # not assigned yet
            yield "<defaults>", value.__defaults__
            yield from value.__dict__.items()
        case types.MethodType():
            yield "<self>", value.__self__
            yield "<function>", value.__func__
        case functools.partial():
            yield "<function>", value.func
            yield "<arguments>", value.args
            yield "<keywords>", value.keywords
        case asyncio.Task():
            yield "<coroutine>", value.get_coro()
        case types.CoroutineType():
            yield from _of_frame(value.cr_frame)
            yield "<awaited>", value.cr_await
        case types.GeneratorType():
            yield from _of_frame(value.gi_frame)
        case types.AsyncGeneratorType():
            yield from _of_frame(value.ag_frame)
        case asyncio.Future():
            yield "<callbacks>", value._callbacks
            if value.done() and not value.cancelled():
                yield "<result>", value.exception() or value.result()
        case BaseException():
            yield "<arguments>", value.args
            yield "<cause>", value.__cause__
            yield from attributes_of(value)
        case _ if module_of(value).partition(".")[0] in _FOLLOWED:
            yield from attributes_of(value)


_FOLLOWED: Final = frozenset(
    {"asyncio", "collections", "threading", "concurrent", "queue", "contextlib", "prometheus_client"}
)
"""Modules whose instances are followed by attribute. Others hold nothing of the product's, or it can't be seen."""


def _of_frame(frame: Any) -> Iterator[tuple[str, object]]:
    if frame is not None:
        yield from list(frame.f_locals.items())
