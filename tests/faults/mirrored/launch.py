"""`python -m tests.faults.mirrored.launch MUTANT CLOCK …`: a mirror as the row needs it.

Now and then a bit is flipped in what it has fetched, as a long way may do whose checksums are of 16 bits. MUTANT is one
of `mutants`, `none` for none. The wall clock follows the file CLOCK.
"""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from tests.faults.mirrored.mutants import MUTANTS
from tests.faults.moved_clock import follow
from tests.faults.put_in_place import put_in_place

from ottla.connect import BatchReader
from ottla_core.records.batch import HEADER_SIZE
from ottla_mirror.__main__ import main as run_mirror

_FLIPPED_ONE_IN: Final = 1_000
_BEHIND: Final = 3
"""A byte of the first record's value or key, or of what is compressed."""


def flip_bits() -> None:
    """In a thousandth of all blocks that are fetched."""
    poll, chance = BatchReader.poll, random.Random(0)

    def poll_and_flip(self: Any, timeout: Any = 1.0) -> Any:
        fetched = poll(self, timeout)
        if fetched is None or len(fetched.records) <= HEADER_SIZE + _BEHIND or chance.randrange(_FLIPPED_ONE_IN):
            return fetched
        records = bytearray(fetched.records)
        records[len(records) - _BEHIND] ^= 1
        return replace(fetched, records=bytes(records))

    put_in_place(BatchReader, "poll", poll_and_flip)


def main(arguments: list[str]) -> int:
    mutant, clock, *settings = arguments
    follow(Path(clock))
    MUTANTS[mutant]()
    flip_bits()
    sys.argv[1:] = settings
    return run_mirror()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
