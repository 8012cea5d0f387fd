"""Waits of threads that a signal may interrupt anywhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _thread import RLock
else:
    # The class that `threading` uses. It is not always `_thread.RLock`: in a process whose threads are greenlets, that
    # lock belongs to all of them at once.
    RLock = type(threading.RLock())

LONGEST_SLEEP_S: Final = 0.5
"""The longest sleep of the main thread in one piece. In CPython a signal does not wake a thread if it comes after the
thread's last check for signals and before it sleeps: without this limit, a Ctrl-C would take effect only at the end of
the wait."""


def sleep_s(timeout: float | None) -> float:
    """Return how long this thread may sleep in one piece, in a wait of `timeout` seconds (None: no limit)."""
    longest = LONGEST_SLEEP_S if threading.current_thread() is threading.main_thread() else threading.TIMEOUT_MAX
    return longest if timeout is None else max(0.0, min(timeout, longest))


def is_held(lock: RLock) -> bool:
    """Return whether another thread holds the lock."""
    if lock.acquire(blocking=False):
        lock.release()
        return False
    return True


class Condition(RLock):  # type: ignore[misc]  # final in typeshed, not in CPython
    """A threading.Condition that is entered by the lock's own `__enter__`.

    The `__enter__` of threading.Condition is Python code. So a signal handler may raise after it has taken the lock and
    before the block begins, and the lock would never be released. After the lock's own `__enter__`, nothing can come
    before the block.
    """

    def __init__(self) -> None:
        super().__init__()
        self._changed: Final = threading.Condition(self)

    def wait(self, timeout: float | None = None) -> None:
        """Release the lock until notified, for at most `timeout` seconds; it may return before either."""
        self._changed.wait(sleep_s(timeout))

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until the predicate holds, for at most `timeout` seconds; return whether it does."""
        deadline_at = None if timeout is None else time.monotonic() + timeout
        while not (holds := predicate()):
            left = None if deadline_at is None else deadline_at - time.monotonic()
            if left is not None and left <= 0:
                break
            self.wait(left)
        return holds

    def notify_all(self) -> None:
        """Wake all waiting threads."""
        self._changed.notify_all()
