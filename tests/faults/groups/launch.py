"""`python -m tests.faults.groups.launch MUTANT CLOCKS broker …`: a service whose wall clock follows a file.

The file in the directory CLOCKS is named as the service, `broker-0`, and holds seconds to add; without it the clock is
right. MUTANT is `none`, or one of `mutants`, and then that rule is broken.
"""

from __future__ import annotations

import importlib
import sys
import time
from pathlib import Path
from typing import Final

from tests.faults.groups.mutants import MUTANTS

from ottla_core.clock import SystemClock

_LOOK_S: Final = 0.05
_MODULES: Final = {
    "broker": "ottla_broker.__main__",
    "controller": "ottla_controller.__main__",
    "coordinator": "ottla_group_coordinator.__main__",
}


class MovedClock:
    """`wall_ms` in place of SystemClock's: nothing else in the product asks for the time of day."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._look_at = 0.0
        self._offset_ms = 0

    def wall_ms(self) -> int:
        if time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_S
            try:
                self._offset_ms = int(float(self._file.read_text(encoding="utf-8") or 0) * 1000)
            except FileNotFoundError:
                self._offset_ms = 0
        return time.time_ns() // 1_000_000 + self._offset_ms


def main(arguments: list[str]) -> int:
    mutant, clocks, kind, *settings = arguments
    number = next(each.partition("=")[2] for each in settings if each.startswith("--node-id="))
    clock = MovedClock(Path(clocks) / f"{kind}-{number}")
    SystemClock.wall_ms = lambda self: clock.wall_ms()
    MUTANTS[mutant]()
    sys.argv[1:] = settings
    code: int = importlib.import_module(_MODULES[kind]).main()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
