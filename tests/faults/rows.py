"""The rows of the fault table: what each does to the cluster, for how long, and what it must have done to count."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from tests.faults.cluster import ETCD
from tests.faults.nemesis import Nemesis

LEASE_TTL_S: Final = 6.0
CUT_S: Final = 12.0
"""Longer than a lease and an election, so that a deposed leader is still there when the cut heals."""

_ETCD_AWAY_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Goal:
    """Seconds that the median and the 99th percentile may take."""

    p50_s: float
    p99_s: float


GOALS: Final[Mapping[str, Goal]] = MappingProxyType(
    {
        "kill": Goal(2.0, 5.0),
        "stop": Goal(LEASE_TTL_S + 3.0, LEASE_TTL_S + 3.0),
        "cut from everything": Goal(LEASE_TTL_S + 3.0, LEASE_TTL_S + 3.0),
        # A leader that keeps its seat without its followers can't reach min.insync.replicas: it heals in 10 s.
        "cut from followers": Goal(CUT_S + 10.0, CUT_S + 10.0),
        "cut from controllers and etcd": Goal(CUT_S + 10.0, CUT_S + 10.0),
        "cut one way, out": Goal(CUT_S + 10.0, CUT_S + 10.0),
        "cut one way, in": Goal(CUT_S + 10.0, CUT_S + 10.0),
        "controlled shutdown": Goal(0.5, 0.5),
        "topic after the controller's kill": Goal(5.0, 5.0),
        "topic after the controller's stop": Goal(5.0, 5.0),
    }
)


@dataclass(frozen=True, slots=True)
class Load:
    """What each writer sends: so many values a second, in a burst to each partition every `tick_s`.

    The default leaves this machine idle enough for timeouts to test the protocol, and has several batches in flight.
    """

    rate: float = 1400.0
    tick_s: float = 0.05
    batch_bytes: int = 1024


@dataclass(frozen=True, slots=True)
class Row:
    """`minutes` is how long it takes; the floors are for that time, and less of them is asked of a shorter run."""

    name: str
    title: str
    run: Callable[[Nemesis, float], None]
    minutes: float
    least_acknowledged: int
    least_hits: int
    least_leader_kills: int = 0
    impatient: bool = False
    """Whether one writer gives up early, so that some outcomes stay unknown."""
    load: Load = Load()
    librdkafka: bool = False
    """Whether a producer and a consumer of librdkafka run beside those of the SDK."""


def _kill_leaders(nemesis: Nemesis, until_at: float) -> None:
    turn = 0
    while nemesis.goes_on(until_at):
        turn += 1
        partition = nemesis.any_partition()
        leader = nemesis.cluster.leader(nemesis.topic, partition)
        if turn % 6 == 0:  # and its heir as soon as there is one: two epochs in quick succession
            with nemesis.hit("kill twice", leader):
                nemesis.kill(leader)
                heir = nemesis.next_leader(partition, leader)
                nemesis.kill(heir)
                time.sleep(nemesis.random.uniform(0.0, 1.0))
                nemesis.start(leader, heir)
        else:
            with nemesis.hit("kill", leader):
                nemesis.kill(leader)
                time.sleep(nemesis.random.choice([0.0, 0.2, 1.0, 2.5]))
                nemesis.start(leader)


def _kill_all(nemesis: Nemesis, until_at: float) -> None:
    brokers = nemesis.cluster.brokers
    while nemesis.goes_on(until_at):
        with nemesis.hit("kill all", *brokers):
            nemesis.kill(*brokers)
            time.sleep(nemesis.random.choice([0.0, 0.5, 2.0]))
            nemesis.start(*brokers)


def _stop_leaders(nemesis: Nemesis, until_at: float) -> None:
    lengths_s = [12.0, 2.0, 30.0, 1.0, 8.0, 5.0]
    while nemesis.goes_on(until_at):
        leader = nemesis.any_leader()
        with nemesis.hit("stop", leader), nemesis.stopped(leader):
            time.sleep(lengths_s[0])
        lengths_s.append(lengths_s.pop(0))


def _cut_leaders(nemesis: Nemesis, until_at: float) -> None:
    control = [*nemesis.cluster.controllers, ETCD]
    cuts: list[tuple[str, Callable[[str], None]]] = [
        ("cut from everything", nemesis.unplug),
        ("cut from followers", lambda name: nemesis.cut_both(name, nemesis.others(name))),
        ("cut from controllers and etcd", lambda name: nemesis.cut_both(name, control)),
        ("cut one way, out", lambda name: nemesis.cut(from_=[name], to=[*nemesis.others(name), *control])),
        ("cut one way, in", lambda name: nemesis.cut(from_=[*nemesis.others(name), *control], to=[name])),
    ]
    nemesis.random.shuffle(cuts)
    while nemesis.goes_on(until_at):
        kind, cut = cuts[0]
        leader = nemesis.any_leader()
        with nemesis.hit(kind, leader):
            cut(leader)
            time.sleep(CUT_S)
            nemesis.heal()
        cuts.append(cuts.pop(0))


def _cut_clients(nemesis: Nemesis, until_at: float) -> None:
    brokers = nemesis.cluster.brokers
    while nemesis.goes_on(until_at):
        client = nemesis.random.choice(nemesis.clients)
        if nemesis.random.random() < 0.5:
            with nemesis.hit("cut client", client):
                nemesis.cut_both(client, brokers)
                time.sleep(nemesis.random.uniform(2.0, 8.0))
                nemesis.heal()
        else:
            with nemesis.hit("cut client, answers lost", client):
                nemesis.cut(from_=brokers, to=[client])
                time.sleep(nemesis.random.uniform(2.0, 8.0))
                nemesis.heal()


def _harm_controllers(nemesis: Nemesis, until_at: float) -> None:
    kill = True
    while nemesis.goes_on(until_at):
        active = nemesis.cluster.active_controller()
        if kill:
            with nemesis.hit("controller killed", active):
                nemesis.kill(active)
                nemesis.create_topic("topic after the controller's kill")
                nemesis.start(active)
        else:
            with nemesis.hit("controller stopped", active), nemesis.stopped(active):
                nemesis.create_topic("topic after the controller's stop")
                time.sleep(nemesis.random.uniform(0.0, 5.0))
        kill = not kill


def _take_etcd_away(nemesis: Nemesis, until_at: float) -> None:
    elections = nemesis.leader_epochs()
    away_s = min(_ETCD_AWAY_S, max(10.0, until_at - time.monotonic() - 25.0))
    with nemesis.hit(f"etcd away for {away_s:.0f} s", ETCD):
        nemesis.kill(ETCD)
        time.sleep(away_s)
        nemesis.start(ETCD)
    with nemesis.hit("etcd stalls for 10 s", ETCD), nemesis.stopped(ETCD):
        time.sleep(10.0)
    held = nemesis.leader_epochs() - elections
    if held > len(nemesis.cluster.brokers):
        nemesis.failures.append(f"{held} elections while nothing but etcd was away: at most one a broker is right")


def _restart_in_turn(nemesis: Nemesis, until_at: float) -> None:
    while nemesis.goes_on(until_at):
        for name in nemesis.cluster.brokers:
            with nemesis.hit("controlled shutdown", name):
                nemesis.terminate(name)
                nemesis.start(name)
        for name in nemesis.cluster.controllers:
            with nemesis.hit("controller restarted", name):
                nemesis.terminate(name)
                nemesis.start(name)


ROWS: Final = (
    Row("F1", "kill -9 of leaders", _kill_leaders, 2.4, 200_000, 28, least_leader_kills=28, impatient=True),
    Row("F2", "kill -9 of all brokers at once", _kill_all, 0.7, 40_000, 5, least_leader_kills=10),
    Row("F5", "SIGSTOP of leaders for 1 to 30 s", _stop_leaders, 1.4, 120_000, 5, impatient=True),
    Row("F6", "leaders cut off, in part and one way", _cut_leaders, 1.7, 120_000, 5, impatient=True),
    Row("F7", "clients cut off", _cut_clients, 0.6, 30_000, 4, impatient=True),
    Row("F8", "kill -9 and SIGSTOP of the active controller", _harm_controllers, 0.6, 60_000, 4),
    Row("F9", "etcd away", _take_etcd_away, 1.6, 150_000, 2),
    Row("F17", "rolling restart of all services", _restart_in_turn, 0.6, 60_000, 10, librdkafka=True),
)
