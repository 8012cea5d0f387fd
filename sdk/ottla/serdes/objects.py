"""Instances of your own classes as JSON, and back: dataclasses, pydantic models, and lists and dicts of them.

Reading checks the JSON against the class's annotations: if a field without a default is missing, or a value does not
match its annotation, the error names the path, such as `lines[2].price`. Fields that the class does not have are
ignored, so writers may add fields before readers know them.

| annotation | JSON |
|---|---|
| str, int, float, bool, None, Any | themselves; an int is a float too, a bool is no int |
| list, set, frozenset, tuple[X, ...] | array |
| dict[str, X], dict[int, X] | object |
| X | Y | the first that fits, in the order of the annotation |
| dataclass | object |
| datetime, date, UUID, Decimal, bytes | string: ISO 8601, text, text, base64 |
| Enum, Literal | its value |
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import functools
import json
import types
import typing
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from enum import Enum
from typing import Any, Final
from uuid import UUID

from ottla.errors import SerializationError, config_error

Read = Callable[[Any], Any]
"""Parsed JSON → a value of the annotated type. Raises MismatchError."""

_UNIONS: Final = (typing.Union, types.UnionType)
_SUPPORTED: Final = "see the table in docs/use/serializers.md, or pass a callable"


class MismatchError(ValueError):
    """JSON that does not match an annotation; `path` says where, from the inside out."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.path: list[str] = []

    def inside(self, step: str) -> MismatchError:
        """Return this error as seen from one level further out."""
        self.path.append(step)
        return self

    def __str__(self) -> str:
        where = "".join(reversed(self.path)).lstrip(".")
        return f"{where}: {self.args[0]}" if where else str(self.args[0])


def is_object_type(like: object) -> bool:
    """Return whether `writer_of` and `reader_of` take it: a dataclass, pydantic model, list[…], dict[…] or X | Y."""
    if typing.get_origin(like) is not None:
        return True
    return isinstance(like, type) and (dataclasses.is_dataclass(like) or _is_model(like))


def writer_of(like: Any) -> Callable[[Any], bytes]:
    """Return a writer of `like` instances as JSON; it raises SerializationError for other values."""
    origin = typing.get_origin(like)
    kind: Any = object if origin in _UNIONS else origin or like
    name = like.__name__ if origin is None else str(like)

    def write(value: Any) -> bytes:
        if not isinstance(value, kind):
            raise SerializationError(
                f"the {name} serializer got {type(value).__name__}", hint=f"pass a value of type {name}"
            )
        if _is_model(kind):
            text: str = value.model_dump_json(by_alias=True)
            return text.encode()
        try:
            return _encode(value).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise SerializationError(f"a {name} can't be written as JSON: {error}", hint=_SUPPORTED) from None

    return write


def reader_of(like: Any) -> Callable[[bytes], Any]:
    """Return a reader of JSON as `like`; it raises ValueError. Raises ConfigError for unsupported annotations."""
    if _is_model(like):
        return functools.partial(_read_model, like)
    read = _compile(like, {})
    decode = json.JSONDecoder().decode
    return lambda data: read(decode(data.decode()))


# ---- pydantic: by what its models can do, so that it need not be installed ---------------------------------------


def _is_model(like: object) -> bool:
    return hasattr(like, "model_validate_json") and hasattr(like, "model_dump_json")


def _read_model(model: Any, data: bytes) -> Any:
    try:
        return model.model_validate_json(data)
    except ValueError as error:
        problems = error.errors() if hasattr(error, "errors") else []
        if not problems:
            raise
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        where = ".".join(map(str, problems[0]["loc"]))
        raise MismatchError(f"{where}: {problems[0]['msg']}{more}".removeprefix(": ")) from None


# ---- out -----------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Convert a value to JSON's own types, one level deep; the encoder calls again for what is inside."""
    kind = type(value)
    if dataclasses.is_dataclass(kind):
        return {name: getattr(value, name) for name in _written_fields(kind)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime | date):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, set | frozenset):
        return list(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(f"{kind.__name__} can't be represented in JSON")


@functools.cache
def _written_fields(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.init)


_encode: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


# ---- in ------------------------------------------------------------------------------------------------------------


class _ObjectReader:
    """Reads one dataclass. Filled after it is known, so that a class may hold itself."""

    __slots__ = ("_fields", "_kind", "_required")

    def __init__(self, kind: type) -> None:
        self._kind = kind
        self._fields: list[tuple[str, Read]] = []
        self._required: list[str] = []

    def fill(self, known: dict[Any, Read]) -> None:
        """Compile the fields' annotations. Raises ConfigError."""
        name = self._kind.__name__
        try:
            hints = typing.get_type_hints(self._kind)
        except NameError as error:
            raise config_error(
                f"an annotation of {name} can't be resolved: {error}",
                hint="define the classes in the annotation at module level",
            ) from None
        for field in dataclasses.fields(self._kind):
            if not field.init:
                continue
            self._fields.append((field.name, _compile(hints[field.name], known)))
            if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                self._required.append(field.name)

    def __call__(self, data: Any) -> Any:
        if not isinstance(data, dict):
            raise _wrong(data, f"an object of {self._kind.__name__}")
        for name in self._required:
            if name not in data:
                raise MismatchError("is missing").inside(f".{name}")
        fields = {}
        for name, read in self._fields:
            if name in data:
                try:
                    fields[name] = read(data[name])
                except MismatchError as mismatch:
                    raise mismatch.inside(f".{name}") from None
        try:
            return self._kind(**fields)
        except (ValueError, TypeError) as error:  # its __post_init__ raised
            raise MismatchError(f"{self._kind.__name__} rejects it: {error}") from error


def _compile(hint: Any, known: dict[Any, Read]) -> Read:
    """The reader of an annotation. Raises ConfigError."""
    if hint in known:
        return known[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        reader = known[hint] = _ObjectReader(hint)
        reader.fill(known)
        return reader
    if hint in _SCALARS:
        return _SCALARS[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _converting(hint, f"a value of {hint.__name__}")
    return _compile_generic(hint, typing.get_origin(hint) or hint, typing.get_args(hint), known)


def _compile_generic(hint: Any, origin: Any, inner: tuple[Any, ...], known: dict[Any, Read]) -> Read:
    if origin is typing.Literal:
        return _literal(inner)
    if origin in _UNIONS:
        return _union(inner, known, hint)
    if origin in _ARRAYS and (origin is not tuple or inner[1:] == (...,)):
        return _array(origin, _compile(inner[0] if inner else Any, known))
    if origin is dict and (not inner or inner[0] in (str, int)):
        return _mapping(inner[0] if inner else str, _compile(inner[1] if inner else Any, known))
    raise config_error(f"{hint!r} can't be read from JSON", hint=_SUPPORTED)


def _wrong(data: Any, expected: str) -> MismatchError:
    return MismatchError(f"{data!r:.60} is not {expected}")


def _exactly(kind: type, expected: str) -> Read:
    def read(data: Any) -> Any:
        if type(data) is kind:
            return data
        raise _wrong(data, expected)

    return read


def _float(data: Any) -> float:
    if type(data) in (float, int):
        return float(data)
    raise _wrong(data, "a number")


def _converting(convert: Callable[[Any], Any], expected: str, source: type = object) -> Read:
    def read(data: Any) -> Any:
        if not isinstance(data, source):
            raise _wrong(data, expected)
        try:
            return convert(data)
        except (ValueError, InvalidOperation, binascii.Error):
            raise _wrong(data, expected) from None

    return read


def _literal(values: tuple[Any, ...]) -> Read:
    def read(data: Any) -> Any:
        for value in values:
            if data == value and type(data) is type(value):
                return value
        raise _wrong(data, f"one of {', '.join(map(repr, values))}")

    return read


def _union(options: Sequence[Any], known: dict[Any, Read], hint: Any) -> Read:
    readers = [_compile(option, known) for option in options if option is not type(None)]
    nullable = len(readers) < len(options)

    def read(data: Any) -> Any:
        if data is None and nullable:
            return None
        if len(readers) == 1:
            return readers[0](data)
        for reader in readers:
            with contextlib.suppress(MismatchError):
                return reader(data)
        raise _wrong(data, str(hint))

    return read


def _array(kind: type, item: Read) -> Read:
    def read(data: Any) -> Any:
        if not isinstance(data, list):
            raise _wrong(data, "an array")
        found = []
        for number, element in enumerate(data):
            try:
                found.append(item(element))
            except MismatchError as mismatch:
                raise mismatch.inside(f"[{number}]") from None
        return found if kind is list else kind(found)

    return read


def _mapping(key: type, item: Read) -> Read:
    def read(data: Any) -> Any:
        if not isinstance(data, dict):
            raise _wrong(data, "an object")
        found = {}
        for name, element in data.items():
            try:
                found[name if key is str else int(name)] = item(element)
            except MismatchError as mismatch:
                raise mismatch.inside(f"[{name!r}]") from None
            except ValueError:
                raise _wrong(name, "a whole number") from None
        return found

    return read


_ARRAYS: Final = (list, set, frozenset, tuple)
_SCALARS: Final[dict[Any, Read]] = {
    Any: lambda data: data,
    str: _exactly(str, "text"),
    int: _exactly(int, "a whole number"),
    float: _float,
    bool: _exactly(bool, "true or false"),
    type(None): _exactly(type(None), "null"),
    datetime: _converting(datetime.fromisoformat, "a date and time in ISO 8601", str),
    date: _converting(date.fromisoformat, "a date in ISO 8601", str),
    UUID: _converting(UUID, "a UUID", str),
    Decimal: _converting(lambda data: Decimal(str(data)), "a decimal number"),
    bytes: _converting(lambda data: base64.b64decode(data, validate=True), "base64", str),
}
