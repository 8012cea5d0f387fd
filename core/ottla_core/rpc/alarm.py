"""One timer for many deadlines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from ottla_core.rpc.deadlines import NEVER


class Alarm:
    """Calls `on_time` at the earliest time that was set, or a little too early if that deadline was dropped since."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_time: Callable[[], None]) -> None:
        self._loop: Final = loop
        self._on_time: Final = on_time
        self._at = NEVER  # uvloop's handle of a timer that is already due does not tell its time
        self._timer: asyncio.Handle | None = None

    def set(self, at: float) -> None:
        """Go off at `at` (loop time), unless an earlier time is set. NEVER changes nothing."""
        if at < self._at:
            self.cancel()
            self._at, self._timer = at, self._loop.call_at(at, self._go_off)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._at, self._timer = NEVER, None

    def _go_off(self) -> None:
        self._at, self._timer = NEVER, None
        self._on_time()
