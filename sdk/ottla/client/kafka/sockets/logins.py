"""The threads of one client that get the credentials of its logins.

Getting them may take any time: a token comes from the user's own function, which may never return. So each line's login
has a thread while there are few. Beyond that a login waits for one of these threads, until its own time limit ends it.
"""

from __future__ import annotations

import logging
from collections import deque
from threading import Lock, Thread
from typing import Final, Protocol

_log = logging.getLogger("ottla.network")

_MOST_THREADS: Final = 64


class Seeker(Protocol):
    """A line that needs credentials."""

    @property
    def address(self) -> str: ...
    @property
    def ended(self) -> object | None:
        """None while the line still needs them."""
        ...

    def get_credentials(self) -> None:
        """Get the credentials and log in. It may block."""
        ...


class LoginThreads:
    """Thread-safe; never blocks."""

    def __init__(self) -> None:
        self._lock: Final = Lock()
        self._running = 0
        self._waiting: deque[Seeker] = deque()

    def begin(self, line: Seeker) -> None:
        """Get the line's credentials on a thread, or have the line wait for one."""
        with self._lock:
            if self._running >= _MOST_THREADS:
                # Lines that have ended meanwhile are dropped here, or a function that never returns would pile them up.
                self._waiting = deque(each for each in (*self._waiting, line) if each.ended is None)
                return
            self._running += 1
        try:
            Thread(target=self._run, args=(line,), name=f"ottla-login-{line.address}", daemon=True).start()
        except BaseException:
            with self._lock:
                self._running -= 1
            raise

    def _run(self, line: Seeker) -> None:
        following: Seeker | None = line
        while following is not None:
            try:
                if following.ended is None:
                    following.get_credentials()
            except Exception:
                _log.exception("%s: a login failed", following.address)
            following = self._next()

    def _next(self) -> Seeker | None:
        """Return the next line that waits. Without one, count a thread less: a line that comes then has a new one."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            self._running -= 1
            return None
