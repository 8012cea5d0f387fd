"""Record batches for produce requests: good ones, and those that lie about themselves.

A good batch is acknowledged and stays in the log, where later requests read it; each lie keeps what lies before it
intact, so that it is reached.
"""

from __future__ import annotations

import gzip
import random
import struct
import zlib
from collections.abc import Callable
from typing import Any, Final

import cramjam
import google_crc32c

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_CRC_AT: Final = 17
_ATTRIBUTES_AT: Final = 21
_NOON: Final = 1_700_000_000_000
_BOMB_BYTES: Final = 32 << 20

Lie = Callable[[random.Random], bytes]


def batch(
    records: bytes | None = None,
    *,
    count: int = 1,
    attributes: int = 0,
    magic: int = 2,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    last_delta: int | None = None,
    length_off: int = 0,
    crc_off: int = 0,
    max_timestamp: int = _NOON,
) -> bytes:
    """One batch. `length_off` and `crc_off`: by how much those two are wrong."""
    records = b"".join(record(n) for n in range(count)) if records is None else records
    last_delta = count - 1 if last_delta is None else last_delta
    data = bytearray(
        _HEADER.pack(
            0, _HEADER.size - 12 + len(records) + length_off, -1, magic, 0, attributes, last_delta,
            _NOON, max_timestamp, producer_id, epoch, sequence, count,
        )
    )  # fmt: skip
    data += records
    crc = google_crc32c.value(bytes(data[_ATTRIBUTES_AT:]))
    struct.pack_into(">I", data, _CRC_AT, crc + crc_off & 0xFFFFFFFF)
    return bytes(data)


def record(delta: int = 0, value: bytes = b"value") -> bytes:
    body = b"\0" + _zigzag(0) + _zigzag(delta) + _zigzag(-1) + _zigzag(len(value)) + value + _zigzag(0)
    return _zigzag(len(body)) + body


def _zigzag(value: int) -> bytes:
    value = value << 1 ^ value >> 63
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(data) + bytes([value])


def good(random_: random.Random) -> bytes:
    return batch(count=random_.choice((1, 1, 2, 10)))


def idempotent(random_: random.Random) -> bytes:
    """Make a batch of one of a few producers, in order or not."""
    producer_id, sequence = random_.randrange(5), random_.choice((0, 0, 1, 2, 2**31 - 1, -1))
    return batch(producer_id=producer_id, epoch=random_.choice((0, 0, 1, -1)), sequence=sequence)


def _compressed(random_: random.Random) -> bytes:
    """In every codec, each of which may hold something else than it says, and no records at all."""
    plain = random_.choice((record(), b"", b"rubbish" * 20))
    codec = random_.choice((1, 2, 3, 4))
    pack: dict[int, Callable[[bytes], Any]] = {
        1: _gzip,
        2: cramjam.snappy.compress_raw,
        3: cramjam.lz4.compress,
        4: cramjam.zstd.compress,
    }
    return batch(bytes(pack[random_.choice((codec, codec, 1, 4))](plain)), attributes=codec)


def _gzip(data: bytes) -> bytes:
    """Without the time of day, so that the same seed gives the same bytes."""
    return gzip.compress(data, mtime=0)


def _make_bombs() -> tuple[bytes, ...]:
    """A few thousand bytes that want to be many millions: in gzip, in zstd, and gzip in gzip."""
    zeros = bytes(_BOMB_BYTES)
    gzipped, zstd = zlib.compress(zeros, 9, 31), bytes(cramjam.zstd.compress(zeros, 19))
    return (
        batch(gzipped, count=1, attributes=1),
        batch(gzipped, count=1_000_000, attributes=1),
        batch(zstd, count=1, attributes=4),
        batch(_gzip(gzipped), count=1, attributes=1),
    )


_BOMBS: Final = _make_bombs()

REFUSED: Final[dict[str, Lie]] = {
    "crc": lambda r: batch(crc_off=r.choice((1, 1 << 31))),
    "magic": lambda r: batch(magic=r.choice((0, 1, 3, -1, 127))),
    "short": lambda r: batch()[: r.randrange(1, 61)],
    "cut off": lambda r: batch(count=3)[:-1],
    "longer than it is": lambda r: batch(length_off=r.choice((1, 1 << 20, 2**31 - 1 - 200))),
    "shorter than it is": lambda r: batch(length_off=r.choice((-1, -10, -60, -(1 << 30)))),
    "unknown codec": lambda r: batch(attributes=r.choice((5, 6, 7))),
    "count and delta": lambda r: batch(count=2, last_delta=r.choice((0, 5, -1, 2**31 - 1, -(2**31)))),
    "control": lambda r: batch(attributes=0x20),
    "trailing": lambda r: batch() + bytes(r.randrange(1, 30)),
    "empty": lambda r: b"",
}
"""What the broker must not take."""

EITHER: Final[dict[str, Lie]] = {
    "good": good,
    "idempotent": idempotent,
    "compressed": _compressed,
    "bomb": lambda r: r.choice(_BOMBS),
    "transactional": lambda r: batch(attributes=0x10, producer_id=1, epoch=0, sequence=0),
    "log append time": lambda r: batch(attributes=8),
    "time": lambda r: batch(max_timestamp=r.choice((-1, 0, 2**63 - 1, -(2**63)))),
    "two": lambda r: good(r) + good(r),
    "lies inside": lambda r: batch(r.randbytes(r.randrange(0, 80))),
    "negative count": lambda r: batch(b"", count=r.choice((0, -1, -(2**31))), last_delta=0),
    "unused bits": lambda r: batch(attributes=r.choice((0x40, 0x80, 0x7F00))),
}
"""What it may take or refuse, as long as it goes on."""


def records(random_: random.Random) -> bytes:
    """Batches for a produce that may end in any way."""
    share = random_.random()
    if share < 0.5:
        return good(random_)
    lies = REFUSED if share < 0.75 else EITHER
    return lies[random_.choice(list(lies))](random_)
