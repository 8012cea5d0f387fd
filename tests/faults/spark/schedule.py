"""Which process is killed at which step of a micro-batch: every step with everyone who can be killed there."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

DRIVER_STEPS: Final = ("latest", "plan", "commit", "committed")
"""latestOffset is asked: Spark's log of offsets comes after it, and then the plan. After `committed` comes the log of
commits, and then the next `latest`."""

TASK_STEPS: Final = ("read", "reading", "write", "writing", "flushed")
"""A task's source and sink begin, have had their first rows, and have written everything."""

DECISION_STEPS: Final = ("end", "forget")
"""Exactly once, between `commit` and `committed`: the batch is decided, and its transactions are to be ended, and then
forgotten. What comes before `commit` is prepared."""

PYTHON: Final = "python"
"""The Python process that announced the step: a task's worker, or the one where the driver plans and commits."""

EXECUTOR: Final = "executor"
"""The JVM whose worker announced the step, with the tasks that it has; the driver lives and gets another one."""

JVM: Final = "jvm"
"""Spark itself, and its Python processes only notice."""

TREE: Final = "tree"
"""All of the driver's processes at once."""

MOMENT: Final = "moment"
"""Not a step: some time after a micro-batch, whatever happens then. All processes at once."""


class Kill(NamedTuple):
    """Of `victim`, when `step` is announced for the time after `skip` others."""

    step: str
    victim: str
    skip: int = 0

    @property
    def ends_life(self) -> bool:
        """Whether the driver has to be started again."""
        return self.victim in (JVM, TREE)


class Life(NamedTuple):
    """The kills of one life of the driver, the last of which ends it; with executors in processes of their own."""

    kills: list[Kill]
    executors: bool = False


def schedule(seed: int) -> list[Life]:
    """Every step has a kill of the driver and one of whoever takes the step, in an order of its own for each seed."""
    chance = random.Random(f"spark-{seed}")
    every_step = [*DRIVER_STEPS, *TASK_STEPS]
    deadly = [Kill(step, TREE) for step in every_step]
    deadly += [Kill(step, JVM) for step in chance.sample(every_step, 2)]
    deadly += [Kill(MOMENT, TREE)] * 2
    workers = [Kill(step, PYTHON) for step in (*DRIVER_STEPS, *TASK_STEPS * 2)]
    executors = [Kill(step, EXECUTOR) for step in TASK_STEPS]
    for kills in (deadly, workers, executors):
        chance.shuffle(kills)
    lives = [Life([_later(kill, chance) for kill in executors], executors=True), *(Life([]) for _ in deadly[1:])]
    for number, kill in enumerate(workers):
        lives[1 + number % (len(lives) - 1)].kills.append(_later(kill, chance))
    for life, last in zip(lives, deadly, strict=True):
        life.kills.append(_later(last, chance))
    return lives


def tally(kills: Iterable[Kill]) -> dict[str, int]:
    """How many there were of whom, and where."""
    return dict(sorted(Counter(f"{kill.victim} at {kill.step}" for kill in kills).items()))


def _later(kill: Kill, chance: random.Random) -> Kill:
    return kill._replace(skip=chance.randrange(2 if kill.step in DRIVER_STEPS else 3))
