"""The rows of transactions and their mutants: what is done while producers write."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tests.faults.transactions.client import KINDS
from tests.faults.transactions.failpoints import STEPS
from tests.faults.transactions.launch import HELD, KILLS, REPLAYS
from tests.faults.transactions.nemesis import TransactionNemesis
from tests.faults.transactions.producers import TIMEOUT_S

KILLS_PER_STEP: Final = 10
THREADS: Final = 6
"""Transactional ids of each kind of client."""
NEAR_THE_END: Final = 32_700
"""An epoch close to the last one, 32,766."""

_KILL_EVERY: Final = 6
_LONG_EVERY: Final = 3
_PAUSE_S: Final = 3.0

Story = Callable[[TransactionNemesis, float], None]
"""What is done, for about so many seconds."""


@dataclass(frozen=True, slots=True)
class TransactionRow:
    name: str
    title: str
    story: Story
    minutes: float
    mode: str = KILLS
    kinds: Sequence[str] = KINDS
    first_epoch: int = 0
    rivals: bool = False


def kills_in(seconds: float) -> float:
    """Return the minimum number of kills in each step, for a row of this many seconds."""
    return KILLS_PER_STEP * seconds / 60 / KILLED.minutes


def _kill_in_each_step(nemesis: TransactionNemesis, seconds: float) -> None:
    """A txn-coordinator each time, and with it often a leader or a group-coordinator; in a short run not every step
    comes. Which of the coordinators comes to a step depends on who has the shards."""
    kills, cluster = kills_in(seconds), nemesis.cluster

    def shuffled(kind: str) -> list[str]:
        steps = [step for step in STEPS[kind] for _ in range(math.ceil(kills))]
        nemesis.random.shuffle(steps)
        return steps[: max(2, round(len(STEPS[kind]) * kills))]

    others = [*shuffled("broker"), *shuffled("coordinator")]
    nemesis.random.shuffle(others)
    for number, (step, other) in enumerate(zip_longest(shuffled("txn"), others)):
        steps = {step: cluster.txn_coordinators} if step else {}
        if other is not None:
            steps[other] = (nemesis.any_leader(),) if other in STEPS["broker"] else cluster.coordinators
        nemesis.kill_in(steps)
        if number % _KILL_EVERY == 0:
            nemesis.kill_producers()


def _take_over(nemesis: TransactionNemesis, seconds: float) -> None:
    """Every second time they are cut off. Now and then a txn-coordinator is: another one takes over from it.

    No broker: librdkafka would wait in send_offsets_to_transaction, without an end, for a group's coordinator that
    metadata has no more (confluentinc/librdkafka#5511).
    """
    for number in _until(seconds):
        time.sleep(nemesis.random.uniform(0.5, 2 * _PAUSE_S))
        if number % 2:
            nemesis.take_over(THREADS, away_s=2 * TIMEOUT_S, cut=True)
        else:
            nemesis.take_over(THREADS, away_s=nemesis.random.choice((0.0, TIMEOUT_S / 2, 2 * TIMEOUT_S)))
        match number % _LONG_EVERY:
            case 1:
                nemesis.cut_off(nemesis.random.choice(nemesis.cluster.txn_coordinators))
            case 2:
                nemesis.stop_for_long()


def _replace_txn_coordinators(nemesis: TransactionNemesis, seconds: float) -> None:
    """All kinds of services are killed, wherever they are; txn-coordinators most: their old markers come again."""
    for number in _until(seconds):
        names = nemesis.cluster.txn_coordinators
        nemesis.kill_service(names[number % len(names)])
        time.sleep(nemesis.random.uniform(_PAUSE_S / 2, 2 * _PAUSE_S))
        if number % _KILL_EVERY == 1:
            nemesis.kill_service(nemesis.random.choice((*nemesis.cluster.brokers, *nemesis.cluster.coordinators)))
        if number % _KILL_EVERY == 4:
            nemesis.kill_producers()


def _until(seconds: float) -> Iterator[int]:
    """Numbers from 0 on, until the time is over: 2 at least."""
    number, until_at = 0, time.monotonic() + seconds
    while number < 2 or time.monotonic() < until_at:
        yield number
        number += 1


def _wait(nemesis: TransactionNemesis, seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at and not nemesis.caught():
        time.sleep(0.5)


def _lose_markers(nemesis: TransactionNemesis, seconds: float) -> None:
    _wait(nemesis, seconds)
    nemesis.lose_markers()


def _kill_before_markers(nemesis: TransactionNemesis, seconds: float) -> None:
    _wait(nemesis, seconds)
    nemesis.kill_before_markers()
    _wait(nemesis, seconds)


def _load_what_is_pending(nemesis: TransactionNemesis, seconds: float) -> None:
    """Producers that begin anew read what group-coordinators have made of offsets that will never be committed."""
    for _ in range(2):
        nemesis.kill_with_producers("after pending offsets", nemesis.cluster.coordinators)
        _wait(nemesis, seconds)


KILLED: Final = TransactionRow("F11", "services killed in each step of transactions", _kill_in_each_step, 11.0)
ROWS: Final = (
    KILLED,
    TransactionRow("F12", "producers that were taken for dead", _take_over, 5.0, first_epoch=NEAR_THE_END, rivals=True),
    TransactionRow(
        "F13", "requests that come twice", _replace_txn_coordinators, 6.0, mode=REPLAYS, first_epoch=NEAR_THE_END
    ),
)

_BROKEN: Final[dict[str, tuple[Story, float, str, Sequence[str]]]] = {
    "no-epoch-bump": (_wait, 10.0, REPLAYS, ["sdk"]),
    "marker-without-coordinator-epoch": (_replace_txn_coordinators, 20.0, REPLAYS, ["librdkafka"]),
    "prepare-reverted": (_kill_before_markers, 3.0, HELD, ["sdk"]),
    "last-stable-offset-without-the-unreplicated": (_lose_markers, 3.0, HELD, ["sdk"]),
    "equal-epoch-marker-refused": (_wait, 3.0, KILLS, ["librdkafka"]),
    "verification-skipped": (_wait, 3.0, KILLS, ["sdk"]),
    "pending-offsets-applied-at-load": (_load_what_is_pending, 3.0, KILLS, ["sdk"]),
}
MUTANT_ROWS: Final = tuple(
    TransactionRow(name, "a rule broken on purpose", story, seconds / 60, mode, kinds)
    for name, (story, seconds, mode, kinds) in _BROKEN.items()
)
