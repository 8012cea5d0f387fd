"""Seeds, one after another or in as many processes as there are cores, and what each of them came to."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Final, NamedTuple

from tests.simulation.history import Broken
from tests.simulation.mutants import MUTANTS
from tests.simulation.world import Build, World

STORM_STEPS: Final = 4000
_CHUNK: Final = 8  # seeds that a process takes at once


class Story(NamedTuple):
    """What a seed came to; `broken` is empty where every promise was kept."""

    seed: int
    steps: int
    trace: int
    broken: str
    answers: dict[str, int]
    left: dict[str, int]


def run_seed(seed: int, mutant: str = "", *, tell: bool = False) -> Story:
    world = World(seed, MUTANTS[mutant] if mutant else Build(), print if tell else None)
    trace, broken = 0, ""
    gc.disable()  # a world is thrown away whole
    try:
        trace = world.run(STORM_STEPS)
    except Broken as finding:
        broken = str(finding)
    finally:
        gc.enable()
    return Story(seed, world.schedule.steps, trace, broken, world.history.answers, world.history.left)


def run_seeds(seeds: Iterator[int], mutant: str, most_steps: int) -> Iterator[Story]:
    """Stories in the order of their seeds, until `most_steps` are done."""
    workers = os.cpu_count() or 1
    steps = 0
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        while seeds_now := [seed for _, seed in zip(range(workers * _CHUNK), seeds, strict=False)]:
            for story in pool.map(partial(run_seed, mutant=mutant), seeds_now, chunksize=_CHUNK):
                steps += story.steps
                yield story
            if steps >= most_steps:
                return


def find_mutants(seeds: int) -> dict[str, int | None]:
    """The first seed that finds each."""
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return dict(zip(MUTANTS, pool.map(partial(find_mutant, seeds=seeds), MUTANTS), strict=True))


def find_mutant(mutant: str, seeds: int) -> int | None:
    return next((seed for seed in range(seeds) if run_seed(seed, mutant).broken), None)
