"""An open-loop schedule: what is due when is fixed at the start, however long things take.

A late sender catches up and counts from the moment that was planned, so that a stall shows in the latency of all that
it held up, and not of one only (coordinated omission).
"""

from __future__ import annotations

import math


class SendPace:
    """`rate` a second, evenly, the first at `began_at` (monotonic seconds)."""

    __slots__ = ("began_at", "rate")

    def __init__(self, began_at: float, rate: float) -> None:
        self.began_at = began_at
        self.rate = rate

    def due_at(self, number: int) -> float:
        """When the `number`-th is due; they count from 0."""
        return self.began_at + number / self.rate

    def due(self, now: float, done: int) -> int:
        """How many more are due by now, where `done` are done."""
        return max(0, math.floor((now - self.began_at) * self.rate) + 1 - done)
