"""A condition variable for threads that a signal may interrupt anywhere."""

from __future__ import annotations

import threading
from _thread import RLock
from collections.abc import Callable
from typing import Final


class Condition(RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """What threading.Condition is, entered by the lock's own `__enter__`.

    That of a Condition is Python, so a signal's handler may raise after it has taken the lock and before the block has
    begun: the lock would never be released. Between the lock's own and the block nothing can come.
    """

    def __init__(self) -> None:
        self._changed: Final = threading.Condition(self)

    def wait(self, timeout: float | None = None) -> bool:
        """Release the lock until notified, for `timeout` seconds at most."""
        return self._changed.wait(timeout)

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds, for `timeout` seconds at most; whether it does."""
        return self._changed.wait_for(predicate, timeout)

    def notify_all(self) -> None:
        """Let all that wait look again."""
        self._changed.notify_all()
