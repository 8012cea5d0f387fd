"""A frame that comes in pieces: it takes memory as its bytes come, whatever length it has announced."""

from __future__ import annotations

from typing import Final

_ENOUGH: Final = 16
"""The fraction of a frame that has to be there before memory is taken for the rest, which is then read right into
it."""
_MAX_AT_ONCE: Final = 16 * 1024 * 1024
"""The most memory taken at once: new memory costs the loop most of a millisecond per megabyte."""


class Inbound:
    """The received part of a frame of `whole_bytes`: copied piece by piece from the buffer that all connections share,
    until the frame is worth memory of its own."""

    __slots__ = ("_data", "_filled", "whole_bytes")

    def __init__(self, whole_bytes: int, start: memoryview, free_bytes: int) -> None:
        self.whole_bytes: Final = whole_bytes
        self._filled = len(start)
        if self._is_worth_it(free_bytes):
            self._data = self._allocated(start)
        else:
            self._data = bytearray(start)

    @property
    def held_bytes(self) -> int:
        return len(self._data)

    @property
    def missing_bytes(self) -> int:
        return self.whole_bytes - self._filled

    def buffer(self, shared: memoryview, free_bytes: int) -> memoryview:
        """Return where the next bytes go, with at most the length that is missing. `free_bytes` may be taken at
        once."""
        if self._filled == len(self._data):
            if not self._is_worth_it(free_bytes):
                return shared[: self.missing_bytes]
            self._data = self._allocated(self._data)
        return memoryview(self._data)[self._filled :]

    def add(self, size_bytes: int, shared: memoryview) -> None:
        """Note that these bytes have come, to where `buffer` said."""
        if self._filled == len(self._data):
            self._data += shared[:size_bytes]
        self._filled += size_bytes

    def whole(self) -> memoryview:
        return memoryview(self._data)

    def _is_worth_it(self, free_bytes: int) -> bool:
        missing_bytes = self.whole_bytes - self._filled
        return self._filled * _ENOUGH >= self.whole_bytes and missing_bytes <= min(free_bytes, _MAX_AT_ONCE)

    def _allocated(self, start: memoryview | bytearray) -> bytearray:
        whole = bytearray(self.whole_bytes)
        whole[: self._filled] = start
        return whole
