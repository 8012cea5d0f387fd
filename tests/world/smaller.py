"""This module runs a red seed again and again, with fewer faults and a shorter storm, until little of it is left.

A run counts as red if its first violation is of one kind with that of the seed. Its trace does not count, because
every change alters it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tests.world.seed import Outcome, Plan, run_in_a_fork
from tests.world.shrinking import fewest, least

CPU_S: Final = 120.0
"""Shrinking begins no other run after this many seconds of CPU time."""
_PRECISION_S: Final = 0.2


@dataclass(slots=True)
class Smaller:
    """This is the smallest plan that was found to be red so far, with its outcome, and what the search has cost."""

    plan: Plan
    outcome: Outcome
    runs: int = 0
    cpu_s: float = 0.0


def smaller(plan: Plan, outcome: Outcome, cpu_s: float = CPU_S) -> Smaller:
    """Shrink a plan whose outcome is red."""
    found, kind = Smaller(replace(plan, profile=outcome.profile), outcome), outcome.kind

    def is_red(plan: Plan) -> bool:
        if found.cpu_s >= cpu_s:
            return False
        outcome = run_in_a_fork(plan)
        found.runs += 1
        found.cpu_s += outcome.cpu_s
        if outcome.kind != kind:
            return False
        found.plan, found.outcome = plan, outcome
        return True

    def shorten() -> None:
        least(found.plan.storm_s, _PRECISION_S, lambda storm_s: is_red(replace(found.plan, storm_s=storm_s)))

    def leave_out() -> None:
        def is_enough(faults: Sequence[int]) -> bool:
            return is_red(replace(found.plan, faults=faults))

        fewest(found.outcome.begun, is_enough)

    shorten()
    leave_out()
    shorten()
    return found
