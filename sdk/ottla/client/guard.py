"""Refuses calls to a client from a child of the process that made it, and from a signal handler during another call.

A forked child has the client's memory, but neither its threads nor its connections: its requests would never leave, and
responses never come. A signal handler, or a finalizer, may run between any two lines of the thread that it interrupts.
If that thread holds one of the client's locks, the handler would wait for another lock, and so for its own thread. Both
get an error at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from ottla.errors import ConfigError, ErrorCode


def whether_owned(lock: Any) -> Callable[[], bool]:
    """Return a function that says whether the current thread holds the lock, an RLock or a Condition over one."""
    owned: Callable[[], bool] = lock._is_owned  # Condition itself uses it, and it is as old
    return owned


class Guard:
    """The guard of one client. `client` names it, such as "the producer". `locks` are re-entrant, or conditions over
    re-entrant locks."""

    def __init__(self, client: str, *locks: Any) -> None:
        self._client: Final = client
        self._pid: Final = os.getpid()
        self._owned: Final = [whether_owned(lock) for lock in locks]

    def watch(self, *locks: Any) -> None:
        """Add locks that are made later."""
        self._owned.extend(map(whether_owned, locks))

    @property
    def foreign(self) -> bool:
        """Whether this process is a child of the one that made the client."""
        return os.getpid() != self._pid

    def check_process(self) -> None:
        """Raise ConfigError in a child process."""
        if self.foreign:
            raise ConfigError(
                ErrorCode.INVALID_REQUEST,
                f"{self._client} was created in process {self._pid}, before a fork: its threads and connections "
                f"do not exist in process {os.getpid()}",
                hint="create one in each process, after the fork",
            )

    def check(self) -> None:
        """Raise ConfigError for a caller that must not wait for this client: in a child process, or in a signal handler
        that interrupts a call."""
        self.check_process()
        if any(owned() for owned in self._owned):
            raise self.in_between()

    def in_between(self) -> ConfigError:
        """Return the error for a signal handler that interrupts a call."""
        return ConfigError(
            ErrorCode.INVALID_REQUEST,
            f"a signal handler interrupted a call to {self._client} and made another call to it on the same thread: "
            "each call would wait for the other",
            hint="in the handler, set a flag or raise SystemExit; leaving the `with` block then closes the client",
        )
