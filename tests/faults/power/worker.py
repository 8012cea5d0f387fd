"""`python -m tests.faults.power.worker MUTANT ROOT BESIDE`: a cleaner's worker that notes what it syncs in the data
directory ROOT; BESIDE is where the broker's notes are."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.faults.power.journal import Journal
from tests.faults.power.worker_mutants import WORKER_MUTANTS

from ottla_broker.compaction.__main__ import main

if __name__ == "__main__":
    mutant, root, beside = sys.argv[1:]
    WORKER_MUTANTS.get(mutant, lambda: None)()
    journal = Journal(Path(root), Path(beside))
    journal.note_worker(os.getpid())
    journal.watch()
    sys.exit(main())
