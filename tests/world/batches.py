"""This module chooses the batches that the producers of a table write.

A batch has one record or several. Some batches are larger than a gRPC request. Others are compressed, and the records
that a clean leaves of them compress even better.

Each record has a name that never repeats. The name of a tombstone is its header, and that of any other record is its
value.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from random import Random
from types import MappingProxyType
from typing import Final, NamedTuple

from tests.world.client import batches_in

from ottla_core.model import MAX_BATCH_BYTES
from ottla_core.records.batch import Buffer
from ottla_core.records.compression import Codec
from ottla_core.records.reader import read_records
from ottla_core.records.twins import new_builder
from ottla_core.rpc.status import MAX_MESSAGE_BYTES

GIANTS: Final = 512
"""If limits are divided by this number, a clean meets records that compress a hundred times better than others."""
LARGE: Final = 8192
"""If limits are divided by this number, producers write batches that no gRPC request can hold."""

_CONFIGS: Final = MappingProxyType(
    {
        1: MappingProxyType({}),
        GIANTS: MappingProxyType({"max.message.bytes": "6000", "segment.bytes": "8000"}),
        LARGE: MappingProxyType({"max.message.bytes": str(MAX_BATCH_BYTES // LARGE), "segment.bytes": "16000"}),
    }
)
_SEVERAL_SHARE: Final = 0.1
_BIG_SHARE: Final = 0.03
_SEVERAL: Final = (2, 8)
_RANDOM_KEY: Final = b"random"
_RANDOM_BYTES: Final = 400
_ALIKE: Final = 24
_ALIKE_BYTES: Final = 1900


_TOMBSTONE_SHARE: Final = 0.05
_TOMBSTONE: Final = b"-"


class Batch(NamedTuple):
    """A batch has records, which are pairs of a key and a name, and the codec that compresses them."""

    records: Sequence[tuple[bytes, bytes]]
    codec: Codec

    def sealed(self, timestamp_ms: int) -> bytes:
        builder = new_builder(1 << 20)
        for key, name in self.records:
            is_deletion = is_tombstone(name)
            value, headers = (None, [("name", name)]) if is_deletion else (name, [])
            assert builder.append(timestamp_ms, key, value, headers)
        return builder.seal(self.codec)


def is_tombstone(name: bytes) -> bool:
    """Return whether the record of this name deletes its key."""
    return name.startswith(_TOMBSTONE)


def named_records(data: Buffer) -> list[tuple[int, bytes, bytes]]:
    """Return the records of batches as (offset, key, name)."""
    return [
        (offset, bytes(key or b""), bytes((headers[0][1] if headers else value) or b""))
        for _, batch in batches_in(data)
        for offset, _, key, value, headers in read_records(batch)
    ]


class Batches:
    """This chooses batches. The product's limits are divided by `shrunk_by`.

    `several` is the share of batches that have more than one record.
    """

    def __init__(self, random: Random, shrunk_by: int, several: float = _SEVERAL_SHARE) -> None:
        self._several: Final = several
        self._random: Final = random
        self._shrunk_by: Final = shrunk_by
        self._keys: Final = [b"k%d" % n for n in range(random.choice((2, 8, 100, 1000)))]
        self._numbers: Final = itertools.count()

    @property
    def configs(self) -> dict[str, str]:
        """Return the configs with which a topic takes such batches."""
        return dict(_CONFIGS[self._shrunk_by])

    def next(self) -> Batch:
        random = self._random
        if random.random() < _BIG_SHARE and self._shrunk_by > 1:
            return self._giant() if self._shrunk_by == GIANTS else self._large()
        if random.random() < self._several:
            records = [self._record() for _ in range(random.randint(*_SEVERAL))]
            return Batch(records, random.choice(list(Codec)))
        return Batch([self._record()], Codec.NONE)

    def _large(self) -> Batch:
        """Return a batch that fits into a response, but not into a request. A few fit into neither."""
        size_bytes = self._random.randint(MAX_MESSAGE_BYTES // LARGE, MAX_BATCH_BYTES // LARGE + 100)
        return Batch([self._record(b"." * size_bytes)], Codec.NONE)

    def _giant(self) -> Batch:
        """Return a batch that is large because of one record. The next such batch supersedes that record."""
        alike = [self._record(b"." * _ALIKE_BYTES) for _ in range(_ALIKE)]
        return Batch([(_RANDOM_KEY, self._value(self._random.randbytes(_RANDOM_BYTES))), *alike], Codec.ZSTD)

    def _record(self, padding: bytes = b"") -> tuple[bytes, bytes]:
        key, name = self._random.choice(self._keys), self._value(padding)
        return key, _TOMBSTONE + name if not padding and self._random.random() < _TOMBSTONE_SHARE else name

    def _value(self, padding: bytes) -> bytes:
        return b"v%d" % next(self._numbers) + padding
