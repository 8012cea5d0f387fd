"""`python -m tests.faults.compacted.worker MUTANT FILE`: a cleaner's worker that kills as `phases` says, armed by FILE.

It imports as little as the product's own, so that brokers clean as often as without it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.faults.compacted.phases import MAP, WORKER, WRITE, KillPoint, after
from tests.faults.compacted.worker_mutants import WORKER_MUTANTS

import ottla_broker.compaction.cleaning
from ottla_broker.compaction.__main__ import main
from ottla_broker.compaction.cleaned_file import CleanedFile


def watch_worker(point: KillPoint) -> None:
    """In a worker: each batch that is mapped, and each that is written or left out, is a step."""
    clean, file = ottla_broker.compaction.cleaning._Clean, CleanedFile
    for owner, name, phase in ((clean, "_learn_batch", MAP), (file, "add", WRITE), (file, "close", WRITE)):
        after(owner, name, lambda phase=phase: point.pass_by(phase, os.getppid))
        after(owner, name, lambda: point.pass_by(WORKER))


if __name__ == "__main__":
    mutant, armed_by = sys.argv[1:]
    WORKER_MUTANTS.get(mutant, lambda: None)()
    watch_worker(KillPoint(Path(armed_by)))
    sys.exit(main())
