"""Control messages by Kafka's own message definitions, which kafka-python brings with it (`kafka.protocol`).

Its decoder is written for clients, which may trust their broker. Here the other side may be any program: requests are
read by its definitions into its classes, but through our `Reader`, which holds every length and count against the bytes
that are there. What may not be null is not; unknown tagged fields are passed by, and so are bytes left over, as Kafka
does it: librdkafka leaves three behind the Metadata request for all topics (confluentinc/librdkafka#5049), which is
that of `kcat -L`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any, Final, NamedTuple, TypeAlias

from ottla_broker.kafka.error_table import sent_code
from ottla_broker.kafka.frames import Parts
from ottla_core.kafka_formats.primitives import MalformedError, Reader

Message = Any
"""A message of `kafka.protocol`: its fields are attributes, named as in Kafka's definitions but in snake_case."""

_Read = Callable[[Reader], Any]

_NUMBERS: Final = {
    "bool": struct.Struct(">?"),
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
}
_LONG: Final = frozenset({"committed_metadata"})
"""Strings with a limit of their own, and an error for what is longer: a client can do more with it than with the end of
its connection, after which it sends the same again until it gives up."""
_UUID_BYTES: Final = 16
_NO_UUID: Final = bytes(_UUID_BYTES)
_NO_STRUCT: Final = 0xFF


def decode(request_type: Any, version: int, body: Reader) -> Message:
    """The request in `body`. Raises MalformedError."""
    try:
        return _reading(request_type, version).read(body)
    except MalformedError as error:
        raise MalformedError(
            f"the bytes are not a valid {request_type.__name__} of version {version}: {error}"
        ) from None


def encode(response: Message) -> Parts:
    """Return the body of a response, whose version it knows, with no error code that this version lacks."""
    _replace_codes(response, _codes(response.__class__, response._version), response.API_KEY, response._version)
    return [response.encode()]


def has_more_elements(message: Message, most: int) -> bool:
    """Whether all arrays in it together have more elements than that."""
    return _elements(message, _arrays(message.__class__, message._version), most) > most


_Arrays: TypeAlias = "tuple[tuple[str, _Arrays | None], ...]"
"""The fields of a structure that are arrays, each with those of its elements; None for simple ones."""


def _elements(structure: Message, arrays: _Arrays, most: int) -> int:
    """How many there are, or some number that is above `most`."""
    count = 0
    for name, inner in arrays:
        elements = getattr(structure, name) or ()
        count += len(elements)
        if inner is None:
            continue
        for element in elements:
            if count > most:
                return count
            count += _elements(element, inner, most - count)
    return count


@cache
def _arrays(message_type: Any, version: int) -> _Arrays:
    return _arrays_of(message_type._struct, version)


def _arrays_of(definition: Any, version: int) -> _Arrays:
    fields = (untagged_field for untagged_field in definition.untagged_fields(version) if untagged_field.is_array())
    return tuple((f.name, _arrays_of(f.array_of, version) if f.is_struct_array() else None) for f in fields)


class _Codes(NamedTuple):
    """The error codes in a structure: its own fields, and arrays of structures with some."""

    fields: tuple[str, ...]
    arrays: tuple[tuple[str, _Codes], ...]


@cache
def _codes(message_type: Any, version: int) -> _Codes:
    return _codes_of(message_type._struct, version)


def _codes_of(definition: Any, version: int) -> _Codes:
    fields = [*definition.untagged_fields(version), *definition.tagged_fields(version)._fields]
    own = tuple(f.name for f in fields if f.name.endswith("error_code"))
    inner = ((f.name, _codes_of(f.array_of, version)) for f in fields if f.is_array() and f.is_struct_array())
    return _Codes(own, tuple((name, codes) for name, codes in inner if codes.fields or codes.arrays))


def _replace_codes(structure: Message, codes: _Codes, key: int, version: int) -> None:
    for name in codes.fields:
        if code := getattr(structure, name):
            setattr(structure, name, sent_code(key, version, code))
    for name, inner in codes.arrays:
        for element in getattr(structure, name) or ():
            _replace_codes(element, inner, key, version)


class _Field(NamedTuple):
    """How a field is read, and how many bytes it takes at least."""

    name: str
    read: _Read
    min_bytes: int


@cache
def _reading(request_type: Any, version: int) -> _Field:
    flexible = request_type.flexible_version_q(version)
    return _of_struct(request_type._struct, request_type, version, flexible=flexible)


def _of_struct(definition: Any, message_type: Any, version: int, *, flexible: bool) -> _Field:
    assert not definition.tagged_fields(version)._fields, f"a tagged field of {definition.name} that is not read"
    fields = [
        _of_field(untagged_field, version, flexible=flexible) for untagged_field in definition.untagged_fields(version)
    ]
    named = [(field.name, field.read) for field in fields]

    def read(reader: Reader) -> Message:
        message = object.__new__(message_type)
        message._version, message.tags, message.unknown_tags = version, None, None
        for name, read_field in named:
            setattr(message, name, read_field(reader))
        reader.pass_tags()
        return message

    return _Field(definition.name, read, sum(entry.min_bytes for entry in fields) + flexible)


def _of_field(definition: Any, version: int, *, flexible: bool) -> _Field:
    nullable = definition.nullable_for_version_q(version)
    name = definition.name
    if definition.is_array():
        element = definition.array_of
        of_element = (
            _of_struct(element, element.data_class, version, flexible=flexible)
            if definition.is_struct_array()
            else _of_simple(element, nullable=False, flexible=flexible)
        )
        return _Field(name, _array(name, of_element, nullable=nullable), 1 if flexible else 4)
    if definition.is_struct():
        of_struct = _of_struct(definition, definition.data_class, version, flexible=flexible)
        return _Field(name, _nullable_struct(of_struct.read), 1) if nullable else of_struct
    return _of_simple(definition, nullable=nullable, flexible=flexible)


def _of_simple(definition: Any, *, nullable: bool, flexible: bool) -> _Field:
    name, kind = definition.name, definition.type_str
    if kind == "string":
        read = Reader.long_string if name in _LONG else Reader.string
        return _Field(name, read if nullable else _never_null(name, read), 1 if flexible else 2)
    if kind == "bytes":
        return _Field(name, _read_bytes if nullable else _never_null(name, _read_bytes), 1 if flexible else 4)
    if kind == "uuid":
        return _Field(name, _read_uuid, _UUID_BYTES)
    layout = _NUMBERS[kind]
    return _Field(name, lambda reader: reader.unpack(layout)[0], layout.size)


def _array(name: str, element: _Field, *, nullable: bool) -> _Read:
    read_one, min_bytes = element.read, element.min_bytes

    def read(reader: Reader) -> list[Any] | None:
        count = reader.array_or_null(min_bytes)
        return None if count is None else [read_one(reader) for _ in range(count)]

    return read if nullable else _never_null(name, read)


def _never_null(name: str, read: _Read) -> _Read:
    def read_value(reader: Reader) -> Any:
        value = read(reader)
        if value is None:
            raise MalformedError(f"{name} is null")
        return value

    return read_value


def _nullable_struct(read: _Read) -> _Read:
    """A byte says whether it is there (KIP-893)."""

    def read_value(reader: Reader) -> Message | None:
        return None if reader.take(1)[0] == _NO_STRUCT else read(reader)

    return read_value


def _read_bytes(reader: Reader) -> bytes | None:
    data = reader.bytes_()
    return None if data is None else bytes(data)


def _read_uuid(reader: Reader) -> uuid.UUID | None:
    """None for the id of zeros, which stands for none."""
    data = bytes(reader.take(_UUID_BYTES))
    return None if data == _NO_UUID else uuid.UUID(bytes=data)
