"""The row and its mutants: what is done while writers write and brokers clean."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.faults.compacted.nemesis import CompactedNemesis
from tests.faults.compacted.phases import GONE, STEPS

NAME: Final = "F19"
KILLS_PER_PHASE: Final = 10
MINUTES: Final = 5.0
LEAST_CLEANINGS: Final = 200
_LEAST_CLEANINGS: Final = 3
_CLEAN_LIMIT_S: Final = 60.0

Story = Callable[[CompactedNemesis, float], None]
"""What is done, for about so many seconds."""


@dataclass(frozen=True, slots=True)
class CompactedRow:
    name: str
    title: str
    story: Story
    minutes: float
    findings: tuple[str, ...] = ()
    """A mutant is found by any of these kinds of the checker; it may be slow, or not start, for another reason."""


def kills_in(seconds: float) -> float:
    """Return the minimum number of kills in each phase, for a row of this many seconds."""
    return KILLS_PER_PHASE * seconds / 60 / MINUTES


def _kill_in_each_phase(nemesis: CompactedNemesis, seconds: float) -> None:
    """All brokers at once, each in its phase; in a short run not every phase comes."""
    brokers, kills = nemesis.cluster.brokers, kills_in(seconds)
    phases = [phase for phase in STEPS for _ in range(math.ceil(kills))]
    nemesis.random.shuffle(phases)
    del phases[max(len(brokers), round(len(STEPS) * kills)) :]
    for first in range(0, len(phases), len(brokers)):
        nemesis.kill_in(dict(zip(brokers, phases[first:], strict=False)))
    until_at = time.monotonic() + _CLEAN_LIMIT_S  # a fast machine has had few cleanings by then
    least = LEAST_CLEANINGS * kills / KILLS_PER_PHASE
    while sum(1 for _ in nemesis.cluster.cleanings()) < least and time.monotonic() < until_at:
        nemesis.between()
        time.sleep(0.5)


def _let_them_clean(nemesis: CompactedNemesis, seconds: float) -> None:
    """For so many seconds at least, and until every log was cleaned some times."""
    nemesis.let_clean()
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at or not nemesis.all_cleaned(_LEAST_CLEANINGS):
        nemesis.between()
        time.sleep(0.5)
        if time.monotonic() > until_at + _CLEAN_LIMIT_S:
            raise TimeoutError("the logs are not cleaned")


def _end_swaps(nemesis: CompactedNemesis, seconds: float) -> None:
    """In the first cleaning of each broker, which begins where a log does: a start takes no gap there for a loss."""
    nemesis.kill_in(dict.fromkeys(nemesis.cluster.brokers, GONE), step=1)


def _clean_all_at_once(nemesis: CompactedNemesis, seconds: float) -> None:
    """While readers read, and nobody else, who would have a log remember other places."""
    time.sleep(seconds)
    nemesis.end_writers()
    nemesis.let_clean()


def _leave_a_tail(nemesis: CompactedNemesis, seconds: float) -> None:
    nemesis.leave_a_tail()


_SECONDS: Final = 5.0
_BROKEN: Final[dict[str, tuple[Story, *tuple[str, ...]]]] = {
    "tombstone-lives-from-append": (_let_them_clean, "early"),
    "fence-record-dropped": (_let_them_clean, "unfenced"),
    "offsets-renumbered": (_let_them_clean, "misplaced"),
    "active-segment-cleaned": (_let_them_clean, "lost", "forgotten", "unfenced"),
    "last-batch-of-a-producer-dropped": (_let_them_clean, "forgotten"),
    "aborted-records-supersede": (_let_them_clean, "lost"),
    "marker-dropped-before-its-records": (_let_them_clean, "unmarked", "aborted"),
    "swap-without-recovery": (_end_swaps, "lost"),
    "cleaned-above-the-last-stable-offset": (_leave_a_tail, "lost"),
    "reader-keeps-the-old-files-place": (_clean_all_at_once, "unreadable"),
}

ROW: Final = CompactedRow(NAME, "cleanings ended in each of their phases", _kill_in_each_phase, MINUTES)
MUTANT_ROWS: Final = tuple(
    CompactedRow(name, "a rule broken on purpose", story, _SECONDS / 60, tuple(findings))
    for name, (story, *findings) in _BROKEN.items()
)
