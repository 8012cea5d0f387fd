"""A Source collects the lines of a Python function that is being written, and the objects that it uses as globals.

Fields of fixed size that follow each other are collected in a run, which becomes one call of a `struct.Struct`.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from ottla_core.kafka import runtime
from ottla_core.kafka.schema import Field, Schema, Struct

LAYOUTS: Final = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}
"""These kinds have a fixed size. The values are their names in `struct`."""
FEW: Final = 32
"""An array of fewer numbers is read by a `struct.Struct` for its count, which takes half of the time."""


class Slot(NamedTuple):
    """A run consists of slots: each has a variable or an expression, and its layout."""

    name: str
    layout: str


class Source:
    """This is the source of one function, for one version of one message."""

    def __init__(self, schema: Schema, version: int) -> None:
        self.schema: Final = schema
        self.version: Final = version
        self.flexible: Final = version in schema.flexible
        self.known: Final[dict[str, Any]] = {**vars(runtime), "new": object.__new__}
        self.run: list[Slot] = []
        self._layouts: Final[dict[str, int]] = {}
        self._lines: Final[list[str]] = []
        self._depth = 0
        self._names = 0

    @property
    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def function(self, name: str) -> Callable[..., Any]:
        """Return the function that the source defines."""
        exec(compile(self.text, f"<{self.schema.struct.name} {self.version}>", "exec"), self.known)  # noqa: S102
        function: Callable[..., Any] = self.known[name]
        return function

    # ---- lines -----------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Indent what is written within, under `header`."""
        self.line(header)
        self._depth += 1
        yield
        self._depth -= 1

    def when(self, condition: str, statement: str, otherwise: str = "") -> None:
        with self.block(f"if {condition}:"):
            self.line(statement)
        if otherwise:
            with self.block("else:"):
                self.line(otherwise)

    def new_name(self, of: str) -> str:
        """Return the name of a variable that has not been used yet."""
        self._names += 1
        return f"{of}{self._names}"

    def method_of(self, layouts: str, method: str) -> str:
        """Return the name of a global: the method of the `struct.Struct` with these layouts."""
        name = f"{method}_{self._layouts.setdefault(layouts, len(self._layouts))}"
        self.known[name] = getattr(struct.Struct(f">{layouts}"), method)
        return name

    def methods_of(self, layout: str, method: str) -> str:
        """Return the name of a global: the methods for 0, 1, 2 and more fields of this layout."""
        name = f"{method}s_{layout}"
        self.known[name] = [getattr(struct.Struct(f">{count}{layout}"), method) for count in range(FEW)]
        return name

    # ---- fields ----------------------------------------------------------------------------------------------------

    def is_compact(self, field: Field) -> bool:
        return self.flexible and field.compact

    def tagged_fields(self, of: Struct) -> list[Field]:
        return sorted((f for f in of.fields if self.version in f.tagged), key=lambda field: field.tag)

    def plain_fields(self, of: Struct) -> list[Field]:
        """Return the fields that every message of this version has, in their order."""
        return [f for f in of.fields if self.version in f.versions and self.version not in f.tagged]

    def fixed_layouts(self, of: Struct) -> str | None:
        """Return the layouts of a structure in which nothing has a length, without its tags. Return None for others."""
        fields = self.plain_fields(of)
        if self.tagged_fields(of) or any(f.is_array or f.kind not in LAYOUTS for f in fields):
            return None
        return "".join(LAYOUTS[field.kind] for field in fields)

    def min_bytes(self, of: Struct) -> int:
        return sum(self._min_bytes(field, field.is_array) for field in self.plain_fields(of)) + self.flexible

    def element_min_bytes(self, field: Field) -> int:
        """Return how many bytes an element of an array takes at least."""
        return self._min_bytes(field, is_array=False)

    def _min_bytes(self, field: Field, is_array: bool) -> int:
        if field.struct is not None and not is_array:
            return 1 if self.version in field.nullable and not field.is_array else self.min_bytes(field.struct)
        if field.kind in LAYOUTS and not is_array:
            return struct.calcsize(LAYOUTS[field.kind])
        return 1 if self.is_compact(field) else 2 if field.kind == "string" and not is_array else 4
