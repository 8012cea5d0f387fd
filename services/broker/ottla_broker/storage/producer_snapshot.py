"""Snapshots of a partition's producers. `<offset>.snapshot` beside the log says what its batches before that offset
contain.

    version int16 | crc uint32, of all that follows | count int32 | per producer: id int64, size uint16, entry
    | count int32 | per ended transaction: first offset int64, marker's offset int64
    | where the log has a shard fence: epoch int32, incarnation int64, offset int64

Kafka's version is 1, which keeps one batch of each producer. This version is 101. Kafka throws it away and builds its
own, and this release does so with Kafka's, and with those of version 100, which had no transactions. Entries are those
of `Producers`. Ended transactions are those whose markers may not have been below the high watermark yet. The fence is
here because it, too, is rebuilt from the batches and taken back by a truncation; but it does not expire. Source:
KIP-98, ProducerStateManager.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Final, NamedTuple

from ottla_broker.machines.shard import NO_FENCE, StoredFence
from ottla_broker.machines.transactions import EndedTransaction
from ottla_core.records.batch import extend_crc
from ottla_core.records.fence import ShardFence

SUFFIX: Final = ".snapshot"

_VERSION: Final = 101
_NAME: Final = re.compile(r"(\d{20})\.snapshot")
_HEADER: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_PRODUCER: Final = struct.Struct(">qH")
_ENDED: Final = struct.Struct(">qq")
_FENCE: Final = struct.Struct(">iqq")


class ProducerSnapshot(NamedTuple):
    """What a log's batches contain: each producer's entry, the transactions that have ended of late, and the highest
    fence."""

    producers: Mapping[int, bytes]
    fence: StoredFence = NO_FENCE
    ended: tuple[EndedTransaction, ...] = ()


def path_of(directory: PurePath, offset: int) -> PurePath:
    return directory / f"{offset:020d}{SUFFIX}"


def offsets_in(names: Iterable[str]) -> list[int]:
    """Return the offsets of all snapshots among the files of these names, the newest last."""
    return sorted(int(name[1]) for name in map(_NAME.fullmatch, names) if name)


def encode(snapshot: ProducerSnapshot) -> bytes:
    parts = [_COUNT.pack(len(snapshot.producers))]
    for producer_id, entry in snapshot.producers.items():
        parts += (_PRODUCER.pack(producer_id, len(entry)), entry)
    parts += [_COUNT.pack(len(snapshot.ended)), *(_ENDED.pack(*ended) for ended in snapshot.ended)]
    if snapshot.fence.exists:
        parts.append(_FENCE.pack(*snapshot.fence.fence, snapshot.fence.offset))
    body = b"".join(parts)
    return _HEADER.pack(_VERSION, extend_crc(0, body)) + body


def decode(data: bytes) -> ProducerSnapshot:
    """Reverse `encode`. Raises ValueError if the data is not valid."""
    if len(data) < _HEADER.size + _COUNT.size:
        raise ValueError(f"it has only {len(data)} bytes")
    version, crc = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"it has version {version}, but this release reads version {_VERSION}")
    if extend_crc(0, memoryview(data)[_HEADER.size :]) != crc:
        raise ValueError("its CRC is wrong")
    entries = {}
    (count,), at = _COUNT.unpack_from(data, _HEADER.size), _HEADER.size + _COUNT.size
    for _ in range(count):
        producer_id, size_bytes = _PRODUCER.unpack_from(data, at)
        at += _PRODUCER.size
        entries[producer_id] = data[at : at + size_bytes]
        at += size_bytes
    (count,), at = _COUNT.unpack_from(data, at), at + _COUNT.size
    ended = tuple(EndedTransaction(*_ENDED.unpack_from(data, at + n * _ENDED.size)) for n in range(count))
    at += count * _ENDED.size
    if at + _FENCE.size > len(data):
        return ProducerSnapshot(entries, ended=ended)
    epoch, incarnation, offset = _FENCE.unpack_from(data, at)
    return ProducerSnapshot(entries, StoredFence(ShardFence(epoch, incarnation), offset), ended)
