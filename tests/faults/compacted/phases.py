"""The phases of a cleaning, and how a broker is killed in one: by itself, the next time that it comes by.

The nemesis arms a broker with a file `<directory>/<broker>` that holds a phase and a number of steps. Whoever takes
the last of these steps renames the file to `<broker>.hit`, so that a kill that is counted happened there, and kills.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

MAP, WRITE, RESULT, DECIDED, BETWEEN, GONE, WORKER = (
    "worker maps", "worker writes", "before the result is taken", "renamed to .swap", "between the renames",
    "before the checkpoint", "worker alone",
)  # fmt: skip
STEPS: Final = {MAP: 15, WRITE: 40, RESULT: 1, DECIDED: 2, BETWEEN: 2, GONE: 2, WORKER: 40}
"""The phases, and how many steps are counted of each at most."""

HIT: Final = ".hit"


class KillPoint:
    """What one process passes by."""

    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._steps = 0

    def pass_by(self, phase: str, victim: Callable[[], int] = os.getpid) -> None:
        """A step of that phase is done."""
        try:
            armed, _, steps = self._file.read_text(encoding="utf-8").rpartition(" ")
            if armed != phase:
                return
            self._steps += 1
            if self._steps < int(steps):
                return
            self._file.rename(self._file.with_suffix(HIT))
        except FileNotFoundError:  # it is not armed, or not any more
            return
        os.kill(victim(), signal.SIGKILL)


def after(owner: Any, name: str, then: Callable[[], None]) -> None:
    former = getattr(owner, name)

    def both(*arguments: Any, **named: Any) -> Any:
        result = former(*arguments, **named)
        then()
        return result

    setattr(owner, name, both)
