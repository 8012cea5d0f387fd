"""The calls that an event loop makes in one step of a task, which is what runs between two waits.

Unlike time, their number is the same on every machine, however busy it is.
"""

from __future__ import annotations

import sys
from types import FrameType


class Steps:
    """Counts on the loop that runs `start` and `stop`. `longest` is the largest number of calls in one step."""

    def __init__(self) -> None:
        self.longest = 0
        self._calls = 0
        self._below_steps: FrameType | None = None

    async def start(self) -> None:
        self._below_steps = sys._getframe().f_back
        sys.setprofile(self._on_event)

    async def stop(self) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_back is self._below_steps:
            self._calls = 0
        if event in ("call", "c_call"):
            self._calls += 1
            self.longest = max(self.longest, self._calls)
