"""Each host has two clocks. One counts seconds, but not at the exact rate. The other tells the date, and may be set."""

from __future__ import annotations

from random import Random
from typing import Final

EPOCH_MS: Final = 1_800_000_000_000
"""The date when a world begins."""
_DRIFT: Final = 0.0005
"""This is several times the drift of real clocks. The holder of a lease has to allow for it."""
_WRONG_S: Final = 3.0


class HostClock:
    """This has the clocks of one host. Its processes count from different moments."""

    def __init__(self, random: Random) -> None:
        self.rate: Final = random.uniform(1 - _DRIFT, 1 + _DRIFT)
        self._ahead_s = random.uniform(-_WRONG_S, _WRONG_S)

    def counted(self, now: float) -> float:
        """Return what the host has counted by the true time `now`."""
        return now * self.rate

    def wall_ms(self, now: float) -> int:
        return EPOCH_MS + int((now + self._ahead_s) * 1000)

    def step(self, seconds: float) -> None:
        """Set the date forward or back."""
        self._ahead_s += seconds

    def correct(self) -> None:
        """Set the date to the true one."""
        self._ahead_s = 0.0
