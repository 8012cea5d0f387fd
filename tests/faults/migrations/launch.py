"""`python -m tests.faults.migrations.launch MUTANT broker …`: a service, with a broken rule unless MUTANT is `none`."""

from __future__ import annotations

import importlib
import sys
from typing import Final

from tests.faults.migrations.mutants import MUTANTS

_MODULES: Final = {
    "broker": "ottla_broker.__main__",
    "controller": "ottla_controller.__main__",
    "coordinator": "ottla_group_coordinator.__main__",
}


def main(arguments: list[str]) -> int:
    mutant, kind, *settings = arguments
    if mutant != "none":
        MUTANTS[mutant]()
    sys.argv[1:] = settings
    code: int = importlib.import_module(_MODULES[kind]).main()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
