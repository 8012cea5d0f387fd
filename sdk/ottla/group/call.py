"""A call on a thread of its own: joining waits for the slowest member, and whoever reads has to stay reachable."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Call(Generic[T]):
    """`work` from now on; `tell` is called, on that thread, once there is an outcome."""

    def __init__(self, name: str, work: Callable[[], T], tell: Callable[[], None]) -> None:
        self.done = False
        self._work: Final = work
        self._tell: Final = tell
        self._outcome: T | None = None
        self._error: Exception | None = None
        Thread(target=self._run, name=name, daemon=True).start()

    def result(self) -> T:
        """What came of it, once it is `done`; raises what it raised."""
        if self._error is not None:
            raise self._error
        return self._outcome  # type: ignore[return-value]

    def _run(self) -> None:
        try:
            self._outcome = self._work()
        except Exception as error:
            self._error = error
        self.done = True
        self._tell()
