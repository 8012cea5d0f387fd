"""The clock of a cluster under test: it runs until it is frozen, and it can be moved."""

from __future__ import annotations

from datetime import timedelta

from ottla_core.clock import SystemClock


class MovableClock:
    """A `Clock` for services. Both of its times move together. Monotonic time never goes back."""

    def __init__(self) -> None:
        self._system = SystemClock()
        self._monotonic_offset = 0.0
        self._wall_offset_ms = 0
        self._frozen: tuple[float, int] | None = None

    def monotonic(self) -> float:
        return self._frozen[0] if self._frozen else self._system.monotonic() + self._monotonic_offset

    def wall_ms(self) -> int:
        return self._frozen[1] if self._frozen else self._system.wall_ms() + self._wall_offset_ms

    def freeze(self) -> None:
        """Stop from now on."""
        self._frozen = self.monotonic(), self.wall_ms()

    def unfreeze(self) -> None:
        """Run again from where it stopped."""
        if self._frozen is not None:
            monotonic, wall_ms = self._frozen
            self._monotonic_offset = monotonic - self._system.monotonic()
            self._wall_offset_ms = wall_ms - self._system.wall_ms()
            self._frozen = None

    def move(self, by: timedelta | float) -> None:
        """Go forward by seconds or a timedelta, frozen or not."""
        seconds = by.total_seconds() if isinstance(by, timedelta) else by
        if seconds < 0:
            raise ValueError("a cluster's clock can only move forward")
        if self._frozen is not None:
            self._frozen = self._frozen[0] + seconds, self._frozen[1] + int(seconds * 1000)
        else:
            self._monotonic_offset += seconds
            self._wall_offset_ms += int(seconds * 1000)
