"""`python -m tests.faults.interrupted.sweeping …`: interrupts a transaction block at every place, with fake brokers.

With every fate of its transaction, and every way of going on. Blocks of asyncio are cancelled at every wait. The last
line says how many places there were.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys

from exactly_once_loops import FATES, RECOVERIES, Sweep, cancelled_loop, interrupted_loop
from tests.faults.interrupted.member import parser
from tests.faults.interrupted.notes import Notes


def main(arguments: list[str]) -> int:
    parser(__doc__).parse_args(arguments)
    logging.disable()  # thousands of transactions fail here as they are meant to
    notes = Notes()
    for fate in FATES:
        for recovery in RECOVERIES:
            _note(notes, f"{fate}, {recovery}", interrupted_loop(FATES[fate], recovery=recovery))
            for late in (False, True):
                cancelled = asyncio.run(cancelled_loop(FATES[fate], late=late, recovery=recovery))
                _note(notes, f"{fate}, {recovery}, asyncio", cancelled)
    print(json.dumps(notes.told()), flush=True)
    return 0


def _note(notes: Notes, name: str, sweep: Sweep) -> None:
    notes.seen += len(sweep.hits)
    print(f"{name}: {len(sweep.hits)} places", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
