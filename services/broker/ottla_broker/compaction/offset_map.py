"""The newest offset of each key in the dirty part of a log, in memory of a fixed size.

A key is known by 128 bits of a hash for which a producer can't make collisions. It takes 24 bytes, however long it is.
"""

from __future__ import annotations

from array import array
from hashlib import blake2b
from struct import Struct
from typing import Final

SLOT_BYTES: Final = 24
LEAST_BYTES: Final = 4 * SLOT_BYTES
_FIELDS: Final = 3  # two halves of the hash, the offset + 1; 0 is an empty slot
_HASH_BYTES: Final = 16
_LOAD: Final = 0.9
_PRIME_GAP: Final = 400
"""Below any number of slots there is a prime that is not further away."""
_halves: Final = Struct("=QQ").unpack


def bytes_for(keys: int) -> int:
    """Return a size that has room for this many keys."""
    return SLOT_BYTES * (int(keys / _LOAD) + _PRIME_GAP)


class OffsetMap:
    """A hash table with open addressing. Each key has a step of its own, so even at its fullest a key is found in some
    ten probes."""

    __slots__ = ("_end", "_room", "_slots", "_table", "count")

    def __init__(self, size_bytes: int) -> None:
        """Create a table of at most `size_bytes`, which are at least `LEAST_BYTES`."""
        assert size_bytes >= LEAST_BYTES, "a clean goes on by a record at least"
        self._slots: Final = _prime_below(size_bytes // SLOT_BYTES)
        self._room: Final = int(self._slots * _LOAD)
        self._end: Final = self._slots * _FIELDS
        self._table: Final = array("Q", (0,)) * self._end
        self.count = 0

    def put(self, key: bytes, offset: int) -> bool:
        """Note the newest offset of `key`. Return False if the key is new and there is no room left for it."""
        first, second = _halves(blake2b(key, digest_size=_HASH_BYTES).digest())
        table, at = self._table, self._find(first, second)
        if not table[at + 2]:
            if self.count >= self._room:
                return False
            self.count += 1
            table[at], table[at + 1] = first, second
        table[at + 2] = offset + 1
        return True

    def get(self, key: bytes) -> int:
        """Return the newest offset of `key`, or -1 if it has none."""
        return self._table[self._find(*_halves(blake2b(key, digest_size=_HASH_BYTES).digest())) + 2] - 1

    def _find(self, first: int, second: int) -> int:
        """Return where a hash lies or belongs. The number of slots is a prime, so any step passes all of them."""
        table, at = self._table, first % self._slots * _FIELDS
        while table[at + 2] and (table[at] != first or table[at + 1] != second):
            at = (at + (second % (self._slots - 1) + 1) * _FIELDS) % self._end
        return at


def _prime_below(limit: int) -> int:
    """Return the largest prime that is not above `limit`, which is at least 3."""
    return next(n for n in range(limit, 1, -1) if all(n % divisor for divisor in range(2, int(n**0.5) + 1)))
