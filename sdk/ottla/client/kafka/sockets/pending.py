"""A call that a thread waits for."""

from __future__ import annotations

from threading import Lock
from typing import Any, Final

from ottla.client.condition import sleep_s
from ottla.client.kafka.call import Ended
from ottla_core.clock import Clock


class Pending:
    """The waiter of one call. The network's thread brings the outcome, and one other thread waits for it."""

    __slots__ = ("_done", "_outcome")

    def __init__(self) -> None:
        self._outcome: Ended[Any] | None = None
        self._done: Final = Lock()
        self._done.acquire()

    def __call__(self, outcome: Ended[Any]) -> None:
        self._outcome = outcome
        self._done.release()

    def wait(self, until: float, clock: Clock) -> Ended[Any] | None:
        """Return the outcome, or None if it has not come by then."""
        while (left := until - clock.monotonic()) > 0 and not self._done.acquire(timeout=sleep_s(left)):
            pass
        # The outcome has the call, whose waiter is this object. Without the cycle, the response is freed at once.
        outcome, self._outcome = self._outcome, None
        return outcome
