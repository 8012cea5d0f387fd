"""The two clocks: monotonic seconds for every wait, and wall milliseconds for what is written down."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def monotonic(self) -> float:
        """Return seconds that only grow. Timeouts and leases are measured by these."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch. Timestamps of records and retention are measured by these."""
        ...


class SystemClock:
    def monotonic(self) -> float:
        return time.monotonic()

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that a test sets."""

    def __init__(self, *, monotonic: float = 0.0, wall_ms: int = 1_700_000_000_000) -> None:
        self._monotonic = monotonic
        self._wall_ms = wall_ms

    def monotonic(self) -> float:
        return self._monotonic

    def wall_ms(self) -> int:
        return self._wall_ms

    def advance(self, seconds: float) -> None:
        self._monotonic += seconds
        self._wall_ms += int(seconds * 1000)
