"""Varints: known encodings, the whole range of int64, and what is not one."""

from __future__ import annotations

import pytest

from ottla_core.records.varint import MAX_VARINT_BYTES, decode_varint, encode_varint

KNOWN = {
    0: "00",
    -1: "01",
    1: "02",
    -64: "7f",
    64: "8001",
    150: "ac02",
    -(2**31): "ffffffff0f",
    2**31 - 1: "feffffff0f",
}


@pytest.mark.parametrize(("value", "encoded"), KNOWN.items())
def test_known_values_are_encoded_as_protobuf_does(value: int, encoded: str) -> None:
    assert encode_varint(value).hex() == encoded
    assert decode_varint(b"\xff" + bytes.fromhex(encoded) + b"\xff", 1) == (value, 1 + len(encoded) // 2)


def test_every_power_of_two_survives() -> None:
    for exponent in range(64):
        for value in {2**exponent - 1, -(2**exponent)}:
            encoded = encode_varint(value)
            assert len(encoded) <= MAX_VARINT_BYTES
            assert decode_varint(encoded, 0) == (value, len(encoded))


def test_what_is_cut_off_or_too_long_is_told_apart() -> None:
    with pytest.raises(IndexError):
        decode_varint(b"\x80\x80", 0)
    with pytest.raises(IndexError):
        decode_varint(b"\x02", 1)
    assert decode_varint(b"\x80" * 9 + b"\x01", 0) == (2**62, 10)
    assert decode_varint(b"\xff" * 9 + b"\x7f", 0) == (-(2**63), 10)  # what exceeds 64 bits is dropped, as C does
    with pytest.raises(ValueError, match="longer than 10"):
        decode_varint(b"\x80" * 10 + b"\x01", 0)
