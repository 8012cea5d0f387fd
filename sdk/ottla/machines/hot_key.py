"""Whether one key has more than half of a producer's bytes: its partition, and that one's broker, get all of them.

Nothing is done for a single record. Of each batch the key of its first record stands for the batch's bytes, and a
verdict is given over SAMPLES batches at a time: enough that a key with 40 % is taken for a hot one once in 500 times.
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

    def on_batch(self, first_key: bytes | None, size_bytes: int) -> bytes | None:
        """A batch is sent; its first record has this key (None: no key decides). The hot key, if there is one."""
        if self._reported:
            return None
        self._samples += 1
        self._total_bytes += size_bytes
        if first_key is not None:
            self._bytes_by_key[first_key] = self._bytes_by_key.get(first_key, 0) + size_bytes
        if self._samples < SAMPLES:
            return None
        hot = next((key for key, size in self._bytes_by_key.items() if 2 * size > self._total_bytes), None)
        self._reported = hot is not None
        self._bytes_by_key.clear()
        self._samples = self._total_bytes = 0
        return hot
