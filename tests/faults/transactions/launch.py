"""`python -m tests.faults.transactions.launch MUTANT MODE DIRECTORY broker …`: a service as the rows need it.

MODE is `kills`: the files of DIRECTORY arm the steps in which it kills itself (`failpoints`); or `replays`: what it is
asked is asked again later (`replays`); or `held`: followers get no markers while there is a file of that name (`held`).
MUTANT is one of `mutants`, `none` for none.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Final

from tests.faults.compacted.phases import KillPoint
from tests.faults.transactions.failpoints import watch
from tests.faults.transactions.held import hold_marker_calls, hold_markers
from tests.faults.transactions.mutants import MUTANTS
from tests.faults.transactions.replays import replay

_MODULES: Final = {
    "broker": "ottla_broker.__main__",
    "coordinator": "ottla_group_coordinator.__main__",
    "txn": "ottla_txn_coordinator.__main__",
}
KILLS, REPLAYS, HELD = "kills", "replays", "held"
UNSENT = "unsent"
"""The file that holds markers at their coordinator; HELD is that which holds them at their leader."""


def main(arguments: list[str]) -> int:
    mutant, mode, directory, kind, *settings = arguments
    number = next(each.partition("=")[2] for each in settings if each.startswith("--node-id="))
    MUTANTS[mutant]()
    file = Path(directory, f"{kind}-{number}")
    if mode == REPLAYS:
        replay(kind, file.with_suffix(".replayed"))
    elif mode == HELD:
        hold_markers(Path(directory, HELD))
        hold_marker_calls(Path(directory, UNSENT))
    else:
        watch(kind, KillPoint(file))
    sys.argv[1:] = settings
    code: int = importlib.import_module(_MODULES[kind]).main()
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
