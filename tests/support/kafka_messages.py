"""Messages of `ottla_core.kafka` with invented values, and the same messages as kafka-python has them."""

from __future__ import annotations

import importlib
import random
import uuid
from typing import Any, Final

from ottla_broker.kafka.api import Api
from ottla_core.kafka import messages
from ottla_core.kafka.message import Message
from ottla_core.kafka.schema import Field, Struct, extended_schema_of, schema_of

_NULL_SHARE: Final = 0.2
_TAG_SHARE: Final = 0.5
_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 17}
_TEXTS: Final = ("", "a", "topic-0", "x.y_z", "ü🐙", "n" * 126, "n" * 127, "n" * 128, "n" * 20_000)
_COUNTS: Final = (0, 1, 1, 1, 2, 3)
_THEIR_NAMES: Final = {
    "generation_id_or_member_epoch": "generation_id",
    "cluster_authorized_operations": "authorized_operations",
    "topic_authorized_operations": "authorized_operations",
}
"""Where kafka-python has another name than Kafka 4.4."""
_MODULES: Final = ("admin", "consumer", "metadata", "producer", "sasl")


def type_of(name: str) -> type[Message]:
    found: type[Message] = getattr(messages, name)
    return found


def invented(name: str, version: int, random_: random.Random, *, many: int = 0, extended: bool = False) -> Message:
    """A message in which every field of this version has a value: boundaries among numbers, null where it may be.

    `many`: most arrays of numbers, and most of any kind on the first level, have so many elements. `extended`: private
    fields have values, too.
    """
    schema = extended_schema_of(name) if extended else schema_of(name)
    return _struct(schema.struct, type_of(name), type_of(name), version, random_, (many, many))


def _struct(
    of: Struct, kind: type[Message], message: type[Message], version: int, random_: random.Random, many: tuple[int, int]
) -> Message:
    values = {}
    for field in of.fields:
        if version in field.tagged:
            if random_.random() < _TAG_SHARE:
                values[field.name] = _value(field, message, version, random_, many)
        elif version in field.versions:
            values[field.name] = _value(field, message, version, random_, many)
    return kind(**values)


def _value(field: Field, message: type[Message], version: int, random_: random.Random, many: tuple[int, int]) -> Any:
    if version in field.nullable and random_.random() < _NULL_SHARE:
        return None
    if not field.is_array:
        return _element(field, message, version, random_, many)
    of_any_kind, of_numbers = many
    count = random_.choice((*_COUNTS, *[of_numbers if field.kind in _BITS else of_any_kind] * 3))
    return [_element(field, message, version, random_, (0, of_numbers)) for _ in range(count)]


def _element(field: Field, message: type[Message], version: int, random_: random.Random, many: tuple[int, int]) -> Any:
    if field.struct is not None:
        return _struct(field.struct, getattr(message, field.struct.name), message, version, random_, many)
    if field.kind in _BITS:
        most = 1 << _BITS[field.kind] - 1
        return random_.choice((0 if field.kind == "uint16" else -most, most - 1, 0, 1, random_.randrange(most)))
    match field.kind:
        case "bool":
            return random_.random() < 0.5
        case "string":
            return random_.choice(_TEXTS)
        case "bytes" | "records":
            return random_.randbytes(random_.choice((0, 1, 100, 126, 127, 5_000)))
        case "uuid":
            return random_.choice((bytes(16), random_.randbytes(16)))
        case "float64":
            return random_.choice((0.0, -1.5, 1e300))
    raise AssertionError(f"nobody knows a {field.kind}")


# ---- kafka-python ----------------------------------------------------------------------------------------------------


def kafka_python_type(name: str) -> Any | None:
    """The class that kafka-python has for this message, or None for a message of an API that it does not know."""
    for module in _MODULES:
        found = getattr(importlib.import_module(f"kafka.protocol.{module}"), name, None)
        if found is not None:
            return found
    return None


def newest_known(name: str) -> int:
    """The last version of this message that kafka-python knows, or -1."""
    theirs = kafka_python_type(name)
    return -1 if theirs is None else int(theirs.max_version)


def known_versions(api: Api) -> range:
    """Return the versions that are served and that kafka-python knows."""
    return range(api.min_version, min(api.max_version, newest_known(f"{api.name}Request")) + 1)


def as_kafka_python(message: Message, version: int) -> Any:
    name = type(message).__name__
    return _theirs(message, schema_of(name).struct, kafka_python_type(name), version)


def _theirs(message: Message, of: Struct, their_type: Any, version: int) -> Any:
    values = {}
    for field in of.fields:
        value = getattr(message, field.name)
        if version not in field.versions or (version in field.tagged and value == field.default):
            continue
        if field.struct is not None:
            inner = getattr(their_type, field.struct.name)
            value = _converted(value, lambda each, f=field, t=inner: _theirs(each, f.struct, t, version))
        elif field.kind == "uuid":
            value = _converted(value, lambda each: uuid.UUID(bytes=each))
        name = _THEIR_NAMES.get(field.name, field.name)
        name = field.name if field.name in their_type._struct.fields else name
        values[name] = _bits(value) if name == "authorized_operations" else value
    return their_type(version=version, **values)


def _bits(value: int) -> set[int] | None:
    return None if value < 0 else {bit for bit in range(31) if value >> bit & 1}


def _converted(value: Any, convert: Any) -> Any:
    if value is None:
        return None
    return [convert(each) for each in value] if isinstance(value, list | tuple) else convert(value)
