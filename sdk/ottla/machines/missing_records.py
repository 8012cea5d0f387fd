"""What some replica of a compacted topic has and another one has not, until something supersedes it.

A key is known by 128 bits of a hash. Of each, the newest record is enough: what supersedes it supersedes the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, NamedTuple

FENCE: Final = b""
"""Stands for the key of all fences: a newer one supersedes them."""
RECORD_BYTES: Final = 200
"""What a missing record takes: its hash, its offset, and their place in a dict."""
_HASH_BYTES: Final = 16


def key_hash(key: bytes | None, offset: int) -> bytes:
    """A record without a key is superseded by none: it has its offset."""
    return offset.to_bytes(8) if key is None else blake2b(key, digest_size=_HASH_BYTES).digest()


class Suspect(NamedTuple):
    """The record at `offset`, which `broker` lacks though nothing supersedes it."""

    offset: int
    broker: int
    key: bytes


@dataclass(slots=True)
class _Missing:
    """Of one replica: offsets by key. A tombstone may be missing as long as what it deletes is, too."""

    values: dict[bytes, int] = field(default_factory=dict)
    tombstones: dict[bytes, int] = field(default_factory=dict)

    def supersede(self, key: bytes) -> None:
        self.values.pop(key, None)
        self.tombstones.pop(key, None)


class MissingRecords:
    """What each broker lacks of what another has, by key, until something newer shows that it may."""

    def __init__(self, brokers: Iterable[int]) -> None:
        self._missing: Final = {broker: _Missing() for broker in brokers}

    def __bool__(self) -> bool:
        """Whether a value is missing somewhere."""
        return any(missing.values for missing in self._missing.values())

    @property
    def is_empty(self) -> bool:
        """Whether neither values nor tombstones are missing."""
        return not any(missing.values or missing.tombstones for missing in self._missing.values())

    def add(self, broker: int, key: bytes, offset: int) -> int:
        """A value is missing there. Returns the bytes that this broker's missing records take."""
        missing = self._missing[broker]
        missing.supersede(key)
        missing.values[key] = offset
        return RECORD_BYTES * (len(missing.values) + len(missing.tombstones))

    def supersede(self, broker: int, key: bytes) -> None:
        """This broker has a newer record of the key; one that was dropped needs none."""
        if broker in self._missing:
            self._missing[broker].supersede(key)

    def delete(self, key: bytes) -> None:
        """One of them has a newer tombstone: it may be gone from the others already, with all that it deleted."""
        for missing in self._missing.values():
            missing.supersede(key)

    def add_tombstone(self, broker: int, key: bytes, offset: int) -> int:
        """As `add`; it counts from when `found` meets a record that it deletes."""
        missing = self._missing[broker]
        missing.tombstones[key] = offset
        return RECORD_BYTES * (len(missing.values) + len(missing.tombstones))

    def found(self, broker: int, key: bytes, offset: int) -> None:
        """In a second reading: a record of that broker that a tombstone should have taken along."""
        missing = self._missing[broker]
        if offset < missing.tombstones.get(key, -1):
            self.add(broker, key, missing.tombstones[key])

    def without_tombstones(self) -> list[int]:
        """The brokers that lack some."""
        return [broker for broker, missing in self._missing.items() if missing.tombstones]

    def drop(self, broker: int) -> None:
        del self._missing[broker]

    def first(self, start: int) -> Suspect | None:
        """The first value that is not before `start`."""
        suspects = (
            Suspect(offset, broker, key)
            for broker, missing in self._missing.items()
            for key, offset in missing.values.items()
            if offset >= start
        )
        return min(suspects, default=None)
