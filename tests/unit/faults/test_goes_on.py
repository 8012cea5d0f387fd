"""When a row does no more harm: by the clock, but not before it has done enough, and at once where all is known."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from tests.faults.gaps import Hit
from tests.faults.nemesis import LEAST_HITS, Nemesis


def nemesis(hits: int) -> Nemesis:
    nobody: Any = None
    found = Nemesis(nobody, "t", 1, (), "seed", Path())
    found.hits = [Hit("kill", "broker-0", 0, 1, (0,))] * hits
    return found


def test_time_that_is_left_is_used() -> None:
    assert nemesis(LEAST_HITS).goes_on(time.monotonic() + 60)


def test_a_slow_machine_has_enough_hits_too() -> None:
    over = time.monotonic() - 1
    assert nemesis(LEAST_HITS - 1).goes_on(over)
    assert not nemesis(LEAST_HITS).goes_on(over)


def test_a_mutant_that_was_found_is_found() -> None:
    of_mutant = nemesis(0)
    of_mutant.caught = lambda: True
    assert not of_mutant.goes_on(time.monotonic() + 60)
