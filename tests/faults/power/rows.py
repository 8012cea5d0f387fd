"""The row, and the mutants of power cuts; those of the other seams are in `aimed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAME: Final = "F31"
MINUTES: Final = 13.0
LEAST_HITS: Final = 100
LEAST_CUTS: Final = 30
LEAST_CLEANINGS: Final = 300
LEAST_ELECTIONS: Final = 100
LEAST_ACKNOWLEDGED: Final = 30_000
LEAST_EPISODES: Final = 4
"""Unclean elections whose log was emptied before."""


@dataclass(frozen=True, slots=True)
class PowerRow:
    name: str
    title: str
    minutes: float
    finding: str = ""
    """What a mutant is found by, one of the checker's kinds."""


ROW: Final = PowerRow(NAME, "kill -9 and power cuts at the seams of log, cleaner and transactions", MINUTES)
MUTANT_ROWS: Final = (PowerRow("boot-not-looked-at", "a rule broken on purpose", 1.0, "lost"),)
