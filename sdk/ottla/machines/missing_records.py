"""The records of a compacted topic that some replica has and another one lacks, until a newer record supersedes them.

A key is identified by 128 bits of a hash. Only its newest record is kept, because a record that supersedes the newest
one also supersedes the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

FENCE: Final = b""
"""Stands for the key of all fences: a newer one supersedes them."""
RECORD_BYTES: Final = 200
"""The memory of a missing record: its hash, its offset, and their entry in a dict."""
_HASH_BYTES: Final = 16


def key_hash(key: bytes | None, offset: int) -> bytes:
    """Return the hash of a key. A record without a key is never superseded, so its offset stands in for the key."""
    return offset.to_bytes(8) if key is None else blake2b(key, digest_size=_HASH_BYTES).digest()


class Suspect(NamedTuple):
    """The record at `offset`, which `broker` lacks though nothing supersedes it."""

    offset: int
    broker: int
    key: bytes


@dataclass(slots=True)
class _Missing:
    """The missing records of one replica: offsets by key.

    A tombstone may be missing if the records that it deletes are missing as well.
    """

    values: dict[bytes, int] = field(default_factory=dict)
    tombstones: dict[bytes, int] = field(default_factory=dict)

    def supersede(self, key: bytes) -> None:
        self.values.pop(key, None)
        self.tombstones.pop(key, None)


class MissingRecords:
    """The records that each broker lacks and another has, by key, until a newer record explains why."""

    def __init__(self, brokers: Iterable[int]) -> None:
        self._missing: Final = {broker: _Missing() for broker in brokers}

    def __bool__(self) -> bool:
        """Return whether a value is missing on some broker."""
        return any(missing.values for missing in self._missing.values())

    @property
    def is_empty(self) -> bool:
        """Whether neither values nor tombstones are missing."""
        return not any(missing.values or missing.tombstones for missing in self._missing.values())

    def add(self, broker: int, key: bytes, offset: int) -> int:
        """Note that a broker lacks a value. Returns the bytes that this broker's missing records take."""
        missing = self._missing[broker]
        missing.supersede(key)
        missing.values[key] = offset
        return RECORD_BYTES * (len(missing.values) + len(missing.tombstones))

    def supersede(self, broker: int, key: bytes) -> None:
        """Note that this broker has a newer record of the key, which explains a missing one."""
        if broker in self._missing:
            self._missing[broker].supersede(key)

    def delete(self, key: bytes) -> None:
        """Note that a broker has a newer tombstone.

        The others may have removed it already, with all that it deleted.
        """
        for missing in self._missing.values():
            missing.supersede(key)

    def add_tombstone(self, broker: int, key: bytes, offset: int) -> int:
        """Like `add`, for a tombstone; it counts once `found` meets a record that it deletes."""
        missing = self._missing[broker]
        missing.tombstones[key] = offset
        return RECORD_BYTES * (len(missing.values) + len(missing.tombstones))

    def found(self, broker: int, key: bytes, offset: int) -> None:
        """Note a record, found in a second read of a broker, that a tombstone should have deleted there."""
        missing = self._missing[broker]
        if offset < missing.tombstones.get(key, -1):
            self.add(broker, key, missing.tombstones[key])

    def without_tombstones(self) -> list[int]:
        """Return the brokers that lack tombstones."""
        return [broker for broker, missing in self._missing.items() if missing.tombstones]

    def drop(self, broker: int) -> None:
        del self._missing[broker]

    def first(self, start: int) -> Suspect | None:
        """Return the first missing value at or after `start`."""
        suspects = (
            Suspect(offset, broker, key)
            for broker, missing in self._missing.items()
            for key, offset in missing.values.items()
            if offset >= start
        )
        return min(suspects, default=None)
