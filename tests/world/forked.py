"""This module runs a function in a process of its own, in which clocks, files and threads may be replaced for good."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, Final

_LIMIT_S: Final = 300.0


class ForkError(Exception):
    """The function has raised, or its process has ended without a word."""


class SpentError(KeyboardInterrupt):
    """The function has taken too long. asyncio lets a KeyboardInterrupt out of a task, but no ordinary exception."""


def in_a_fork(work: Callable[[], Any], limit_s: float = 0.0) -> Any:
    """Return what `work` returns, as JSON brings it back. No `finally` block runs for work left unfinished there.

    It may take `limit_s` seconds of the processor, or as many as a seed. Raises ForkError with the traceback of what it
    raised.
    """
    reading, writing = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        # pytest's own time limit would end only the parent.
        signal.signal(signal.SIGPROF, partial(_on_limit, limit_s or _LIMIT_S))
        signal.setitimer(signal.ITIMER_PROF, limit_s or _LIMIT_S)
        # Garbage of the parent may have finalizers that wait for a thread, and a fork has no threads.
        gc.freeze()
        try:
            said = {"result": work()}
        except BaseException:
            said = {"error": traceback.format_exc()}
        with os.fdopen(writing, "w") as out:
            out.write(json.dumps(said))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as lines:
        text = lines.read()
    os.waitpid(child, 0)
    said = json.loads(text or '{"error": "its process ended without a word"}')
    if "error" in said:
        raise ForkError(said["error"])
    return said["result"]


def _on_limit(limit_s: float, _: int, frame: FrameType | None) -> None:
    where = "" if frame is None else f", and is at {frame.f_code.co_filename}:{frame.f_lineno}"
    raise SpentError(f"it has taken {limit_s:.0f} s of the processor{where}")
