"""A scenario keeps a defect that the world has found: how to see it again, and what happened.

    # What the defect was.

    python -m tests.world --first 20 --seeds 1 --storm 4.5 --profile emptying --faults 1,3 --without NAME
    ----
       2.115  fault 1: leave behind
       ...
       9.003  the judge: b'v12' was committed at offset 12 and is gone

The world finds the defect at that seed until a change alters the order of events. So the trace is not compared.
`make sim` runs each scenario, and names those that no longer show their defects. Record these again.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Final

from tests.regressions.stories import ALL as STORIES
from tests.world.command import command_of, plan_in
from tests.world.findings import kind_of
from tests.world.mutants import MUTANTS, Mutant
from tests.world.seed import Plan, run_in_a_fork
from tests.world.smaller import smaller
from tests.world.telling import JUDGE, told

DIRECTORY: Final = Path(__file__).parent / "scenarios"
SEARCH_CPU_S: Final = 400.0
_SEARCHED_S: Final = 12.0
"""A search for another seed has storms of this length."""
_RULER: Final = "----"
_WIDTH: Final = 120


@dataclass(frozen=True, slots=True)
class Scenario:
    """`title` says what the defect was. `trace` says what happened in the recorded run. `plan` takes the mend out."""

    title: str
    plan: Plan
    trace: tuple[str, ...] = ()

    @property
    def mended(self) -> Plan:
        return replace(self.plan, without=())

    @property
    def kind(self) -> str:
        """Return the kind of violation that the recorded run found."""
        return kind_of(self.trace[-1].removeprefix(JUDGE))

    def shows(self) -> bool:
        """Run the scenario. Return whether it still shows its defect without the mend, and is green with the mend."""
        return run_in_a_fork(self.plan).kind == self.kind and run_in_a_fork(self.mended).is_green

    def __str__(self) -> str:
        title = textwrap.wrap(self.title, _WIDTH, initial_indent="# ", subsequent_indent="# ")
        return "\n".join((*title, "", command_of(self.plan), _RULER, *self.trace, ""))


def path_of(name: str) -> Path:
    return DIRECTORY / f"{name}.txt"


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.txt"))


def read(name: str) -> Scenario:
    title, command, trace = "", "", list[str]()
    lines = iter(path_of(name).read_text().splitlines())
    for line in lines:
        if line == _RULER:
            trace = list(lines)
        elif line.startswith("#"):
            title = f"{title} {line[1:].strip()}".strip()
        else:
            command = line or command
    return Scenario(title, plan_in(command), tuple(trace))


def named(name: str) -> Scenario:
    """Return the scenario with this name, or a new one for the mutant or story with this name. Raises KeyError."""
    if path_of(name).exists():
        return read(name)
    mutant = MUTANTS[name] if name in MUTANTS else Mutant("", (name,))
    first = mutant.without[0]
    title = f"{STORIES[first].happened}." if first in STORIES else f"A planted defect: {first}."
    return Scenario(title, Plan(1, _SEARCHED_S, mutant.without, profile=mutant.profile))


def recorded(scenario: Scenario) -> Scenario | None:
    """Run the scenario and shrink it, at its own seed or at the first one that shows its defect. Return the new one.

    The defect has to be the cause: with its mend in place the seed is green. Return None if no seed was found in time.
    """
    cpu_s = 0.0
    for plan in chain([scenario.plan], (_search(scenario.plan, seed) for seed in count(1))):
        outcome = run_in_a_fork(plan)
        cpu_s += outcome.cpu_s
        if outcome.has_run and not outcome.is_green and run_in_a_fork(replace(plan, without=())).is_green:
            found = smaller(plan, outcome)
            result = replace(
                scenario, plan=found.plan, trace=tuple(told(found.outcome.last_steps, found.outcome.why[0]))
            )
            if run_in_a_fork(result.mended).is_green:
                return result
        if cpu_s > SEARCH_CPU_S:
            return None
    return None


def _search(plan: Plan, seed: int) -> Plan:
    return replace(plan, seed=seed, storm_s=_SEARCHED_S, faults=None)
