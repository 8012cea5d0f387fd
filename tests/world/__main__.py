"""`python -m tests.world` runs seeds of the whole cluster in one process, under virtual time.

    --seeds 60 --first 1   which seeds
    --storm 40             how long the weather blows in each, in virtual seconds
    --without NAME,NAME    stories of tests/regressions or rules to take out; with --mutants, names of MUTANTS
    --until-red            stop at the first seed that finds something
    --profile NAME         use one of PROFILES (module seed) instead of what each seed chooses
    --faults 3,7           run only these faults, or these rounds of a script
    --log                  print what the services log
    --proof                run the seeds, all mutants, eight seeds under two values of PYTHONHASHSEED, and the scenarios
    --shrink               shrink the first red seed: print how to repeat it, and what happens in it
    --record NAME          record a scenario again, or a new one for a mutant or a story; without NAME, record all again
    --idle HOURS           run no seeds, but a cluster that nobody uses, for this many virtual hours
    --mutants              run without each entry of MUTANTS, or those of --without: each has to go red, in its recorded
                           scenario or at one of the first seeds

The last line is one JSON object. The exit code is 0 if no seed went red, with --mutants if every mutant was caught,
with --idle if nothing has grown, and with --proof if no seed went red, every mutant was caught, both traces are equal,
each scenario shows its defect, and no event was rarer than _LEAST_IN_100_SEEDS says.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

from tests.world import scenario
from tests.world.command import PROGRAM, command_of, parser_of_plans, plan_of
from tests.world.idle import idle_in_a_fork
from tests.world.mutants import CPU_S, MUTANTS, check
from tests.world.seed import Outcome, Plan, run_in_a_fork
from tests.world.smaller import smaller
from tests.world.telling import told

_LEAST_IN_100_SEEDS: Final = {
    "elections": 200,
    "unclean": 60,
    "truncations": 20,
    "cleanings": 3_000,
    "takeovers": 150,
    "recoveries": 40,
    "trims": 30,
    "alterations": 6,
    "promises judged": 50_000,
    "referred": 20,
    "looked up": 130,
    "epochs compared": 14_000,
    "late answers": 2,
    "lost refusals": 2,
    "turns": 10,
    "copies put back": 3,
    "cuts to the start": 2,
    "repeats": 40,
    "long rests": 1,
    "groups judged": 6,
    "groups migrated": 10,
    "takeovers amid a migration": 5,
    "revocations": 3,
    "tenures": 55,
    "old commits": 6,
}
"""About half of what sixty seeds had, so that weather that no longer does its work is noticed."""
_FEW_STEPS: Final = 30


@dataclass(slots=True)
class _Totals:
    """The totals of many seeds."""

    seeds: int = 0
    red: int = 0
    violations: int = 0
    not_healed: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    traces: list[str] = field(default_factory=list)
    virtual_s: float = 0.0
    cpu_s: float = 0.0

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.red += not outcome.is_green
        self.violations += len(outcome.violations)
        self.not_healed += not outcome.healed
        self.counts.update(outcome.counts)
        self.counts.update(faults=outcome.faults, kills=outcome.kills)
        self.traces.append(outcome.trace)
        self.virtual_s += outcome.virtual_s
        self.cpu_s += outcome.cpu_s

    def summary(self) -> dict[str, object]:
        return {
            "seeds": self.seeds,
            "red": self.red,
            "violations": self.violations,
            "not_healed": self.not_healed,
            "traces": hashlib.sha256(" ".join(self.traces).encode()).hexdigest()[:16],
            "virtual_minutes": round(self.virtual_s / 60, 1),
            "cpu_s": round(self.cpu_s, 1),
            "cpu_s_per_seed": round(self.cpu_s / max(1, self.seeds), 2),
            "cpu_ms_per_record": round(1000 * self.cpu_s / max(1, self.counts["acked"]), 2),
            "grown": 0,
            **self.counts,
        }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[parser_of_plans()],
    )
    parser.add_argument("--until-red", action="store_true")
    parser.add_argument("--log", action="store_true")
    parser.add_argument("--idle", type=float, default=0.0)
    parser.add_argument("--shrink", action="store_true")
    parser.add_argument("--record", nargs="?", const="all")
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--proof", action="store_true")
    given = parser.parse_args(arguments)
    if given.idle:
        idleness = idle_in_a_fork(given.idle, given.first)
        print(*idleness.violations, sep="\n")
        print(json.dumps(asdict(idleness)))
        return 1 if idleness.violations else 0
    if given.mutants:
        found = _mutants(given.first, given.storm, given.without)
        print(json.dumps(found))
        return 0 if found["mutants_caught"] == found["mutants"] else 1
    if given.record:
        return _record(scenario.names() if given.record == "all" else given.record.split(","))
    first = plan_of(given, log=given.log)
    plans = (replace(first, seed=seed) for seed in range(first.seed, first.seed + (given.seeds or 20)))
    if given.shrink:
        return _shrink(plans)
    totals = _run(plans, until_red=given.until_red)
    said = totals.summary()
    is_proven = not totals.red
    if given.proof:
        said |= _mutants(given.first, given.storm, ()) | {"trace_equal": len({_traces("1"), _traces("2")}) == 1}
        stale = [name for name in scenario.names() if not scenario.read(name).shows()]
        said["scenarios"] = len(scenario.names()) - len(stale)
        if stale:
            print(f"record these again, because they no longer show their defects: {', '.join(stale)}")
        least = _LEAST_IN_100_SEEDS
        too_few = [name for name in least if 100 * totals.counts[name] < least[name] * totals.seeds]
        if too_few:
            print(f"too few of these in {totals.seeds} seeds: {', '.join(too_few)}")
        is_proven &= (
            said["mutants_caught"] == said["mutants"] and bool(said["trace_equal"]) and not too_few and not stale
        )
    print(json.dumps(said))
    return 0 if is_proven else 1


def _run(plans: Iterable[Plan], *, until_red: bool) -> _Totals:
    totals = _Totals()
    for outcome in map(run_in_a_fork, plans):
        totals.add(outcome)
        print(_line(outcome), flush=True)
        if not outcome.is_green:
            print(*_end(outcome), sep="\n  ")
            if until_red:
                break
    return totals


def _shrink(plans: Iterable[Plan]) -> int:
    """Shrink the first red seed, and print what happens in it. Return 1 if no seed was red."""
    for plan in plans:
        outcome = run_in_a_fork(plan)
        print(_line(outcome), flush=True)
        if not outcome.is_green:
            found = smaller(plan, outcome)
            print(*told(found.outcome.last_steps, found.outcome.why[0]), "", command_of(found.plan), sep="\n")
            print(f"{found.runs} runs in {found.cpu_s:.0f} s of the processor", file=sys.stderr)
            return 0
    return 1


def _record(names: Sequence[str]) -> int:
    """Record scenarios again. Return 1 if one of them no longer shows its defect."""
    missed = 0
    for name in names:
        found = scenario.recorded(scenario.named(name))
        if found is None:
            missed += 1
            print(f"{name}: no seed shows its defect")
        else:
            scenario.path_of(name).write_text(str(found))
            print(f"{name}: {command_of(found.plan)}", flush=True)
    return min(missed, 1)


def _traces(hash_seed: str) -> str:
    """Return the traces of a few short seeds, in a process with this PYTHONHASHSEED."""
    command = [sys.executable, "-m", "tests.world", "--first", "1", "--seeds", "8", "--storm", "6"]
    ran = subprocess.run(command, env=os.environ | {"PYTHONHASHSEED": hash_seed}, capture_output=True, check=True)
    return str(json.loads(ran.stdout.splitlines()[-1])["traces"])


def _mutants(first: int, storm_s: float, names: Sequence[str]) -> dict[str, object]:
    caught = 0
    for name in names or MUTANTS:
        mutant, totals, outcome = MUTANTS[name], _Totals(), None
        check(mutant)
        if name in scenario.names() and scenario.read(name).shows():
            caught += 1
            print(f"{name}: caught by its scenario", flush=True)
            continue
        for seed in itertools.count(first):
            outcome = run_in_a_fork(Plan(seed, storm_s, mutant.without, profile=mutant.profile))
            totals.add(outcome)
            if not outcome.is_green or totals.cpu_s > CPU_S:
                break
        assert outcome is not None
        # With the mend in place the seed has to be green. Otherwise another defect was found.
        is_caught = (
            outcome.has_run
            and not outcome.is_green
            and run_in_a_fork(Plan(outcome.seed, storm_s, profile=mutant.profile)).is_green
        )
        caught += is_caught
        how = f"caught at seed {outcome.seed}: {outcome.why[0]}" if is_caught else f"not caught in {totals.seeds} seeds"
        print(f"{name}: {how} ({totals.cpu_s:.0f} s of the processor)", flush=True)
    return {"mutants": len(names or MUTANTS), "mutants_caught": caught}


def _line(outcome: Outcome) -> str:
    counts = " ".join(f"{name} {count}" for name, count in sorted(outcome.counts.items()))
    return (
        f"seed {outcome.seed}: {outcome.profile}, trace {outcome.trace}, {outcome.virtual_s:.0f} s in "
        f"{outcome.cpu_s:.1f} s, {outcome.faults} faults, {counts}"
    )


def _end(outcome: Outcome) -> list[str]:
    """Return the last steps of a red seed, and why it is red.

    If the seed made no progress, return all known steps, and the tasks that wait.
    """
    steps = outcome.last_steps if outcome.waiting else outcome.last_steps[-_FEW_STEPS:]
    return [*steps, *outcome.waiting, *outcome.why]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
