"""`python -m tests.faults.compacted.launch MUTANT DIRECTORY broker …`: a broker that can be killed in each phase of a
cleaning (`phases`), and starts its workers as tests.faults.compacted.worker.

DIRECTORY holds the files that arm it, and `<broker>.jsonl`: each cleaning that a worker has finished, when it began and
how far it goes. MUTANT is one of `mutants` or `worker_mutants`, `none` for none.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from tests.faults.compacted.mutants import MUTANTS
from tests.faults.compacted.phases import BETWEEN, DECIDED, GONE, RESULT, KillPoint, after
from tests.faults.history import SUFFIX
from tests.faults.put_in_place import put_in_place

import ottla_broker.__main__
import ottla_broker.app
import ottla_broker.compaction.worker
import ottla_broker.storage.swap
from ottla_broker.compaction.cleaner import LogCleaner
from ottla_broker.compaction.job import CleaningJob, CleaningResult
from ottla_broker.compaction.worker import Take, run_worker
from ottla_broker.storage.compaction import Compaction
from ottla_broker.storage.segment import Segment

_WORKER: Final = "ottla_broker.compaction"


def watch_broker(point: KillPoint) -> None:
    after(ottla_broker.storage.swap, "decide", lambda: point.pass_by(DECIDED))
    take, swap, discard, end_swap = LogCleaner._take, Compaction._swap, Segment.discard, Segment.end_swap
    several: set[Any] = set()

    async def take_group(self: Any, replica: Any, candidate: Any, group: Any) -> None:
        point.pass_by(RESULT)
        await take(self, replica, candidate, group)

    def swap_several(self: Any, sources: Any, cleaned: Any) -> bool:
        several.update(sources if len(sources) > 1 else ())
        try:
            return swap(self, sources, cleaned)
        finally:
            several.difference_update(sources)

    def discard_one(self: Any) -> None:
        discard(self)
        if self in several:
            point.pass_by(BETWEEN)

    def name(self: Any) -> None:
        point.pass_by(GONE)
        end_swap(self)

    LogCleaner._take = take_group
    Compaction._swap = swap_several
    Segment.discard = discard_one
    Segment.end_swap = name
    after(Compaction, "on_cleaned", lambda: point.pass_by(GONE))


def _start_workers_as(*module: str) -> None:
    class Worker(subprocess.Popen[bytes]):
        def __init__(self, args: list[str], *more: Any, **named: Any) -> None:
            assert args[1:] == ["-m", _WORKER], "the broker starts nothing else"
            super().__init__([args[0], "-m", *module], *more, **named)

    put_in_place(ottla_broker.compaction.worker, "Popen", Worker)


def _note_cleanings(file: Path) -> None:
    async def noted(job: CleaningJob, take: Take) -> CleaningResult:
        now_ns = time.monotonic_ns() - (time.time_ns() - job.now_ms * 1_000_000)
        result = await run_worker(job, take)
        fields = {"partition": job.directory.name, "now_ns": now_ns, "end_offset": result.end_offset}
        with file.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"broker": file.stem, **fields}) + "\n")
        return result

    put_in_place(ottla_broker.app, "run_worker", noted)


def main(arguments: list[str]) -> int:
    mutant, directory, _, *settings = arguments
    name = "broker-" + next(each.partition("=")[2] for each in settings if each.startswith("--node-id="))
    MUTANTS.get(mutant, lambda: None)()
    watch_broker(KillPoint(Path(directory, name)))
    _note_cleanings(Path(directory, name + SUFFIX))
    _start_workers_as("tests.faults.compacted.worker", mutant, str(Path(directory, name)))
    sys.argv[1:] = settings
    return ottla_broker.__main__.main()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
