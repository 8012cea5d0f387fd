"""`python -m tests.faults.restarts.launch MUTANT MODULE …`: run a module, and plant MUTANT if it breaks that module.

MUTANT is one of `mutants`, `none` for none; what follows MODULE are the module's own arguments.
"""

from __future__ import annotations

import importlib
import runpy
import signal
import sys


def main(arguments: list[str]) -> None:
    # The module replaces this handler as soon as it has work to finish.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    mutant, module, *others = arguments
    if mutant != "none":  # so that others don't import what mutants break
        mutants = importlib.import_module("tests.faults.restarts.mutants").MUTANTS
        if module in mutants[mutant].modules:
            mutants[mutant].plant()
    sys.argv = [module, *others]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
