"""The history of the metadata shows where a store that was restored from a backup has left the history that it had.

Every decision of a controller has a number, `seq`. A restored store counts on from its backup, so the decisions that it
gets from then on have the numbers of those that it lost. A controller therefore begins its term by writing down an id
that no other term has, with the number of this first decision. The services elect a controller after a restore, so the
lost decisions and the new ones belong to different terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_TERMS: Final = 100
"""A history forgets its oldest terms. Without a term in common, two histories part where the later of them begins.
Earlier releases wrote down no terms. Of two histories without terms, one is taken to go on from the other."""


class Term(NamedTuple):
    """A controller's time in office."""

    uuid: str
    first_seq: int


@dataclass(frozen=True, slots=True)
class History:
    """The terms of controllers, oldest first, the number of the last decision, and how many restorations were
    counted."""

    terms: tuple[Term, ...] = ()
    seq: int = 0
    restored: int = 0

    def parts_from(self, other: History) -> int:
        """Return the number of the first decision that is not in both histories."""
        ends, others_ends = self._ends(), other._ends()
        common = [uuid for uuid in ends if uuid in others_ends]
        if common:
            return min(ends[common[-1]], others_ends[common[-1]])
        firsts = [history.terms[0].first_seq for history in (self, other) if history.terms]
        return max(firsts, default=min(self.seq, other.seq) + 1)

    def _ends(self) -> dict[str, int]:
        """Return, for each term, the number of the first decision after it."""
        ends = [*(term.first_seq for term in self.terms[1:]), self.seq + 1]
        return {term.uuid: end for term, end in zip(self.terms, ends, strict=False)}
