"""Looks for garbage that stay short, however much a process holds.

Python's collector goes through all objects each time that they have grown by a quarter: 250 ms of a broker with ten
thousand logs, in which its loop stands still. What has survived a look that took long is not gone through again. It
still goes when nothing refers to it any more; only what is part of a circle by then stays, and the sources make none.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping
from typing import Final

LONG_S: Final = 0.02
YOUNG: Final = 5_000
"""New objects before the next look at them. With Python's 700 looks take a tenth of the CPU time in which thousands of
partitions change, and find nothing; with four times as many one look would last too long."""
_ALL: Final = 2


class ShortLooks:
    """Take part in every collection of this process between `start` and `stop`."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._former: Final = gc.get_threshold()

    def start(self) -> None:
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, *self._former[1:])
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
