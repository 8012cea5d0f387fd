"""`python -m tests.faults.power.launch MUTANT DIRECTORY broker …`: a broker whose disk is noted, so that its power can
be cut.

DIRECTORY/<broker> has the notes (`journal`), and DIRECTORY/<broker>.jsonl the cleanings that took effect. MUTANT is one
of `mutants`, `none` for none.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.faults.history import HistoryWriter
from tests.faults.power.journal import Journal
from tests.faults.power.mutants import MUTANTS
from tests.faults.put_in_place import put_in_place

import ottla_broker.__main__
import ottla_broker.compaction.worker
from ottla_broker.compaction.cleaner import LogCleaner
from ottla_broker.compaction.job import CleaningResult
from ottla_broker.replication.replica import Replica
from ottla_broker.storage import files

_WORKER: Final = "ottla_broker.compaction"


def watch_disk(root: Path, beside: Path) -> Journal:
    """Note what this broker syncs, and give it the boot of its simulated machine."""
    journal = Journal(root, beside)
    journal.watch()
    sync = files.sync_file_system
    put_in_place(files, "sync_file_system", lambda path: journal.sync_all(lambda: sync(path)))
    put_in_place(files, "boot_id", lambda: Journal.boot_id(beside))
    return journal


def start_workers_as(*module: str, on_start: Callable[[int], None] = lambda pid: None) -> None:
    """`on_start` gets the process id of each worker at once: the broker may be killed before the worker has begun."""

    class Worker(subprocess.Popen[bytes]):
        def __init__(self, args: list[str], *more: Any, **named: Any) -> None:
            assert args[1:] == ["-m", _WORKER], "the broker starts nothing else"
            super().__init__([args[0], "-m", *module], *more, **named)
            on_start(self.pid)

    put_in_place(ottla_broker.compaction.worker, "Popen", Worker)


def note_cleanings(history: HistoryWriter) -> None:
    note = LogCleaner._note

    def noted(self: LogCleaner, replica: Replica, result: CleaningResult, saved: int, seconds: float) -> None:
        note(self, replica, result, saved, seconds)
        history.add("ok", "clean", partition=str(replica.id))
        history.flush()

    put_in_place(LogCleaner, "_note", noted)


def main(arguments: list[str]) -> int:
    mutant, directory, _, *settings = arguments
    given = dict(each.removeprefix("--").split("=", 1) for each in settings)
    name = f"broker-{given['node-id']}"
    root, beside = Path(given["data-dir"]), Path(directory, name)
    root.mkdir(parents=True, exist_ok=True)
    journal = watch_disk(root, beside)
    MUTANTS[mutant]()
    note_cleanings(HistoryWriter(Path(directory), name))
    start_workers_as("tests.faults.power.worker", mutant, str(root), str(beside), on_start=journal.note_worker)
    sys.argv[1:] = settings
    return ottla_broker.__main__.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
