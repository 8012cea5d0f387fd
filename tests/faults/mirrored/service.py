"""`python -m tests.faults.mirrored.service CLOCK broker …`: a cluster's service.

Its wall clock follows the file CLOCK.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final

from tests.faults.moved_clock import follow

_MODULES: Final = {
    "broker": "ottla_broker.__main__",
    "controller": "ottla_controller.__main__",
    "coordinator": "ottla_group_coordinator.__main__",
    "txn": "ottla_txn_coordinator.__main__",
}


def main(arguments: list[str]) -> int:
    clock, kind, *settings = arguments
    follow(Path(clock))
    sys.argv[1:] = settings
    code: int = importlib.import_module(_MODULES[kind]).main()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
