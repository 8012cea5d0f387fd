"""`python -m tests.faults.groups.launch MUTANT CLOCKS broker …`: a service whose wall clock follows a file.

The file in the directory CLOCKS is named as the service, `broker-0`, and holds seconds to add; without it the clock is
right. MUTANT is `none`, or one of `mutants`, and then that rule is broken.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final

from tests.faults.groups.mutants import MUTANTS
from tests.faults.moved_clock import follow

_MODULES: Final = {
    "broker": "ottla_broker.__main__",
    "controller": "ottla_controller.__main__",
    "coordinator": "ottla_group_coordinator.__main__",
}


def main(arguments: list[str]) -> int:
    mutant, clocks, kind, *settings = arguments
    number = next(each.partition("=")[2] for each in settings if each.startswith("--node-id="))
    follow(Path(clocks) / f"{kind}-{number}")
    MUTANTS[mutant]()
    sys.argv[1:] = settings
    code: int = importlib.import_module(_MODULES[kind]).main()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
