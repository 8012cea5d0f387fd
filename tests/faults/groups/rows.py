"""The rows of groups: who the members are, what is done to the cluster, and what it must have come to, to count."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import cycle, islice
from types import MappingProxyType
from typing import Final

from tests.faults.cluster import ETCD
from tests.faults.groups.nemesis import GroupNemesis
from tests.faults.rows import CUT_S, LEASE_TTL_S

HOUR_S: Final = 3600.0

GOALS_S: Final[Mapping[str, float]] = MappingProxyType(
    {
        # The 99th percentile of what a shard's groups wait for their next commit.
        "coordinator killed": 5.0,
        "both coordinators killed": 5.0,
        "coordinator stopped": LEASE_TTL_S + 3.0,
        "coordinator cut from everything": LEASE_TTL_S + 3.0,
        "coordinator stopped and cut from controllers and etcd": LEASE_TTL_S + 3.0,
        "coordinator cut from controllers and etcd": LEASE_TTL_S + 3.0,
        # It is registered and can't reach the log: nobody else is given its shards, and it heals when the cut does.
        "coordinator cut from brokers": CUT_S + 10.0,
        "shards' leader killed": 5.0,
        "coordinator and shards' leader killed": 5.0,
    }
)


@dataclass(frozen=True, slots=True)
class Members:
    """One process of members (`members`, or `kafka_members` with `kafka`). `churn_s`: how long one stays; 0: for ever.

    `number` of them in each of `groups`.
    """

    groups: tuple[str, ...]
    number: int
    churn_s: float = 0.0
    kafka: bool = False
    tick_s: float = 0.25
    heartbeat_s: float = 0.5


@dataclass(frozen=True, slots=True)
class GroupRow:
    """`minutes` is how long it takes; the floors are for that time, and less of them is asked of a shorter run."""

    name: str
    title: str
    run: Callable[[GroupNemesis, float], None]
    minutes: float
    members: tuple[Members, ...]
    least: Mapping[str, int] = field(default_factory=dict)
    """By what is counted: kills, rebalances, commits, fetches."""
    partitions: int = 4
    idle: tuple[str, ...] = ()
    """Groups without members, whose offsets are committed once and read all the time."""


def named(prefix: str, count: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{n}" for n in range(count))


# ---- F10 ------------------------------------------------------------------------------------------------------------


def _harm_coordinators(nemesis: GroupNemesis, until_at: float) -> None:
    """Kills between longer faults, so that both are often there in a short run."""
    long = cycle([_stop_owner, _cut_from_etcd, _unplug_owner, _cut_from_brokers, _wake_unaware])
    short = cycle([_kill_owner, _kill_leader, _kill_owner, _kill_both, _kill_owner, _kill_owner_and_leader])
    while time.monotonic() < until_at:
        for harm in islice(short, 3):
            harm(nemesis)
        if time.monotonic() < until_at:
            next(long)(nemesis)


def _kill_owner(nemesis: GroupNemesis) -> None:
    owner = nemesis.any_owner()
    with nemesis.hit("coordinator killed", owner):
        nemesis.kill(owner)
        time.sleep(nemesis.random.choice([0.0, 0.2, 1.0, 2.5]))
        nemesis.start(owner)


def _kill_both(nemesis: GroupNemesis) -> None:
    with nemesis.hit("both coordinators killed", *nemesis.groups.coordinators):
        nemesis.kill(*nemesis.groups.coordinators)
        nemesis.start(*nemesis.groups.coordinators)


def _kill_leader(nemesis: GroupNemesis) -> None:
    leader = nemesis.any_leader()
    with nemesis.hit("shards' leader killed", leader):
        nemesis.kill(leader)
        time.sleep(nemesis.random.choice([0.0, 1.0, 2.5]))
        nemesis.start(leader)


def _kill_owner_and_leader(nemesis: GroupNemesis) -> None:
    owner, leader = nemesis.any_owner(), nemesis.any_leader()
    with nemesis.hit("coordinator and shards' leader killed", owner, leader):
        nemesis.kill(owner, leader)
        time.sleep(nemesis.random.choice([0.0, 1.0]))
        nemesis.start(owner, leader)


def _stop_owner(nemesis: GroupNemesis) -> None:
    owner = nemesis.any_owner()
    with nemesis.hit("coordinator stopped", owner), nemesis.stopped(owner):
        time.sleep(nemesis.random.choice([CUT_S, 4.0]))


def _unplug_owner(nemesis: GroupNemesis) -> None:
    owner = nemesis.any_owner()
    with nemesis.hit("coordinator cut from everything", owner):
        nemesis.unplug(owner)
        time.sleep(CUT_S)
        nemesis.heal()


def _cut_from_etcd(nemesis: GroupNemesis) -> None:
    """Who is no owner any more still hears members, and reaches the log."""
    owner = nemesis.any_owner()
    with nemesis.hit("coordinator cut from controllers and etcd", owner):
        nemesis.cut_both(owner, [*nemesis.cluster.controllers, ETCD])
        time.sleep(CUT_S)
        nemesis.heal()


def _wake_unaware(nemesis: GroupNemesis) -> None:
    """An owner is stopped until others have its shards, and goes on without hearing of its deposition.

    Reads have waited for the owner meanwhile. Its members have left, so no append of its own tells the owner of the
    deposition.
    """
    owner = nemesis.any_owner()
    with nemesis.hit("coordinator stopped and cut from controllers and etcd", owner):
        with nemesis.stopped(owner):
            nemesis.cut_both(owner, [*nemesis.cluster.controllers, ETCD])
            time.sleep(CUT_S)
        time.sleep(2.0)
        nemesis.heal()


def _cut_from_brokers(nemesis: GroupNemesis) -> None:
    owner = nemesis.any_owner()
    with nemesis.hit("coordinator cut from brokers", owner):
        nemesis.cut_both(owner, nemesis.cluster.brokers)
        time.sleep(CUT_S)
        nemesis.heal()


# ---- F16 ------------------------------------------------------------------------------------------------------------


def _move_clocks(nemesis: GroupNemesis, until_at: float) -> None:
    """An hour on, an hour back, all of them or one kind; and a coordinator that takes over in the wrong hour."""
    nemesis.write_old_records()
    cluster = nemesis.groups
    everybody = cluster.services
    steps = [
        (everybody, HOUR_S),
        (everybody, 0.0),
        (everybody, -HOUR_S),
        (cluster.coordinators, HOUR_S),
        (cluster.brokers, HOUR_S),
        (cluster.controllers, HOUR_S),
        (cluster.coordinators, -HOUR_S),
        ((nemesis.any_owner(),), 0.0),
        (everybody, 0.0),
    ]
    while time.monotonic() < until_at:
        for names, seconds in steps:
            nemesis.move_clocks(*names, seconds=seconds)
            time.sleep(2.0)
            nemesis.check_old_records()
            if nemesis.random.random() < 0.3:
                _kill_owner(nemesis)
    nemesis.move_clocks(*everybody, seconds=0.0)


# ---- F18 ------------------------------------------------------------------------------------------------------------


def _storm(nemesis: GroupNemesis, until_at: float) -> None:
    turn = 0
    while time.monotonic() < until_at:
        turn += 1
        time.sleep(nemesis.random.uniform(8.0, 13.0))
        if turn % 5 == 0:
            nemesis.kill_members()
        elif turn % 5 == 2:
            _kill_leader(nemesis)
        else:
            _kill_owner(nemesis)


_STEADY: Final = Members(named("steady-", 12), 2)
_RESTLESS: Final = Members(named("restless-", 6), 3, churn_s=10.0)
_STORM: Final = ("storm",)

GROUP_ROWS: Final = (
    GroupRow(
        "F10",
        "coordinators killed, stopped and cut off",
        _harm_coordinators,
        3.5,
        (_STEADY, _RESTLESS, Members(("kafka",), 3, churn_s=30.0, kafka=True)),
        MappingProxyType({"kills": 16, "rebalances": 60, "commits": 10_000, "fetches": 5_000}),
    ),
    GroupRow(
        "F16",
        "clocks an hour off, forward and back",
        _move_clocks,
        1.2,
        (_STEADY, Members(("kafka",), 2, kafka=True)),
        MappingProxyType({"kills": 2, "rebalances": 12, "commits": 3_000, "fetches": 2_000}),
        idle=named("idle-", 4),
    ),
    GroupRow(
        "F18",
        "50 members join, leave and are killed",
        _storm,
        2.5,
        (
            Members(_STORM, 22, churn_s=40.0, heartbeat_s=0.2, tick_s=0.3),
            Members(_STORM, 22, churn_s=40.0, heartbeat_s=0.2, tick_s=0.3),
            Members(_STORM, 6, churn_s=60.0, kafka=True),
            Members(named("steady-", 12), 1),
        ),
        MappingProxyType({"kills": 6, "rebalances": 40, "commits": 5_000, "fetches": 500}),
        partitions=60,
    ),
)

# ---- mutants --------------------------------------------------------------------------------------------------------


def _kill_an_only_holder(nemesis: GroupNemesis, until_at: float) -> None:
    """A leader whose followers hang is killed: no member may have been told of anything of that time."""
    while nemesis.goes_on(until_at):
        leader = nemesis.any_leader()
        with nemesis.hit("killed while its followers hung", leader):
            with nemesis.stopped(*nemesis.others(leader)):
                time.sleep(1.0)
                nemesis.kill(leader)
            time.sleep(1.0)
            nemesis.start(leader)


def _again(harm: Callable[[GroupNemesis], None]) -> Callable[[GroupNemesis, float], None]:
    def run(nemesis: GroupNemesis, until_at: float) -> None:
        while nemesis.goes_on(until_at):
            harm(nemesis)

    return run


def _nothing(nemesis: GroupNemesis, until_at: float) -> None:
    """Members churn, and that is enough."""
    while time.monotonic() < until_at and not nemesis.caught():
        time.sleep(_LOOK_S)


_LOOK_S: Final = 0.5
_FEW_STEADY: Final = (Members(named("steady-", 8), 2),)
_FEW_RESTLESS: Final = (Members(named("restless-", 6), 4, churn_s=4.0),)

MUTANT_GROUP_ROWS: Final = tuple(
    GroupRow(name, of, run, 0.35, members)
    for name, of, run, members in (
        ("fetch-without-check", "F10", _again(_wake_unaware), _FEW_STEADY),
        ("response-before-the-high-watermark", "F10", _kill_an_only_holder, _FEW_STEADY),
        ("check-without-fence", "F10", _again(_wake_unaware), _FEW_STEADY),
        ("no-session-after-a-load", "F10", _again(_kill_owner), _FEW_STEADY),
        ("commit-without-generation-check", "F18", _nothing, _FEW_RESTLESS),
        ("generation-not-counted", "F18", _nothing, _FEW_RESTLESS),
        ("deadlines-by-the-wall-clock", "F16", _move_clocks, _FEW_STEADY),
    )
)
"""Their titles are the rows that they belong to."""
