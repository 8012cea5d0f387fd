"""The few requests of Kafka's protocol that these rows send, byte by byte: no client library would send most."""

from __future__ import annotations

import asyncio
import struct
from typing import Final

MIB: Final = 1 << 20
PRODUCE, FETCH, LIST_OFFSETS, METADATA, API_VERSIONS = 0, 1, 2, 3, 18
_SIZE: Final = struct.Struct(">i")


def string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


def framed(key: int, version: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", key, version, 1, -1)
    return _SIZE.pack(len(head) + len(body)) + head + body


def api_versions() -> bytes:
    return framed(API_VERSIONS, 0, b"")


def produce(topic: str, partition: int, batch: bytes) -> bytes:
    """With acks=all."""
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + string(topic)
    return framed(PRODUCE, 3, body + struct.pack(">iii", 1, partition, len(batch)) + batch)


def fetch(topic: str, partition: int, max_bytes: int) -> bytes:
    """From the first offset on."""
    body = struct.pack(">iiiibi", -1, 500, 1, max_bytes, 0, 1) + string(topic)
    return framed(FETCH, 4, body + struct.pack(">iiqi", 1, partition, 0, max_bytes))


def announced(size_bytes: int) -> bytes:
    """The first bytes of a produce of that size."""
    return struct.pack(">ihhih", size_bytes, PRODUCE, 3, 1, -1)


def offsets_of(topic: str, partition: int, times: int) -> bytes:
    """ListOffsets of one partition's first record of a time, again and again."""
    element = struct.pack(">iq", partition, 1)
    return framed(
        LIST_OFFSETS, 1, struct.pack(">ii", -1, 1) + string(topic) + struct.pack(">i", times) + element * times
    )


def metadata_of(topic: str, times: int) -> bytes:
    return framed(METADATA, 1, struct.pack(">i", times) + string(topic) * times)


def read_produced(answer: bytes) -> int:
    """The error code of a Produce 3 with one partition."""
    (name_bytes,) = struct.unpack_from(">h", answer, 8)
    return int(struct.unpack_from(">h", answer, 8 + 2 + name_bytes + 4 + 4)[0])


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    (size_bytes,) = _SIZE.unpack(await reader.readexactly(_SIZE.size))
    return await reader.readexactly(size_bytes)
