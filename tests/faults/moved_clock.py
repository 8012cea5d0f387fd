"""A wall clock that follows a file, in place of the product's own: a row has days pass, or has a node go wrong."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from ottla_core.clock import SystemClock

_LOOK_S: Final = 0.05


class MovedClock:
    """`wall_ms` in place of SystemClock's. The file holds seconds to add; without it the clock is right."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._look_at = 0.0
        self._offset_ms = 0

    def wall_ms(self) -> int:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            try:
                self._offset_ms = int(float(self._file.read_text(encoding="utf-8") or 0) * 1000)
            except FileNotFoundError:
                self._offset_ms = 0
        return time.time_ns() // 1_000_000 + self._offset_ms


def follow(file: Path) -> None:
    """Have this process tell the time of day by `file`: nothing else in the product asks for it but SystemClock."""
    clock = MovedClock(file)
    SystemClock.wall_ms = lambda self: clock.wall_ms()
