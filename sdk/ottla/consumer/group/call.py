"""A call on a thread of its own: joining waits for the slowest member, and the reader has to stay responsive.

If the reader is interrupted while it starts the thread, it does not know whether the thread was started.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Call(Generic[T]):
    """Runs `work` once it is started; `on_done` is called on that thread when there is an outcome."""

    def __init__(self, name: str, work: Callable[[], T], on_done: Callable[[], None]) -> None:
        self.done = False
        self._work: Final = work
        self._on_done: Final = on_done
        self._name: Final = name
        self._running: Final = Lock()
        self._outcome: T | None = None
        self.error: BaseException | None = None

    def start(self) -> Call[T]:
        """Start the thread, unless it runs."""
        if not self._running.locked():
            Thread(target=self._run, name=self._name, daemon=True).start()
        return self

    def result(self) -> T:
        """Return the result, or raise the error, of a call that is `done`."""
        if self.error is not None:
            raise self.error
        return self._outcome  # type: ignore[return-value]  # there is one where there is no error

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return
        try:
            self._outcome = self._work()
        except BaseException as error:  # also an assignor's SystemExit: the waiting thread raises it
            self.error = error
        self.done = True
        self._on_done()
