"""A cluster in which every name is hostile: an Admin whose methods return what their annotations promise, with the same
text in each field that has text."""

from __future__ import annotations

import dataclasses
import enum
import types
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ottla.admin.admin import Admin
from ottla.errors import ErrorCode, OttlaError

HOSTILE = "a\x1b]0;title\x07\x1b[31m\x9b2J\x7f\x85\u202e\u2066\u2028\tb\r\nforged  Stable"
"""Control characters of each kind, overrides of the direction, a separator of lines, a tab, and a forged line."""


class HostileAdmin:
    """An Admin whose every response is hostile."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def __enter__(self) -> HostileAdmin:
        return self

    def __exit__(self, *error: object) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return _Part(_PARTS[name])


class _Part:
    def __init__(self, kind: type) -> None:
        self._kind = kind

    def __getattr__(self, name: str) -> Any:
        returned = get_type_hints(getattr(self._kind, name))["return"]
        return lambda *_, **__: hostile(returned)


def hostile(kind: Any) -> Any:
    """Return a value of the type, with one element in each collection."""
    origin, arguments = get_origin(kind), get_args(kind)
    if kind is str or kind is Any:
        return HOSTILE
    if kind in (int, float):
        return kind(1)
    if kind is bool:
        return True
    if kind is bytes:
        return HOSTILE.encode()
    if kind is datetime:
        return datetime(2026, 11, 1, tzinfo=UTC)
    if kind is type(None):
        return None
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return hostile(arguments[0])
    if origin is tuple:
        return tuple(hostile(each) for each in arguments if each is not ...)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {hostile(arguments[0]): hostile(arguments[1])}
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return [hostile(arguments[0])]
    if isinstance(kind, type) and issubclass(kind, OttlaError):
        return OttlaError(ErrorCode.INVALID_REQUEST, HOSTILE, hint=HOSTILE)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return next(iter(kind))
    hints = get_type_hints(kind)
    names = [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields
    return kind(**{name: hostile(hints[name]) for name in names})


_PARTS = {name: type(part) for name, part in vars(Admin("nowhere:1")).items() if not name.startswith("_")}
