"""Tells whether bytes move at a rate that is worth waiting for."""

from __future__ import annotations

from typing import Final


class ConnectionPace:
    """Checks that a transfer keeps moving: at least `least_bytes` in any `ticks` ticks of the clock.

    Ticks are counted and no time is measured, so that no client is too slow because this process was stopped.
    """

    __slots__ = ("_least_bytes", "_moved_bytes", "_passed", "_ticks")

    def __init__(self, least_bytes: int, ticks: int) -> None:
        self._least_bytes: Final = least_bytes
        self._ticks: Final = ticks
        self._moved_bytes = 0
        self._passed = 0

    def restart(self) -> None:
        self._moved_bytes = self._passed = 0

    def move(self, size_bytes: int) -> None:
        self._moved_bytes += size_bytes

    def is_too_slow(self) -> bool:
        """Return whether too little has moved. To be called in each tick in which something is waited for."""
        if self._moved_bytes >= self._least_bytes:
            self.restart()
            return False
        self._passed += 1
        return self._passed > self._ticks
