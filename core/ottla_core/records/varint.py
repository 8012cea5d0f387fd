"""Zigzag varints, as the fields of a record are written: 7 bits a byte, low bits first (protobuf's sint64).

They are for the pure twin and for tests. The compiled twin has its own in C.
"""

from __future__ import annotations

from typing import Final

MAX_VARINT_BYTES: Final = 10

_ONE_BYTE: Final = tuple(bytes((n,)) for n in range(0x80))
_UINT64: Final = (1 << 64) - 1


def encode_varint(value: int) -> bytes:
    """Return one signed 64-bit integer in 1 to 10 bytes."""
    rest = value << 1 if value >= 0 else ~(value << 1)
    if rest < 0x80:
        return _ONE_BYTE[rest]
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def decode_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the integer at `at` and the position behind it. Raises IndexError if `data` ends, and ValueError past 10
    bytes."""
    byte = data[at]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), at + 1
    value, shift = byte & 0x7F, 7
    while True:
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= _UINT64
            return (value >> 1) ^ -(value & 1), at + 1
        shift += 7
        if shift > 63:
            raise ValueError(f"a varint is longer than {MAX_VARINT_BYTES} bytes")
