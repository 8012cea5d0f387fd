"""The rows: what each does to disks, one story a hit, whose end is that all are in sync again.

Where the order of starts matters, a broker is started once the one before it is ready.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle, permutations, product
from typing import Final

from tests.faults.cluster import ETCD
from tests.faults.disks.nemesis import DiskNemesis
from tests.faults.nemesis import Nemesis
from tests.faults.rows import Load, Row

LEAST_HITS: Final = 20
LEAST_ACKNOWLEDGED: Final = 10_000
_SOME_RECORDS_S: Final = 0.3
_MINUTES: Final = 2.0
_LOAD: Final = Load(rate=250.0)


@dataclass(frozen=True, slots=True)
class DiskRow(Row):
    """Whoever runs it goes on until there were enough hits, however long they take; `minutes` is the least."""

    small_disks: bool = False
    """Whether each broker has a file system of its own, which can be filled."""


def _lose_the_last_ones_disk(nemesis: DiskNemesis, until_at: float) -> None:
    """Two leave the ISR, by stop and by kill in turn; the disk of the third is emptied; all return, in every order."""
    ways = list(product(permutations(range(3)), (True, False)))
    nemesis.random.shuffle(ways)
    kills_first = False
    for order, whole in cycle(ways):
        if not nemesis.goes_on(until_at):
            return
        names = nemesis.random.sample(nemesis.cluster.brokers, 3)
        first, second, last = names
        go, go_next = (nemesis.kill, nemesis.terminate) if kills_first else (nemesis.terminate, nemesis.kill)
        with nemesis.hit("disk lost", *names):
            go(first)
            nemesis.until_in_sync(last, {second, last})
            time.sleep(_SOME_RECORDS_S)
            go_next(second)
            nemesis.until_in_sync(last, {last})
            time.sleep(_SOME_RECORDS_S)
            go(last)
            nemesis.empty(last, whole=whole)
            _start_in_order(nemesis, *([names[n]] for n in order))
        kills_first = not kills_first


def _put_an_old_volume_back(nemesis: DiskNemesis, until_at: float) -> None:
    """A volume as it was after a stop in order, marker and all; its broker was in sync last, and starts first or last.

    Where the others went at once with it, it may have been noted before them: then it counts on nobody.
    """
    for first, at_once in cycle(((True, False), (False, False), (True, True), (False, True))):
        if not nemesis.goes_on(until_at):
            return
        victim = nemesis.any_leader()
        others = nemesis.others(victim)
        with nemesis.hit("old volume", *nemesis.cluster.brokers):
            nemesis.terminate(victim)
            nemesis.save(victim)
            nemesis.start(victim)
            nemesis.until_whole()
            time.sleep(_SOME_RECORDS_S)
            if at_once:
                nemesis.kill(*nemesis.cluster.brokers)
            else:
                nemesis.kill(*others)
                nemesis.until_in_sync(victim, {victim})
                nemesis.kill(victim)
            nemesis.put_back(victim)
            _start_in_order(nemesis, *([victim], others) if first else (others, [victim]))


def _restore_the_store(nemesis: DiskNemesis, until_at: float) -> None:
    """A backup, three elections, a replica that leaves the ISR; then the store is the backup, and that replica first.

    In turn it is one whose life the backup knows, and so no proof that the store is old, and the leader of the backup.
    """
    for known in cycle((True, False)):
        if not nemesis.goes_on(until_at):
            return
        partition = nemesis.any_partition()
        first, *_, last = nemesis.replicas(partition)
        nemesis.elect_preferred(partition)
        with nemesis.hit("store restored", *nemesis.cluster.brokers):
            nemesis.back_up_store()
            nemesis.kill(first)
            nemesis.until_in_sync(last, nemesis.others(first))
            nemesis.start(first)
            nemesis.until_whole()
            nemesis.elect_preferred(partition)
            nemesis.kill(first)
            nemesis.until_in_sync(last, nemesis.others(first))
            if known:
                nemesis.start(first)
                nemesis.until_whole()
                nemesis.kill(last)
            behind = last if known else first
            others = nemesis.others(behind)
            nemesis.until_in_sync(others[0], others)
            time.sleep(_SOME_RECORDS_S)
            nemesis.kill(*others, *nemesis.cluster.controllers, ETCD)
            nemesis.restore_store()
            nemesis.start(ETCD, *nemesis.cluster.controllers)
            _start_in_order(nemesis, [behind], others)


def _fill_the_next_leader(nemesis: DiskNemesis, until_at: float) -> None:
    """Who comes next in the order of the replicas is full when the leader is killed: noticed before, or only then."""
    for noticed in cycle((True, False)):
        if not nemesis.goes_on(until_at):
            return
        partition = nemesis.any_partition()
        leader = nemesis.cluster.leader(nemesis.topic, partition)
        full = next(name for name in nemesis.replicas(partition) if name != leader)
        (roomy,) = (name for name in nemesis.cluster.brokers if name not in (leader, full))
        with nemesis.hit("next leader full", leader, full):
            nemesis.fill(full)
            if noticed:
                number = int(full.rpartition("-")[2])
                nemesis.until_seen(
                    roomy, lambda seen, n=number: all(p.leader != n for p in seen), f"nothing led by {full}"
                )
            nemesis.kill(leader)
            number = int(roomy.rpartition("-")[2])
            nemesis.until_seen(
                roomy, lambda seen, n=number: all(p.leader == n for p in seen), f"all led by {roomy}, which has room"
            )
            nemesis.start(leader)
            nemesis.until_acknowledged()
            nemesis.make_room(full)


def _start_in_order(nemesis: DiskNemesis, *groups: list[str]) -> None:
    for names in groups:
        nemesis.start(*names)
        for name in names:
            nemesis.cluster.until_ready(name)


def _of_disks(story: Callable[[DiskNemesis, float], None]) -> Callable[[Nemesis, float], None]:
    def run(nemesis: Nemesis, until_at: float) -> None:
        assert isinstance(nemesis, DiskNemesis), "rows of disks are run by their own run"
        story(nemesis, until_at)

    return run


def _row(name: str, title: str, story: Callable[[DiskNemesis, float], None], *, small_disks: bool = False) -> DiskRow:
    return DiskRow(
        name, title, _of_disks(story), _MINUTES, LEAST_ACKNOWLEDGED, LEAST_HITS, load=_LOAD, small_disks=small_disks
    )


DISK_ROWS: Final = (
    _row("F25", "the disk of the last one in sync lost", _lose_the_last_ones_disk),
    _row("F26", "an old volume, closed in order", _put_an_old_volume_back),
    _row("F27", "the metadata store restored from a backup", _restore_the_store),
    _row("F28", "the next leader full", _fill_the_next_leader, small_disks=True),
)
