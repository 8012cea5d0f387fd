"""Keeps garbage collections short, however much a process holds.

Python's collector goes through all objects each time that they have grown by a quarter: that is 250 ms in a broker with
ten thousand logs, during which its loop stands still. Objects that have survived a long collection are not gone through
again. They still go when nothing refers to them any more. Only objects in a reference cycle by then stay, and ottla's
sources make none.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Final

LONG_S: Final = 0.02
YOUNG: Final = 5_000
"""How many new objects there are before the next look at them. With Python's 700, looks take a tenth of the CPU time in
which thousands of partitions change, and find nothing. With four times as many, one look would last too long."""
GROWN: Final = 2
"""How many looks at tens of thousands of objects go by before one at all objects since the last freeze. With Python's
10, one large request may have made 600,000 of them by then, and that look takes 200 ms."""
_ALL: Final = 2


class ShortLooks:
    """Takes part in every collection of this process between `start` and `stop`."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._former: Final = gc.get_threshold()

    def start(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, self._former[1], GROWN)
        gc.callbacks.append(self._on_collection)

    def stop(self) -> None:
        gc.callbacks.remove(self._on_collection)
        gc.set_threshold(*self._former)

    def _on_collection(self, phase: str, info: Mapping[str, int]) -> None:
        if info["generation"] != _ALL:
            return
        if phase == "start":
            self._began_s = time.thread_time()
        elif time.thread_time() - self._began_s > LONG_S:
            gc.freeze()
