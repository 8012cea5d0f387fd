"""The row and its mutants: which clients run, and what is done to them and to the services."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from tests.faults.cluster import until
from tests.faults.restarts.drivers import PLAIN, RESTORED
from tests.faults.restarts.nemesis import RestartNemesis

NAME: Final = "F35"
MINUTES: Final = 10.0
LEAST_RESTARTS: Final = 100
LEAST_DEATHS: Final = 10
LEAST_RESTORED: Final = 2
LEAST_ROWS: Final = 15_000
LEAST_DEAD_LETTERS: Final = 30

QUERY, APP, ADMINISTRATOR, LISTINGS, READERS = "query", "app", "administrator", "listings", "readers"
ALL: Final = (QUERY, APP, ADMINISTRATOR, LISTINGS, READERS)
_APP_EVERY: Final = 4
_LIVES_LIMIT_S: Final = 600.0
_MOST_TIMES: Final = 4
"""On a slow machine the row takes up to this many times its minutes."""

Story = Callable[[RestartNemesis, float], None]
"""A story restarts services and Apps for about that many seconds."""


@dataclass(frozen=True, slots=True)
class RestartRow:
    """`clients` are those that run, and `lives` the lives of the query's driver (drivers), in turn.

    A mutant is caught by one of `findings`, which are kinds of the checker. `backlog` is the number of rows
    that each partition has before the App and the query start. The App's handler takes `slow_s` for some of them.
    `has_lived` has the counts of the drivers after which the query has been through enough.
    """

    name: str
    title: str
    story: Story
    minutes: float
    clients: Sequence[str] = ALL
    lives: Sequence[str] = ()
    findings: Sequence[str] = ()
    backlog: int = 160
    slow_s: float = 1.0
    has_lived: Mapping[str, int] = field(default_factory=lambda: {"rounds of lives": 1})


def _restart_all(nemesis: RestartNemesis, seconds: float) -> None:
    """Restart each kind in turn, and in between kill one service by chance, or one kind of coordinators.

    This goes on until the query's driver has had all its lives, however long Java takes to start.
    """
    cluster, began_at = nemesis.cluster, time.monotonic()
    kinds = (cluster.coordinators, cluster.txn_coordinators, cluster.brokers)
    for turn in count():
        if not nemesis.goes_on(began_at + seconds * (1 if nemesis.has_lived() else _MOST_TIMES)):
            return
        nemesis.restart_in_turn(kinds[turn % len(kinds)])
        nemesis.kill_at_once([nemesis.random.choice([name for kind in kinds for name in kind])])
        nemesis.kill_at_once(nemesis.random.choice([cluster.coordinators, cluster.txn_coordinators]))
        nemesis.restart_app(kill=nemesis.random.random() < 0.5)


def _restart_coordinators(nemesis: RestartNemesis, seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while nemesis.goes_on(until_at):
        nemesis.kill_at_once(
            [nemesis.random.choice([*nemesis.cluster.coordinators, *nemesis.cluster.txn_coordinators])]
        )


def _roll_brokers(nemesis: RestartNemesis, seconds: float) -> None:
    """Restart the brokers, so that the shards' partitions get other leaders."""
    until_at = time.monotonic() + seconds
    while nemesis.goes_on(until_at):
        nemesis.restart_in_turn(nemesis.cluster.brokers)


def _kill_apps(nemesis: RestartNemesis, seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at and not nemesis.caught():
        nemesis.restart_app(kill=True)
        _wait(nemesis, seconds / _APP_EVERY)


def _live_through(nemesis: RestartNemesis, seconds: float) -> None:
    """Wait until the query's driver has had all its lives, however long Java takes to start."""
    until(nemesis.has_lived, "the lives of the query's driver", _LIVES_LIMIT_S)


def _wait(nemesis: RestartNemesis, seconds: float) -> None:
    until_at = time.monotonic() + seconds
    while time.monotonic() < until_at and not nemesis.caught():
        time.sleep(0.2)


# The first four depend on a move at the wrong moment. They end as soon as they are caught.
_BROKEN: Final[dict[str, tuple[Story, float, Sequence[str], Sequence[str], Sequence[str]]]] = {
    "union-not-demanded": (_roll_brokers, 180.0, [LISTINGS], [], ["short_listings"]),
    "shards-named-while-they-load": (_restart_coordinators, 120.0, [LISTINGS], [], ["short_listings"]),
    "kafka-lists-what-answers": (_restart_coordinators, 120.0, [LISTINGS], [], ["short_listings"]),
    "hanging-if-not-listed": (_restart_coordinators, 120.0, [ADMINISTRATOR], [], ["false_hangs", "torn"]),
    "number-is-enough": (_live_through, 60.0, [QUERY], [PLAIN, PLAIN, RESTORED], ["lost"]),
    "failed-attempts-count": (_wait, 8.0, [APP], [], ["doubled", "torn"]),
    "attempts-forgotten": (_wait, 8.0, [APP], [], ["lost"]),
    "rounds-without-end": (_wait, 45.0, [APP], [], ["lost"]),
    "transactions-without-timeout": (_kill_apps, 45.0, [APP, READERS], [], ["waits"]),
}
_BACKLOGS: Final = {"rounds-without-end": (1_500, 5.0)}
"""Each key has 5 slow records among a thousand. At 5 s each they take longer than a transaction may (APP_TIMEOUT_S)."""

ROW: Final = RestartRow(
    NAME,
    "restarts of all coordinators and brokers beside exactly-once queries and Apps",
    _restart_all,
    MINUTES,
    has_lived={"deaths": LEAST_DEATHS, "restored": LEAST_RESTORED, "copied": LEAST_RESTORED},
)
MUTANT_ROWS: Final = tuple(
    RestartRow(
        name,
        "a rule broken on purpose",
        story,
        seconds / 60,
        clients,
        lives,
        findings,
        *_BACKLOGS.get(name, ()),
    )
    for name, (story, seconds, clients, lives, findings) in _BROKEN.items()
)
