"""Count the lines that the cluster's loop executes in a while in which nothing happens, by function.

A count of lines, other than a time, is hardly another one on a busy machine, and says which function looks at more than
it did before.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from types import CodeType, FrameType
from typing import Any, Final

from tests.growth.cluster import GrowthCluster
from tests.growth.roles import TURN
from tests.growth.walk import Structure

WINDOW_S: Final = 2.5
_TRACED: Final = ("/ottla_", "/growth/leaks.py")
_PARTS_OF_A_PATH: Final = 3


class _Lines:
    def __init__(self) -> None:
        self.counts: Final[Counter[CodeType]] = Counter()

    def on_call(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        return self._on_line if any(part in name for part in _TRACED) else None

    def _on_line(self, frame: FrameType, event: str, argument: Any) -> Any:
        self.counts[frame.f_code] += 1
        return self._on_line


def idle_turns(cluster: GrowthCluster, window_s: float = WINDOW_S) -> Counter[Structure]:
    lines = _Lines()

    async def trace(on: bool) -> None:
        sys.settrace(lines.on_call if on else None)

    cluster.run(trace(True))
    time.sleep(window_s)  # a duration is what is measured
    cluster.run(trace(False))
    sizes: Counter[Structure] = Counter()
    for code, count in lines.counts.items():
        file = "/".join(code.co_filename.split("/")[-_PARTS_OF_A_PATH:])
        sizes[Structure(TURN, f"{file} {code.co_qualname}", "items")] += count
    return sizes
