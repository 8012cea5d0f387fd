"""The frames of a process's threads."""

from __future__ import annotations

import gc
import sys
import threading
from types import FrameType
from typing import Final

_lock: Final = threading.Lock()


def thread_frames() -> dict[int, FrameType]:
    """Return the frame that each thread runs, by the thread's id.

    The interpreter holds a lock on its list of threads meanwhile. If it collected garbage then, a finalizer could give
    way to a thread that waits for that lock, and no thread would run any more (CPython gh-106883). So it collects
    nothing.
    """
    with _lock:
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            return sys._current_frames()
        finally:
            if was_enabled:
                gc.enable()
