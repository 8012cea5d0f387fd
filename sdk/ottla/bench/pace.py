"""An open-loop schedule: the start fixes when each record is due, however long sends take.

A late sender catches up, and latencies count from the planned moment. A stall therefore shows in the latency of every
record that it delayed, and not only in one (coordinated omission).
"""

from __future__ import annotations

import math


class SendPace:
    """A schedule of `rate` evenly spaced records a second, the first at `began_at` (monotonic seconds)."""

    __slots__ = ("began_at", "rate")

    def __init__(self, began_at: float, rate: float) -> None:
        self.began_at = began_at
        self.rate = rate

    def due_at(self, number: int) -> float:
        """Return when the record with this number, counted from 0, is due."""
        return self.began_at + number / self.rate

    def due(self, now: float, done: int) -> int:
        """Return how many more records are due at `now`, after `done` records."""
        return max(0, math.floor((now - self.began_at) * self.rate) + 1 - done)
