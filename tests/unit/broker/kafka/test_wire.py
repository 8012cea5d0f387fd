"""Primitive types: what is written is read again, and what is cut off or lies is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla_core.kafka_formats.primitives import MalformedError, Reader, Writer

INT64 = struct.Struct(">q")


@given(
    st.booleans(),
    st.one_of(st.none(), st.text(max_size=300)),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=300),
    st.dictionaries(st.integers(0, 200), st.binary(max_size=200), max_size=4),
)
def test_what_is_written_is_read(
    flexible: bool, text: str | None, number: int, data: bytes, tags: dict[int, bytes]
) -> None:
    writer = Writer(flexible=flexible)
    writer.string(text)
    writer.varint(number)
    writer.bytes_length(len(data))
    writer.buffer += data
    writer.array(3)
    writer.pack(INT64, -7)
    writer.int16(-2)
    writer.int32(2**31 - 1)
    writer.tags(tags)
    reader = Reader(memoryview(writer.buffer), flexible=flexible)
    assert (reader.string(), reader.varint()) == (text, number)
    view = reader.bytes_()
    assert view is not None
    assert bytes(view) == data
    assert (reader.array(1), reader.unpack(INT64), reader.int16(), reader.int32()) == (3, (-7,), -2, 2**31 - 1)
    behind = Reader(reader.data, reader.at, flexible=flexible)
    behind.pass_tags()
    wanted = max(tags, default=7)
    assert reader.tag(wanted) == (tags.get(wanted) if flexible else None)
    assert behind.at == reader.at
    assert reader.at == reader.end


LIES: dict[str, tuple[bytes, bool, Callable[[Reader], object]]] = {
    "a string longer than the frame": (b"\0\5abc", False, Reader.string),
    "a compact string longer than the frame": (b"\6abc", True, Reader.string),
    "not UTF-8": (b"\0\1\xff", False, Reader.string),
    "bytes longer than the frame": (b"\x7f\xff\xff\xffabc", False, Reader.bytes_),
    "a number that is cut off": (b"\0\0\0", False, Reader.int32),
    "a varint that is cut off": (b"\xff\xff", True, Reader.varint),
    "a varint of six bytes": (b"\xff\xff\xff\xff\xff\1", True, Reader.varint),
    "more tags than bytes": (b"\x7fabc", True, Reader.pass_tags),
    "a tag longer than the frame": (b"\1\0\x7f", True, Reader.pass_tags),
    "an array longer than the frame": (b"\0\0\0\5abc", False, lambda r: r.array(1)),
    "a compact array longer than the frame": (b"\xff\xff\xff\xff\x0fabc", True, lambda r: r.array(1)),
}


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused(name: str) -> None:
    data, flexible, read = LIES[name]
    with pytest.raises(MalformedError):
        read(Reader(memoryview(data), flexible=flexible))


@pytest.mark.parametrize(("data", "flexible"), [(b"\xff\xff\xff\xff", False), (b"\0", True), (b"\x80\0\0\0", False)])
def test_arrays_that_are_null_or_negative_are_empty(data: bytes, flexible: bool) -> None:
    assert Reader(memoryview(data), flexible=flexible).array(1) == 0
    assert Reader(memoryview(data), flexible=flexible).bytes_() is None
