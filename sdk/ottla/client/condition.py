"""Waits of threads that a signal may interrupt anywhere."""

from __future__ import annotations

import threading
import time
from _thread import RLock
from collections.abc import Callable
from typing import Final

LONGEST_SLEEP_S: Final = 0.5
"""Of the main thread, in one piece. A signal that comes after its last look at signals and before the operating system
lets it sleep does not wake it (CPython): without this, a Ctrl-C would be noticed at the end of the wait only."""


def sleep_s(timeout: float | None) -> float:
    """How long this thread may sleep in one piece, of a wait of `timeout` seconds (None: any number of them)."""
    longest = LONGEST_SLEEP_S if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
    return longest if timeout is None else max(0.0, min(timeout, longest))


class Condition(RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """What threading.Condition is, entered by the lock's own `__enter__`.

    That of a Condition is Python, so a signal's handler may raise after it has taken the lock and before the block has
    begun: the lock would never be released. Between the lock's own and the block nothing can come.
    """

    def __init__(self) -> None:
        self._changed: Final = threading.Condition(self)

    def wait(self, timeout: float | None = None) -> None:
        """Release the lock until notified, for `timeout` seconds at most; it may end before either."""
        self._changed.wait(sleep_s(timeout))

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds, for `timeout` seconds at most; whether it does."""
        deadline_at = None if timeout is None else time.monotonic() + timeout
        while not (holds := predicate()):
            left = None if deadline_at is None else deadline_at - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return holds

    def notify_all(self) -> None:
        """Let all that wait look again."""
        self._changed.notify_all()
