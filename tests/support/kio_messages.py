"""Messages by kio, an implementation of Kafka's protocol that shares nothing with ours nor with kafka-python's."""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

_NULL_SHARE: Final = 0.2
_INTS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 17}
_TEXTS: Final = ("", "a", "topic-0", "x.y_z", "ü🐙", "n" * 130, "n" * 20_000)
_ERRORS: Final = tuple(ErrorCode)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def invent(entity_type: Any, random_: random.Random) -> Any:
    """An instance with every field filled: boundaries among numbers, null where that is allowed."""
    hints = typing.get_type_hints(entity_type)
    fields = dataclasses.fields(entity_type)
    return entity_type(**{f.name: _value(hints[f.name], f.metadata.get("kafka_type"), random_) for f in fields})


def write(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def read(entity_type: Any, data: bytes) -> Any:
    """Raises AssertionError where bytes are left over."""
    entity, size_bytes = entity_reader(entity_type)(data, 0)
    assert size_bytes == len(data), f"{len(data) - size_bytes} bytes after the {entity_type.__name__}"
    return entity


def _value(hint: Any, kind: str | None, random_: random.Random) -> Any:
    arguments = typing.get_args(hint)
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        if random_.random() < _NULL_SHARE:
            return None
        return _value(next(a for a in arguments if a is not types.NoneType), kind, random_)
    if typing.get_origin(hint) is tuple:
        return tuple(_value(arguments[0], kind, random_) for _ in range(random_.choice((0, 1, 1, 2, 3))))
    if dataclasses.is_dataclass(hint):
        return invent(hint, random_)
    return _simple(kind, random_)


def _simple(kind: str | None, random_: random.Random) -> Any:
    if kind in _INTS:
        most = 1 << _INTS[kind] - 1
        return random_.choice((0 if kind == "uint16" else -most, most - 1, 0, 1, random_.randrange(most)))
    match kind:
        case "bool":
            return random_.random() < 0.5
        case "string":
            return random_.choice(_TEXTS)
        case "bytes" | "records":
            return random_.randbytes(random_.choice((0, 1, 100, 5_000)))
        case "error_code":
            return random_.choice(_ERRORS)
        case "uuid":
            return uuid.UUID(int=random_.getrandbits(128))
        case "float64":
            return random_.choice((0.0, -1.5, 1e300))
        case "timedelta_i32" | "timedelta_i64":
            return datetime.timedelta(milliseconds=random_.choice((0, 1, 30_000, 2**31 - 1)))
        case "datetime_i64":
            return _EPOCH + datetime.timedelta(milliseconds=random_.choice((0, 1_700_000_000_123)))
    raise AssertionError(f"nobody knows a {kind}")
