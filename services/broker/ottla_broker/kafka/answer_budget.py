"""A budget for what private calls answer one connection, in bytes.

A request of 40 bytes may have an answer of megabytes, which services find, send and encode. So a connection that has
had many of them waits before its next private call begins, as Kafka's quotas make a client wait.
"""

from __future__ import annotations

from typing import Final

BYTES_PER_S: Final = 2 * 1024 * 1024
AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""How much a connection may get before it has to wait. It is also what it has after a rest."""


class AnswerBudget:
    """The answers of one connection. An answer's size is known only afterwards, so the next call waits for it.

    Times are in seconds of one clock.
    """

    __slots__ = ("_left_bytes", "_looked_at")

    def __init__(self) -> None:
        self._left_bytes = float(AT_ONCE_BYTES)
        self._looked_at = float("-inf")

    def wait_s(self, now: float) -> float:
        """Return how long the next call has to wait, or 0.0."""
        self._refill(now)
        return max(0.0, -self._left_bytes / BYTES_PER_S)

    def pay(self, answer_bytes: int, now: float) -> None:
        self._refill(now)
        self._left_bytes -= answer_bytes

    def _refill(self, now: float) -> None:
        self._left_bytes = min(AT_ONCE_BYTES, self._left_bytes + (now - self._looked_at) * BYTES_PER_S)
        self._looked_at = now
