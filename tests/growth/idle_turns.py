"""Count the lines that the longest turn of each function executes on the cluster's loop while nothing happens.

Lines, other than time, are hardly more on a busy machine, and they say which function looks at more than it did before.
A turn is a call of a function, or of a coroutine from one await to the next; a generator's lines are its caller's.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any, Final

from tests.growth.cluster import GrowthCluster
from tests.growth.roles import TURN
from tests.growth.walk import Structure

WINDOW_S: Final = 2.5
_TRACED: Final = ("/ottla_", "/growth/leaks.py")
_PARTS_OF_A_PATH: Final = 3


class _Lines:
    """`longest` has the lines of the longest turn of each function."""

    def __init__(self) -> None:
        self.longest: Final[Counter[CodeType]] = Counter()
        self._turns: Final[dict[FrameType, int]] = {}

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in _TRACED):
            return None
        if not frame.f_code.co_flags & CO_GENERATOR:
            self._turns[frame] = 0
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, argument: Any) -> Any:
        at: FrameType | None = frame
        while at is not None and at.f_code.co_flags & CO_GENERATOR:
            at = at.f_back
        if at is not None and event == "line":
            self._turns[at] = self._turns.get(at, 0) + 1
        elif event == "return":
            lines = self._turns.pop(frame, 0)
            self.longest[frame.f_code] = max(lines, self.longest[frame.f_code])
        return self._on_event

    def end(self) -> None:
        """Let go of the frames that are still in a turn, or whose return was not traced, with all that they hold."""
        self._turns.clear()


def idle_turns(cluster: GrowthCluster, window_s: float = WINDOW_S) -> Counter[Structure]:
    lines = _Lines()

    async def trace(on: bool) -> None:
        sys.settrace(lines.on_call if on else None)

    cluster.run(trace(True))
    time.sleep(window_s)  # a duration is what is measured
    cluster.run(trace(False))
    lines.end()
    sizes: Counter[Structure] = Counter()
    for code, count in lines.longest.items():
        file = "/".join(code.co_filename.split("/")[-_PARTS_OF_A_PATH:])
        sizes[Structure(TURN, f"{file} {code.co_qualname}", "items")] += count
    return sizes
