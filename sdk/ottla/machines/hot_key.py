"""Detects a key with more than half of a producer's bytes, which overloads one partition and its broker.

Single records cost nothing. The key of a batch's first record represents the bytes of the batch. A batch that grows is
represented by several keys, each for an equal share of its bytes. A decision is made after every SAMPLES keys. With
this number, a key with 40 % of the bytes is mistaken for a hot key once in 500 decisions.
"""

from __future__ import annotations

from typing import Final

SAMPLES: Final = 200


class HotKeyWatch:
    """Reports the first hot key, once."""

    __slots__ = ("_bytes_by_key", "_reported", "_samples", "_total_bytes")

    def __init__(self) -> None:
        self._bytes_by_key: dict[bytes, int] = {}
        self._samples = 0
        self._total_bytes = 0
        self._reported = False

    def on_batch(self, key: bytes | None, size_bytes: int) -> bytes | None:
        """Count the bytes that this key represents in a batch (None if keys do not decide).

        Return the hot key, if one is found.
        """
        if self._reported:
            return None
        self._samples += 1
        self._total_bytes += size_bytes
        if key is not None:
            self._bytes_by_key[key] = self._bytes_by_key.get(key, 0) + size_bytes
        if self._samples < SAMPLES:
            return None
        hot = next((key for key, size in self._bytes_by_key.items() if 2 * size > self._total_bytes), None)
        self._reported = hot is not None
        self._bytes_by_key.clear()
        self._samples = self._total_bytes = 0
        return hot
