"""The row and its mutants: what is done while records are written and copied."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.faults.mirrored.nemesis import MirroredNemesis
from tests.faults.mirrored.sites import REDIS

NAME: Final = "F20"
MINUTES: Final = 3.0
MONTHS: Final = 4
LEAST_KILLS: Final = 40
LEAST_CUTS: Final = 10
LEAST_REDIS_KILLS: Final = 4
"""Among those."""
_PATIENCE: Final = 2.0
"""So many times the row's time may go by until its floors are reached."""

Story = Callable[[MirroredNemesis, float], None]
"""What is done, for about so many seconds."""


@dataclass(frozen=True, slots=True)
class MirroredRow:
    name: str
    title: str
    story: Story
    minutes: float
    findings: Sequence[str] = ()
    """What a mutant may be found by, of the checker's kinds."""
    months: int = 0
    """So many of `IdleMonths` go by after that."""


def _kill_and_cut(nemesis: MirroredNemesis, seconds: float) -> None:
    """Until the time is over and the floors are reached."""
    began_at, share, number = time.monotonic(), min(1.0, seconds / 60 / MINUTES), 0
    while time.monotonic() < began_at + seconds or (
        time.monotonic() < began_at + _PATIENCE * seconds
        and (
            nemesis.kills.total() < share * LEAST_KILLS
            or nemesis.kills[REDIS] < share * LEAST_REDIS_KILLS
            or nemesis.link_cuts < share * LEAST_CUTS
        )
    ):
        nemesis.cut_link() if number % 2 else nemesis.kill_some()
        number += 1


def _kill_mirrors(nemesis: MirroredNemesis, seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at:
        nemesis.kill_mirrors()


def _wait(nemesis: MirroredNemesis, seconds: float) -> None:
    time.sleep(seconds)


_BROKEN: Final[dict[str, tuple[Story, float, Sequence[str], int]]] = {
    "producer-ids-copied": (_wait, 20.0, ["lost", "swallowed"], 0),
    "crc-not-checked": (_wait, 30.0, ["foreign", "unreadable"], 0),
    "position-outside-the-transaction": (_kill_mirrors, 30.0, ["doubled"], 0),
    "translation-rounded-up": (_wait, 10.0, ["past_true"], 0),
    "redis-ahead": (_wait, 10.0, ["past_true"], 0),
    "aborted-records-kept": (_wait, 5.0, ["foreign"], 0),
    "position-of-the-group-alone": (_wait, 5.0, ["doubled"], 1),
    "offset-syncs-expire": (_wait, 5.0, ["doubled"], 1),
    "groups-led-back": (_wait, 5.0, ["rewound"], 3),
    "obstacles-not-named": (_wait, 5.0, ["silent"], 3),
    "checkpoints-not-consulted": (_wait, 5.0, ["silent"], 3),
}
ROW: Final = MirroredRow(
    NAME,
    "mirrors, both sites, the link between them and a Redis, killed and cut; then idle months and two failovers",
    _kill_and_cut,
    MINUTES,
    months=MONTHS,
)
MUTANT_ROWS: Final = tuple(
    MirroredRow(name, "a rule broken on purpose", story, seconds / 60, findings, months)
    for name, (story, seconds, findings, months) in _BROKEN.items()
)
