"""The row, and the mutants of power cuts; those of the other seams are in `aimed`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NAME: Final = "F31"
MINUTES: Final = 13.0
_CUT_MINUTES: Final = 0.5
LEAST_HITS: Final = 100
LEAST_HITS_OF_A_MUTANT: Final = 4
LEAST_CUTS: Final = 30
LEAST_CLEANINGS: Final = 300
LEAST_ELECTIONS: Final = 100
LEAST_ACKNOWLEDGED: Final = 30_000
LEAST_EPISODES: Final = 4
"""The least number of unclean elections with a log that was emptied before."""


@dataclass(frozen=True, slots=True)
class PowerRow:
    name: str
    title: str
    minutes: float
    finding: str = ""
    """The kind of finding, one of the checker's, by which the mutant is caught."""
    story: str = ""
    """A story of `aimed`, which then runs instead of the cluster that is killed at random."""
    hits: tuple[str, ...] = ()
    """The kinds of hits that come, all of them by default (`nemesis`)."""


ROW: Final = PowerRow(NAME, "kill -9 and power cuts at the seams of log, cleaner and transactions", MINUTES)
_BROKEN: Final = "a rule broken on purpose"
_BY_CUTS: Final = {"cleaned-files-not-synced": "damaged"}
_AIMED: Final = {
    "cleaned-above-the-recovery-point": ("lost", "former_leader_returns"),
    "recovery-point-not-written-before-a-clean": ("lso_stuck", "marker_cleaned"),
    "stored-epochs-dropped": ("lost", "emptied_log_leads"),
    "emptied-log-forgets-its-epoch": ("lost", "emptied_log_leads"),
    "emptied-log-counts-as-in-sync": ("lost", "emptied_log_joins"),
    "later-sequence-taken-first": ("unordered", "later_sequence_first"),
    "survivors-stored-raw": ("unsendable", "giant_batch"),
    "ended-transactions-kept-by-followers": ("grown", "ended_transactions_kept"),
    "last-stable-offset-below-the-log-start": ("lso_stuck", "deleted_below_a_transaction"),
}
MUTANT_ROWS: Final = (
    *(PowerRow(name, _BROKEN, _CUT_MINUTES, finding, hits=("cut",)) for name, finding in _BY_CUTS.items()),
    *(PowerRow(name, _BROKEN, 0.0, finding, story=story) for name, (finding, story) in _AIMED.items()),
)
