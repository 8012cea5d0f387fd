"""`python -m tests.simulation`: seeds 0, 1, 2 … until enough steps are done, in as many processes as there are cores.

    --steps 2000000       or --seeds 400: how many; --first N: beginning there
    --mutants             every mutant of tests/simulation/mutants.py: each has to be found within --seeds seeds
    --mutant "NAME"       seeds of one mutant
    --seed N [--tell]     one seed again, with every event

The last line is one JSON object. Exit code 0: nothing was broken, and every mutant that was asked for was found.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Final

from tests.simulation.mutants import MUTANTS
from tests.simulation.runs import Story, find_mutants, run_seed, run_seeds

_MUTANT_SEEDS: Final = 500


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--mutants", action="store_true")
    parser.add_argument("--mutant", default="", choices=["", *MUTANTS])
    parser.add_argument("--seed", type=int)
    parser.add_argument("--tell", action="store_true")
    given = parser.parse_args(arguments)
    if given.mutants:
        return _mutants(given.seeds or _MUTANT_SEEDS)
    if given.seed is not None:
        return _one(run_seed(given.seed, given.mutant, tell=given.tell))
    numbers = range(given.first, given.first + given.seeds) if given.seeds else count(given.first)
    steps = given.steps or (sys.maxsize if given.seeds else 2_000_000)
    return _many(run_seeds(iter(numbers), given.mutant, steps), given.mutant)


def _one(story: Story) -> int:
    print(json.dumps(story._asdict()))
    return 1 if story.broken else 0


def _many(stories: Iterator[Story], mutant: str) -> int:
    began = time.monotonic()
    answers: Counter[str] = Counter()
    left: Counter[str] = Counter()
    seeds = steps = broken = 0
    for story in stories:
        seeds, steps = seeds + 1, steps + story.steps
        answers.update(story.answers)
        left.update(story.left)
        if story.broken:
            broken += 1
            chosen = f' --mutant "{mutant}"' if mutant else ""
            print(f"seed {story.seed}: {story.broken}")
            print(f"  again: python -m tests.simulation --seed {story.seed} --tell{chosen}")
    seconds = round(time.monotonic() - began, 1)
    told = {"seeds": seeds, "steps": steps, "seconds": seconds, "broken": broken, "answers": answers, "left": left}
    print(json.dumps(told))
    return 1 if broken else 0


def _mutants(seeds: int) -> int:
    began = time.monotonic()
    found = find_mutants(seeds)
    seconds = round(time.monotonic() - began, 1)
    caught = sum(seed is not None for seed in found.values())
    print(json.dumps({"mutants": len(found), "mutants_caught": caught, "first_seeds": found, "seconds": seconds}))
    return 0 if caught == len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
