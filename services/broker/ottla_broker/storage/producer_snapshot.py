"""Snapshots of a partition's producers: `<offset>.snapshot` beside the log, what its batches before that offset tell.

    version int16 | crc uint32, of all that follows | count int32 | per producer: id int64, size uint16, entry

Kafka's version is 1 and keeps one batch of each producer; this is 100, which Kafka throws away and builds anew, as this
release does with Kafka's. Entries are those of `Producers`. Source: KIP-98, ProducerStateManager.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla_core.records.batch import extend_crc

SUFFIX: Final = ".snapshot"

_VERSION: Final = 100
_NAME: Final = re.compile(r"(\d{20})\.snapshot")
_HEADER: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_PRODUCER: Final = struct.Struct(">qH")


def path_of(directory: Path, offset: int) -> Path:
    return directory / f"{offset:020d}{SUFFIX}"


def offsets_in(directory: Path) -> list[int]:
    """The offsets of all snapshots there, the newest last."""
    names = map(_NAME.fullmatch, (path.name for path in directory.iterdir()))
    return sorted(int(name[1]) for name in names if name)


def encode(entries: Mapping[int, bytes]) -> bytes:
    parts = [_COUNT.pack(len(entries))]
    for producer_id, entry in entries.items():
        parts += (_PRODUCER.pack(producer_id, len(entry)), entry)
    body = b"".join(parts)
    return _HEADER.pack(_VERSION, extend_crc(0, body)) + body


def decode(data: bytes) -> dict[int, bytes]:
    """What `encode` was given. Raises ValueError where that can't be told."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise ValueError(f"it has {len(data)} bytes")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"it has version {version}, and {_VERSION} is read")
    if extend_crc(0, memoryview(data)[_HEADER.size :]) != crc:
        raise ValueError("its CRC is wrong")
    entries = {}
    (count,), at = _COUNT.unpack_from(data, _HEADER.size), _HEADER.size + _COUNT.size
    for _ in range(count):
        producer_id, size_bytes = _PRODUCER.unpack_from(data, at)
        at += _PRODUCER.size
        entries[producer_id] = data[at : at + size_bytes]
        at += size_bytes
    return entries
