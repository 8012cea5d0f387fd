"""Kafka's primitive types, read from bytes and written to them, in their plain and their compact spelling.

Every claim about a length or a count is compared with the bytes that are there, before anything is allocated for it.
Source: the protocol guide of Apache Kafka, KIP-482 (flexible versions).
"""

from __future__ import annotations

import struct
from typing import Any, Final

_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")
_VARINT_MAX_SHIFT: Final = 28

MAX_STRING_BYTES: Final = 0x7FFF
"""Kafka's own limit, even if the spelling could say more."""
MAX_ELEMENTS: Final = 100_000
"""The limit for all arrays and tags of a request together. A decoded element takes many times its bytes, and no real
request has more."""
_TAG_MIN_BYTES: Final = 2


class MalformedError(Exception):
    """The bytes are not what they say they are, so it can't be known where the next field begins."""


class Reader:
    """Reads on from `at`. `flexible` chooses the compact spelling of strings, bytes and arrays, and tags. There may be
    `most` elements of arrays, and tags, together."""

    __slots__ = ("_elements", "_most", "at", "data", "end", "flexible")

    def __init__(self, data: memoryview, at: int = 0, *, flexible: bool = False, most: int = MAX_ELEMENTS) -> None:
        self.data = data
        self.at = at
        self.end = len(data)
        self.flexible = flexible
        self._elements = 0
        self._most = most

    @property
    def left(self) -> int:
        """This is the number of bytes that were not read yet."""
        return self.end - self.at

    def unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read several fields of fixed size at once."""
        try:
            values = layout.unpack_from(self.data, self.at)
        except struct.error:
            raise _truncated() from None
        self.at += layout.size
        return values

    def int16(self) -> int:
        return int(self.unpack(_INT16)[0])

    def int32(self) -> int:
        return int(self.unpack(_INT32)[0])

    def int64(self) -> int:
        return int(self.unpack(_INT64)[0])

    def varint(self) -> int:
        """Read an unsigned varint of at most five bytes."""
        value = shift = 0
        while self.at < self.end:
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7
            if shift > _VARINT_MAX_SHIFT:
                raise MalformedError("a varint is longer than five bytes")
        raise _truncated()

    def plain_string(self) -> str | None:
        """Read a string with a length of two bytes, whatever `flexible` says."""
        return self._text(self.int16())

    def string(self) -> str | None:
        return self._text(self.varint() - 1 if self.flexible else self.int16())

    def long_string(self) -> str | None:
        """Read a string that may be longer than Kafka's limit if its spelling can say so. Its reader has a limit of its
        own."""
        return self._text(self.varint() - 1, self.left) if self.flexible else self.string()

    def bytes_(self) -> memoryview | None:
        """Read bytes, and return a view of the frame, not a copy."""
        size_bytes = self.varint() - 1 if self.flexible else self.int32()
        return None if size_bytes < 0 else self.take(size_bytes)

    def array(self, element_min_bytes: int) -> int:
        """Return how many elements follow, or 0 if the array is null. Each takes at least `element_min_bytes`."""
        return self.array_or_null(element_min_bytes) or 0

    def few(self, element_min_bytes: int, most: int, what: str, *, before: int = 0) -> int:
        """Return what `array` returns, for elements that are handled in one turn. Raises MalformedError if, with those
        `before`, they are more than `most`."""
        count = self.array(element_min_bytes)
        if before + count > most:
            raise MalformedError(f"{what} more than {most} topics or partitions is not accepted")
        return count

    def array_or_null(self, element_min_bytes: int) -> int | None:
        count = self.varint() - 1 if self.flexible else self.int32()
        if count < 0:
            return None
        self._check_count(count, element_min_bytes, "elements of an array")
        return count

    def take(self, size_bytes: int) -> memoryview:
        start, self.at = self.at, self.at + size_bytes
        if self.at > self.end:
            raise _truncated()
        return self.data[start : self.at]

    def pass_tags(self) -> None:
        """Skip the tagged fields. A version without tags has none."""
        if not self.flexible:
            return
        if self.at < self.end and self.data[self.at] == 0:
            self.at += 1
            return
        self.tag(-1)

    def tag(self, tag: int) -> memoryview | None:
        """Skip the tagged fields, and return the value of one of them, or None if it is not there. Nothing of the
        others is kept."""
        value, count = None, self.varint() if self.flexible else 0
        self._check_count(count, _TAG_MIN_BYTES, "tagged fields")
        for _ in range(count):
            number, size_bytes = self.varint(), self.varint()
            if number == tag:
                value = self.take(size_bytes)
            else:
                self.at += size_bytes
        if self.at > self.end:
            raise _truncated()
        return value

    def _check_count(self, count: int, element_min_bytes: int, name: str) -> None:
        self._elements += count
        if count * element_min_bytes > self.left or self._elements > self._most:
            raise MalformedError(
                f"the frame can't hold {count} {name}: it has {self.left} bytes left and already contains "
                f"{self._elements - count} elements"
            )

    def _text(self, size_bytes: int, max_bytes: int = MAX_STRING_BYTES) -> str | None:
        if size_bytes < 0:
            return None
        if size_bytes > max_bytes:
            raise MalformedError(f"a string of {size_bytes} bytes is too long")
        try:
            return str(self.take(size_bytes), "utf-8")
        except UnicodeDecodeError:
            raise MalformedError("a string is not valid UTF-8") from None


def _truncated() -> MalformedError:
    return MalformedError("the bytes end in the middle of a field")


class Writer:
    """Collects the fields of a message. `flexible` chooses the compact spelling, as in `Reader`."""

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

    def int64(self, value: int) -> None:
        self.buffer += _INT64.pack(value)

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
        """Write an array's count. -1 is null."""
        self._length(count, _INT32)

    def bytes_(self, data: bytes) -> None:
        self.bytes_length(len(data))
        self.buffer += data

    def bytes_length(self, size_bytes: int) -> None:
        """Write the length of that many bytes, which the caller adds."""
        self._length(size_bytes, _INT32)

    def tags(self, fields: dict[int, bytes] | None = None) -> None:
        """Write tagged fields in the order of their numbers. Nothing is written in a version that has no tags."""
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
