"""`python -m tests.faults.power.worker MUTANT [ROOT BESIDE]`: a cleaner's worker that notes what it syncs in the data
directory ROOT; BESIDE is where the broker's notes are. Without them it notes nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.faults.power.journal import Journal
from tests.faults.power.worker_mutants import WORKER_MUTANTS

from ottla_broker.compaction.__main__ import main

if __name__ == "__main__":
    mutant, *noted = sys.argv[1:]
    if noted:
        root, beside = map(Path, noted)
        Journal(root, beside).watch()
    WORKER_MUTANTS.get(mutant, lambda: None)()
    sys.exit(main())
