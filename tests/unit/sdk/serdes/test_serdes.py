"""What values become and come back as."""

import math
from typing import Any
from uuid import UUID

import pytest

from ottla.errors import ConfigError, SerializationError
from ottla.serdes.serdes import SerializerLike, deserializer, header_pairs, serializer


@pytest.mark.feature(2)
@pytest.mark.feature(3)
@pytest.mark.feature(60)
@pytest.mark.parametrize(
    ("serde", "value", "data"),
    [
        ("json", {"id": 1, "name": "Åse"}, '{"id":1,"name":"Åse"}'.encode()),
        ("json", [1, 2], b"[1,2]"),
        ("auto", "[1,2]", b"[1,2]"),
        ("auto", "plain", b"plain"),
        ("auto", b"\xff\x00", b"\xff\x00"),
        ("auto", "", b""),
        ("bytes", b"abc", b"abc"),
        ("str", "é", "é".encode()),
        ("int", -2, b"\xff\xff\xff\xff\xff\xff\xff\xfe"),
        ("json", 1.5, b"1.5"),
        ("json", "text", b'"text"'),
        (str, "typed", b"typed"),
        (int, 7, b"\0\0\0\0\0\0\0\7"),
        (dict, {}, b"{}"),
        ("float", 1.5, b"\x3f\xf8" + bytes(6)),
        (float, -0.0, b"\x80" + bytes(7)),
        ("uuid", UUID(int=7), b"00000000-0000-0000-0000-000000000007"),
        (UUID, UUID(int=1 << 127), b"80000000-0000-0000-0000-000000000000"),
    ],
)
def test_values_come_back_as_they_went_out(serde: SerializerLike[Any], value: Any, data: bytes) -> None:
    assert serializer(serde, "value")(value) == data
    assert deserializer(serde, "value")(data) == value


@pytest.mark.parametrize(
    ("serde", "value"),
    [
        *(("auto", value) for value in ({1}, math.nan, object(), {"x": {1}})),
        *(("int", value) for value in (True, 1 << 63, "5")),
        *(("json", value) for value in (math.nan, {1, 2})),
        *(("float", value) for value in ("1", True, 1 << 2000)),
        *(("uuid", value) for value in ("00000000-0000-0000-0000-000000000007", 7)),
        ("bytes", "x"),
        ("str", b"x"),
    ],
)
def test_what_a_serializer_does_not_take_is_named(serde: str, value: object) -> None:
    with pytest.raises(SerializationError) as caught:
        serializer(serde, "value")(value)
    assert "auto, bytes, str, int, float, uuid, json, a dataclass, or a callable" in caught.value.hint


@pytest.mark.feature(3)
def test_a_callable_is_a_serializer_and_a_wrong_name_is_refused() -> None:
    assert serializer(lambda value: value.hex().encode(), "value")(1.5) == b"0x1.8000000000000p+0"
    with pytest.raises(ConfigError, match="key='avro'"):
        serializer("avro", "key")
    with pytest.raises(ConfigError):
        deserializer(3, "key")  # type: ignore[arg-type]  # what no type allows


def test_a_class_that_has_no_json_is_no_serializer() -> None:
    class Plain:
        pass

    with pytest.raises(ConfigError, match="is not a serializer"):
        serializer(Plain, "value")
    assert deserializer(bytearray, "value")(b"ab") == bytearray(b"ab")


def test_floats_and_uuids_are_read_as_kafkas_clients_write_them() -> None:
    read = deserializer("float", "value")
    assert [read(b"\x3f\x80\0\0"), read(b"\xc0\x08" + bytes(6))] == [1.0, -3.0]
    assert serializer("float", "value")(3) == serializer("float", "value")(3.0)
    with pytest.raises(ValueError, match="bytes, not 3"):
        read(b"abc")
    with pytest.raises(ValueError, match="badly formed"):
        deserializer("uuid", "value")(b"not one")


def test_ints_are_read_in_every_width_that_kafka_writes() -> None:
    read = deserializer("int", "value")
    assert [read(b"\xff"), read(b"\0\x05"), read(b"\0\0\0\x05")] == [-1, 5, 5]
    with pytest.raises(ValueError, match="bytes, not 3"):
        read(b"abc")


@pytest.mark.feature(5)
def test_headers_are_pairs_or_a_mapping() -> None:
    assert header_pairs({"a": b"1", "b": None}, "t") == [("a", b"1"), ("b", None)]
    assert header_pairs([("a", "text"), ("a", b"2")], "t") == [("a", b"text"), ("a", b"2")]
    for wrong in ([("a",)], [(b"a", b"1")], 5):
        with pytest.raises(SerializationError, match="headers="):
            header_pairs(wrong, "t")  # type: ignore[arg-type]  # what no type allows
