"""Kafka's primitive types, read from a frame and written to one, in their plain and their compact spelling.

For what is read by hand because it is hot, headers, Produce and Fetch; everything else goes through `codec`. Whatever a
client claims about lengths and counts is held against the bytes that are there, before anything is taken by it.
Source: the protocol guide of Apache Kafka, KIP-482 (flexible versions).
"""

from __future__ import annotations

import struct
from typing import Any, Final

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_VARINT_MAX_SHIFT: Final = 28


class MalformedError(Exception):
    """Bytes that are not the request that they say they are. The connection ends: what follows can't be found."""


class Reader:
    """Reads on from `at`. `flexible` chooses the compact spelling of strings, bytes and arrays, and tags."""

    __slots__ = ("at", "data", "end", "flexible")

    def __init__(self, data: memoryview, at: int = 0, *, flexible: bool = False) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.flexible = flexible

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several fields of fixed size at once."""
        try:
            values = layout.unpack_from(self.data, self.at)
        except struct.error:
            raise _cut_off() from None
        self.at += layout.size
        return values

    def int16(self) -> int:
        return int(self.unpack(_INT16)[0])

    def int32(self) -> int:
        return int(self.unpack(_INT32)[0])

    def varint(self) -> int:
        """An unsigned varint of at most five bytes."""
        value = shift = 0
        while self.at < self.end:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _VARINT_MAX_SHIFT:
                raise MalformedError("a varint of more than five bytes")
        raise _cut_off()

    def plain_string(self) -> str | None:
        """A string with a length of two bytes, whatever `flexible` says."""
        return self._text(self.int16())

    def string(self) -> str | None:
        return self._text(self.varint() - 1 if self.flexible else self.int16())

    def bytes_(self) -> memoryview | None:
        """A view of the frame, not a copy."""
        size_bytes = self.varint() - 1 if self.flexible else self.int32()
        return None if size_bytes < 0 else self.take(size_bytes)

    def array(self, element_min_bytes: int) -> int:
        """How many elements follow; 0 where the array is null. Each takes at least so many bytes."""
        count = self.varint() - 1 if self.flexible else self.int32()
        if count * element_min_bytes > self.end - self.at:
            raise MalformedError(f"an array of {count} elements in {self.end - self.at} bytes")
        return max(0, count)

    def take(self, size_bytes: int) -> memoryview:
        start, self.at = self.at, self.at + size_bytes
        if self.at > self.end:
            raise _cut_off()
        return self.data[start : self.at]

    def tags(self) -> dict[int, memoryview]:
        """Tagged fields by their number; none in a version that has no tags."""
        if not self.flexible:
            return {}
        if self.at < self.end and self.data[self.at] == 0:
            self.at += 1
            return {}
        return {self.varint(): self.take(self.varint()) for _ in range(self._tag_count())}

    def _tag_count(self) -> int:
        count = self.varint()
        if count * 2 > self.end - self.at:
            raise MalformedError(f"{count} tagged fields in {self.end - self.at} bytes")
        return count

    def _text(self, size_bytes: int) -> str | None:
        if size_bytes < 0:
            return None
        try:
            return str(self.take(size_bytes), "utf-8")
        except UnicodeDecodeError:
            raise MalformedError("a string that is not UTF-8") from None


def _cut_off() -> MalformedError:
    return MalformedError("the request ends in the middle of a field")


class Writer:
    """Collects an answer's fields. `flexible` chooses the compact spelling, as in `Reader`."""

    __slots__ = ("buffer", "flexible")

    def __init__(self, *, flexible: bool) -> None:
        self.buffer = bytearray()
        self.flexible = flexible

    def pack(self, layout: struct.Struct, *values: Any) -> None:
        self.buffer += layout.pack(*values)

    def int16(self, value: int) -> None:
        self.buffer += _INT16.pack(value)

    def int32(self, value: int) -> None:
        self.buffer += _INT32.pack(value)

    def varint(self, value: int) -> None:
        while value > 0x7F:
            self.buffer.append(value & 0x7F | 0x80)
            value >>= 7
        self.buffer.append(value)

    def string(self, text: str | None) -> None:
        if text is None:
            self._length(-1, _INT16)
            return
        data = text.encode()
        self._length(len(data), _INT16)
        self.buffer += data

    def array(self, count: int) -> None:
        """-1 is null."""
        self._length(count, _INT32)

    def bytes_length(self, size_bytes: int) -> None:
        """What comes before that many bytes, which the caller adds."""
        self._length(size_bytes, _INT32)

    def tags(self, fields: dict[int, bytes] | None = None) -> None:
        """Tagged fields in the order of their numbers; nothing in a version that has no tags."""
        if not self.flexible:
            return
        if not fields:
            self.buffer.append(0)
            return
        self.varint(len(fields))
        for number, value in sorted(fields.items()):
            self.varint(number)
            self.varint(len(value))
            self.buffer += value

    def _length(self, length: int, plain: struct.Struct) -> None:
        if self.flexible:
            self.varint(length + 1)
        else:
            self.buffer += plain.pack(length)
