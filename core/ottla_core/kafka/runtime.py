"""Generated code calls these functions where its straight line ends: for long lengths, tagged fields and refusals.

Generated code treats lengths of one byte itself, since nearly all are. Everything that reads gets the whole `data` and
a position `at` in it, and returns the position behind what it has read. Nothing is allocated for a count before the
bytes left have been compared with it.
"""

from __future__ import annotations

from struct import pack, unpack_from
from typing import Final

from ottla_core.kafka_formats.primitives import MAX_STRING_BYTES, MalformedError

__all__ = ["MAX_STRING_BYTES", "pack", "unpack_from"]  # other modules' names that generated code uses

MAX_ARRAY_ELEMENTS: Final = 1_000_000
"""This is Kafka's MessageUtil.MAX_ARRAY_LENGTH."""
MAX_TAGGED_FIELDS: Final = 10_000
"""This is Kafka's MessageUtil.MAX_TAGGED_FIELD_COUNT, which holds for one structure."""
ONE_BYTE: Final = 0x80
"""Smaller numbers are varints of one byte."""
SMALL: Final = tuple(bytes([number]) for number in range(ONE_BYTE))
"""These are the varints of one byte."""
_SHIFTS: Final = (7, 14, 21, 28)
_TAG_MIN_BYTES: Final = 2


class UnencodableError(Exception):
    """A message has no spelling in the version that was requested."""


def long_varint(data: bytes, at: int, first: int) -> tuple[int, int]:
    """Return an unsigned varint of several bytes, whose `first` byte was read already."""
    value = first & 0x7F
    for shift in _SHIFTS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < ONE_BYTE:
            return value, at
    raise MalformedError("a varint is longer than five bytes")


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    first = data[at]
    return (first, at + 1) if first < ONE_BYTE else long_varint(data, at + 1, first)


def tagged_fields(data: bytes, at: int, first: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return the tag, the start and the end of each tagged field. `first` is the first byte of their count.

    The last may end behind the data, which is seen at the end of the message.
    """
    count = first
    if first >= ONE_BYTE:
        count, at = long_varint(data, at, first)
    if count > MAX_TAGGED_FIELDS or count * _TAG_MIN_BYTES > len(data) - at:
        raise too_many("tagged fields", count, len(data) - at)
    found = []
    for _ in range(count):
        tag, at = _read_varint(data, at)
        size, at = _read_varint(data, at)
        found.append((tag, at, at + size))
        at += size
    return found, at


def varint(value: int) -> bytes:
    """Return the spelling of an unsigned varint."""
    if value < ONE_BYTE:
        return SMALL[value]
    return bytes([value & 0x7F | ONE_BYTE]) + varint(value >> 7)


def text_size(size: int) -> bytes:
    """Return the spelling of a compact string's length and one."""
    if size > MAX_STRING_BYTES + 1:
        raise UnencodableError(f"a string of {size - 1} bytes is too long")
    return varint(size)


def tags_bytes(fields: list[tuple[int, bytes]]) -> bytes:
    """Return a structure's tagged fields, which are in the order of their tags."""
    return varint(len(fields)) + b"".join(varint(tag) + varint(len(value)) + value for tag, value in fields)


def absent(name: str) -> UnencodableError:
    return UnencodableError(f"this version has no {name}")


def too_many(name: str, count: int, left: int) -> MalformedError:
    return MalformedError(f"there can't be {count} {name}: the message has {left} bytes left")


def is_null(name: str) -> MalformedError:
    return MalformedError(f"{name} is null")


def too_long(name: str) -> MalformedError:
    return MalformedError(f"{name} is too long")


def ends_early() -> MalformedError:
    return MalformedError("the bytes end in the middle of a field")
