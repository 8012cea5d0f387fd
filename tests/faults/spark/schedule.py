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

TRANSACTION_STEPS: Final = ("prepare", "decide", "end", "forget")
"""Exactly once: a task prepares between `writing` and `flushed`, the driver does the others between `commit` and
`committed`. Each is announced before it is taken; `settle`, after the decision, has the last two."""

PYTHON: Final = "python"
"""The Python process that announced the step: a task's worker, or the one where the driver plans and commits."""

EXECUTOR: Final = "executor"
"""The JVM whose worker announced the step, with the tasks that it has; the driver lives and gets another one."""

JVM: Final = "jvm"
"""Spark itself, and its Python processes only notice."""

TREE: Final = "tree"
"""All of the driver's processes at once."""

ZOMBIE: Final = "zombie"
"""Nobody yet: who announced the step waits until another driver has gone on and was killed, goes on then, and all of
this driver's processes are killed once it has seen that it is too late."""

TXN: Final = "txn-coordinator"
BROKER: Final = "broker"
"""One of these services, in the first moments of the step; its supervisor starts it again."""

TXN_OUTAGE: Final = "txn-coordinators for a minute"
BROKERS_OUTAGE: Final = "brokers for a minute"
OUTAGES: Final = (TXN_OUTAGE, BROKERS_OUTAGE)
"""All txn-coordinators, killed whenever they come back; the brokers of the decisions, which hang."""

OF_SERVICES: Final = (TXN, BROKER, *OUTAGES)

MOMENT: Final = "moment"
"""Not a step: some time after a micro-batch, whatever happens then. All processes at once."""


class Kill(NamedTuple):
    """A kill of `victim`, at the announcement of `step` after `skip` earlier ones."""

    step: str
    victim: str
    skip: int = 0

    @property
    def ends_life(self) -> bool:
        """Whether the driver has to be started again."""
        return self.victim in (JVM, TREE, ZOMBIE)


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
    return _dealt(deadly, workers, executors, chance)


def transactional_schedule(seed: int) -> list[Life]:
    """Exactly once: each step of a transaction is met by kills of all kinds, and then there are two long outages."""
    chance = random.Random(f"spark-transactions-{seed}")
    steps = TRANSACTION_STEPS
    deadly = [Kill(step, TREE) for step in (*steps, "commit", "committed")]
    deadly += [Kill(step, JVM) for step in chance.sample(steps, 1)]
    deadly += [Kill(MOMENT, TREE)]
    harmless = [
        Kill(step, victim) for step in steps for victim in (PYTHON, PYTHON, TXN, TXN, TXN, BROKER, BROKER, BROKER)
    ]
    others = ("plan", "write", "flushed", "commit", "committed")
    harmless += [Kill(step, victim) for step in others for victim in (PYTHON, TXN, BROKER)]
    executors = [Kill(step, EXECUTOR) for step in ("write", "writing", "prepare", "flushed")]
    lives = _dealt(deadly, harmless, executors, chance)
    lives += [Life([Kill("decide", ZOMBIE, 1)]), Life([FOLLOWED])]
    lives += [Life([Kill("settle", ZOMBIE, 1)]), Life([FOLLOWED._replace(step="end")])]
    return [*lives, Life([Kill("end", TXN_OUTAGE, 1), Kill("decide", BROKERS_OUTAGE, 1)])]


FOLLOWED: Final = Kill("committed", TREE, 3)
"""The kill of the driver that follows a zombie. That driver is micro-batches ahead, and has ended one that is not in
Spark's log; before `end` it has decided one that a zombie, if it could, would treat as undecided."""


def tally(kills: Iterable[Kill]) -> dict[str, int]:
    """How many there were of whom, and where."""
    return dict(sorted(Counter(f"{kill.victim} at {kill.step}" for kill in kills).items()))


def by_step(kills: Iterable[Kill]) -> dict[str, int]:
    """How many there were in each step of a transaction."""
    met = Counter(kill.step for kill in kills)
    return {step: met[step] for step in TRANSACTION_STEPS}


def _dealt(deadly: list[Kill], others: list[Kill], executors: list[Kill], chance: random.Random) -> list[Life]:
    """A life for each of the deadly, the first of them with executors; in each of the others its share."""
    for kills in (deadly, others, executors):
        chance.shuffle(kills)
    lives = [Life([_later(kill, chance) for kill in executors], executors=True), *(Life([]) for _ in deadly[1:])]
    for number, kill in enumerate(others):
        lives[1 + number % (len(lives) - 1)].kills.append(_later(kill, chance))
    for life, last in zip(lives, deadly, strict=True):
        life.kills.append(_later(last, chance))
    return lives


def _later(kill: Kill, chance: random.Random) -> Kill:
    return kill._replace(skip=chance.randrange(2 if kill.step in (*DRIVER_STEPS, *TRANSACTION_STEPS) else 3))
