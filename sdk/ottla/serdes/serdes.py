"""How values become bytes and bytes become values, by name, by type or by a callable of your own.

| name | type | out | in |
|---|---|---|---|
| auto (default) | | str → UTF-8; bytes as they are; dict, list, tuple, int, float, bool → JSON | what was sent: a header says so. Without it: UTF-8 → str, the rest bytes |
| bytes | bytes | bytes, bytearray, memoryview | bytes |
| str | str | UTF-8 | UTF-8 |
| int | int | 8 bytes, big-endian (Kafka's LongSerializer) | 1, 2, 4 or 8 bytes, signed |
| float | float | 8 bytes, IEEE 754, big-endian (Kafka's DoubleSerializer) | 4 or 8 bytes |
| uuid | UUID | text of 36 characters (Kafka's UUIDSerializer) | the same |
| json | dict, list | any JSON value, compact UTF-8 | any JSON value |
| | dataclass, pydantic model, list[…], dict[…] | JSON | instances, checked (`ottla.serdes.objects`) |

With each of them, None is null in both directions, and never reaches a callable: a null value is a tombstone.
"""  # noqa: E501 - a table

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar
from uuid import UUID

from ottla.errors import SerializationError, config_error
from ottla.serdes import objects
from ottla_core.records.record import Header

T = TypeVar("T")

Serializer = Callable[[Any], bytes | None]
"""A value that is not None → its bytes; raises ValueError or TypeError for what it does not take."""

Deserializer = Callable[[bytes], Any]
"""Bytes → a value; raises ValueError for what it can't read."""

SerializerLike = str | type[T] | Callable[[T], bytes | None]
"""What a producer takes: a name or a type of the table, or a Serializer."""

DeserializerLike = str | type[T] | Callable[[bytes], T]
"""What a consumer takes: a name or a type of the table, or a Deserializer."""

HeadersLike = Mapping[str, bytes | str | None] | Sequence[tuple[str, bytes | str | None]]
"""Header names with their values; text becomes UTF-8. Names may repeat where pairs are given."""

_USE: Final = "set key= or value= to one of auto, bytes, str, int, float, uuid, json, a dataclass, or a callable"

_DOUBLE: Final = struct.Struct(">d")
_FLOAT: Final = struct.Struct(">f")

_encode_json: Final = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_decode_json: Final = json.JSONDecoder().decode

AUTO_KEY: Final = "ottla.auto.key"
AUTO_VALUE: Final = "ottla.auto.value"
"""Headers that say what `auto` serialized: b"json" or b"bytes". Without one it was a str, or another producer's."""


def serialize_bytes(value: Any) -> bytes:
    """Return bytes as they are; copy bytearray and memoryview."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise SerializationError(f"the bytes serializer got {type(value).__name__}", hint=_USE)


def serialize_str(value: Any) -> bytes:
    """UTF-8 of a str."""
    if isinstance(value, str):
        return value.encode()
    raise SerializationError(f"the str serializer got {type(value).__name__}", hint=_USE)


def serialize_int(value: Any) -> bytes:
    """8 bytes, big-endian, signed."""
    if isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63:
        return value.to_bytes(8, "big", signed=True)
    raise SerializationError(f"the int serializer got {value!r:.60}, not a 64-bit int", hint=_USE)


def serialize_float(value: Any) -> bytes:
    """8 bytes, IEEE 754, big-endian; an int is written as the float that it equals."""
    if isinstance(value, float) or (isinstance(value, int) and not isinstance(value, bool)):
        with contextlib.suppress(OverflowError):
            return _DOUBLE.pack(float(value))
    raise SerializationError(f"the float serializer got {value!r:.60}", hint=_USE)


def serialize_uuid(value: Any) -> bytes:
    """Its 36 characters."""
    if isinstance(value, UUID):
        return str(value).encode()
    raise SerializationError(f"the uuid serializer got {type(value).__name__}", hint=_USE)


def serialize_json(value: Any) -> bytes:
    """Compact JSON. NaN and Infinity, which JSON does not have, are rejected."""
    try:
        return _encode_json(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise SerializationError(f"a {type(value).__name__} can't be written as JSON: {error}", hint=_USE) from None


def serialize_auto(value: Any) -> bytes:
    """Serialize by the value's type. A type without obvious bytes is rejected, so nothing is written by accident."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict | list | tuple | int | float):
        return serialize_json(value)
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    raise SerializationError(f"the auto serializer does not accept {type(value).__name__}", hint=_USE)


class _ByType(dict[type, tuple[Header, ...]]):
    """The mark of a key or value by its type, worked out once for each type because there are many records."""

    def __init__(self, name: str, *, auto: bool) -> None:
        self._name = name
        self._auto = auto

    def __missing__(self, kind: type) -> tuple[Header, ...]:
        silent = not self._auto or issubclass(kind, str | type(None) | AsItWas)
        text = b"bytes" if issubclass(kind, bytes | bytearray | memoryview) else b"json"
        self[kind] = () if silent else ((self._name, text),)
        return self[kind]


class Marks:
    """Headers that a producer adds to a record, so that its key or value is read back as the type that was sent."""

    __slots__ = ("_auto_key", "_auto_value", "keys", "values")

    def __init__(self, *, key: bool, value: bool) -> None:
        """`key` and `value` say which of the two `auto` serializes."""
        self._auto_key = key
        self._auto_value = value
        self.keys: Final = _ByType(AUTO_KEY, auto=key)
        self.values: Final = _ByType(AUTO_VALUE, auto=value)

    @property
    def any(self) -> bool:
        """Return whether some record may need a mark."""
        return self._auto_key or self._auto_value

    def among(self, headers: Sequence[Header], key: Any, value: Any) -> Sequence[Header]:
        """Return `headers` with the marks of this key and value, without marks that came from another record."""
        if self._auto_key and not isinstance(key, AsItWas):
            headers = [header for header in headers if header[0] != AUTO_KEY]
        if self._auto_value and not isinstance(value, AsItWas):
            headers = [header for header in headers if header[0] != AUTO_VALUE]
        return [*headers, *self.keys[type(key)], *self.values[type(value)]]


class AsItWas(bytes):
    """The bytes of another record, whose headers are kept, so their marks still hold."""

    __slots__ = ()


def deserialize_bytes(data: bytes) -> bytes:
    """The bytes as they are."""
    return data


def deserialize_str(data: bytes) -> str:
    """UTF-8."""
    return data.decode()


def deserialize_int(data: bytes) -> int:
    """A signed big-endian int of 1, 2, 4 or 8 bytes."""
    if len(data) not in (1, 2, 4, 8):
        raise ValueError(f"an int has 1, 2, 4 or 8 bytes, not {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def deserialize_float(data: bytes) -> float:
    """A big-endian IEEE 754 number of 8 bytes, or of 4 (Kafka's FloatSerializer)."""
    if len(data) not in (4, 8):
        raise ValueError(f"a float has 4 or 8 bytes, not {len(data)}")
    number: float = (_DOUBLE if len(data) == 8 else _FLOAT).unpack(data)[0]
    return number


def deserialize_uuid(data: bytes) -> UUID:
    """A UUID's text, with or without hyphens."""
    return UUID(data.decode())


def deserialize_json(data: bytes) -> Any:
    """Any JSON value."""
    return _decode_json(data.decode())


def deserialize_auto(data: bytes) -> Any:
    """Read a key or value without a mark: str if it is UTF-8, else bytes. Never raises."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _marked_json(data: bytes) -> Any:
    try:
        return _decode_json(data.decode())
    except (ValueError, RecursionError):  # the header of another record
        return deserialize_auto(data)


AUTO_READERS: Final[Mapping[bytes | None, Deserializer]] = {b"json": _marked_json, b"bytes": deserialize_bytes}
"""How a marked key or value is read."""

_PAIRS: Final[dict[str, tuple[Serializer, Deserializer]]] = {
    "auto": (serialize_auto, deserialize_auto),
    "bytes": (serialize_bytes, deserialize_bytes),
    "str": (serialize_str, deserialize_str),
    "int": (serialize_int, deserialize_int),
    "float": (serialize_float, deserialize_float),
    "uuid": (serialize_uuid, deserialize_uuid),
    "json": (serialize_json, deserialize_json),
}
_BY_TYPE: Final[dict[object, str]] = {
    bytes: "bytes",
    str: "str",
    int: "int",
    float: "float",
    UUID: "uuid",
    dict: "json",
    list: "json",
}


def serializer(like: SerializerLike[Any], name: str) -> Serializer:
    """Return the serializer for a producer's `key=` or `value=` (`name`). Raises ConfigError."""
    known = _known(like)
    if known is not None:
        return known[0]
    if objects.is_object_type(like):
        return objects.writer_of(like)
    if callable(like) and not isinstance(like, type):  # a class would make an instance of itself, not bytes
        return like
    raise config_error(f"{name}={like!r} is not a serializer", hint=_USE)


def deserializer(like: DeserializerLike[Any], name: str) -> Deserializer:
    """Return the deserializer for a consumer's `key=` or `value=` (`name`). Raises ConfigError."""
    known = _known(like)
    if known is not None:
        return known[1]
    if objects.is_object_type(like):
        return objects.reader_of(like)
    if callable(like):
        return like
    raise config_error(f"{name}={like!r} is not a deserializer", hint=_USE)


def is_plain_type(like: object) -> bool:
    """Return whether it is one of the types in the table."""
    return isinstance(like, type) and like in _BY_TYPE


def _known(like: object) -> tuple[Serializer, Deserializer] | None:
    name = like if isinstance(like, str) else _BY_TYPE.get(like)
    return None if name is None else _PAIRS.get(name)


def header_pairs(headers: HeadersLike, topic: str) -> list[tuple[str, bytes | None]]:
    """Return headers as a batch holds them. Raises SerializationError."""
    pairs = headers.items() if isinstance(headers, Mapping) else headers
    try:
        return [_header(name, text) for name, text in pairs]
    except (TypeError, ValueError) as error:
        raise SerializationError(
            f"headers={headers!r:.80} can't be sent: {error}", hint="pass pairs of str and bytes", topic=topic
        ) from None


def _header(name: Any, text: Any) -> tuple[str, bytes | None]:
    if not isinstance(name, str):
        raise TypeError(f"a header's name is {type(name).__name__}, not str")
    if isinstance(text, str):
        return name, text.encode()
    if text is None or isinstance(text, bytes):
        return name, text
    raise TypeError(f"the header {name!r} is {type(text).__name__}, not bytes or str")
