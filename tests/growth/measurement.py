"""A measurement lets everything come to rest, and then counts it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tests.growth.answers import answers
from tests.growth.cluster import FORGOTTEN_S, GrowthCluster
from tests.growth.flow_topics import flow_topics
from tests.growth.idle_turns import idle_turns
from tests.growth.roles import CLIENT, TASK, Roles
from tests.growth.surroundings import caches, instances, modules, surroundings
from tests.growth.walk import Census, Root, Structure, Walk, module_of
from tests.growth.work import Work

LONGEST_REST_S: Final = 30.0
_LOOK_S: Final = 1.2
"""Longer than the services wait between two looks at what they may forget."""
_QUIET_LOOKS: Final = 3
"""Together they last longer than the cleaner's back-off: what it takes away is gone by then."""
_MOVES, _MOST_MOVES, _QUIET_MOVES = 4, 12, 2
"""Compaction removes a tombstone two moves after it first kept it (FORGOTTEN_S), so one quiet move is not enough."""
_LOOKS: Final = 3
_BETWEEN_S: Final = 0.1
_FOREIGN: Final = ("uvloop", "grpc", "tests.", "ottla_stack", "_pytest", "pytest", "kafka.")


@dataclass(frozen=True)
class Measurement:
    """What was counted after a `kind` of step, when `units` had been done in all; `life` numbers the restarts."""

    kind: str
    units: int
    life: int
    sizes: Counter[Structure]
    paths: dict[Structure, str]
    seconds: float
    cpu_s: float


def measure(cluster: GrowthCluster, work: Work, kind: str, units: int, life: int, *, with_turns: bool) -> Measurement:
    began_at = time.monotonic()
    census = rest(cluster, work)
    whole = _least(lambda: _censuses(cluster, work, whole=True))
    sizes = Counter({s: min(size, census.sizes.get(s, size)) for s, size in whole.sizes.items()})
    around = _least(lambda: Census(cluster.run(_surroundings(cluster))))
    sizes += answers(cluster, work) + flow_topics(work) + around.sizes
    cpu_before = time.process_time()
    if with_turns:
        sizes += idle_turns(cluster)
    cpu_s = time.process_time() - cpu_before
    return Measurement(kind, units, life, sizes, whole.paths, time.monotonic() - began_at, cpu_s)


def _least(look: Callable[[], Census]) -> Census:
    """Look several times, and return the smallest count of each structure: what is in hand for a moment is not kept."""
    least = look()
    for _ in range(_LOOKS - 1):
        time.sleep(_BETWEEN_S)
        now = look()
        least = Census(least.sizes & now.sizes, now.paths)
    return least


def rest(cluster: GrowthCluster, work: Work) -> Census:
    """Let the time pass after which things are forgotten, and wait until no more of them are, within a bound.

    The records that are sent meanwhile close segments, without which nothing is compacted or deleted. The result is the
    smallest count of the last looks, because what was only under way in one of them has not been kept.
    """
    left: list[int] = []
    while len(left) < _MOVES or (len(left) < _MOST_MOVES and left[-1] < left[-1 - _QUIET_MOVES]):
        work.stay()
        cluster.let_pass(2 * FORGOTTEN_S / 3)  # less than it takes to forget the clients that stay
        work.nudge()
        time.sleep(_LOOK_S)
        work.mirrored.wait_until_copied()
        left.append(flow_topics(work).total())
    give_up_at = time.monotonic() + LONGEST_REST_S
    quiet, least = 0, _censuses(cluster, work)
    while quiet < _QUIET_LOOKS and time.monotonic() < give_up_at:
        time.sleep(_LOOK_S)
        work.read()
        now = _censuses(cluster, work)
        is_less = now.sizes.total() < least.sizes.total()
        quiet = 0 if is_less else quiet + 1
        least = now if is_less else Census(least.sizes & now.sizes, now.paths)
    return least


def _censuses(cluster: GrowthCluster, work: Work, *, whole: bool = False) -> Census:
    """Take a census of all services and the clients that stay; a `whole` one has modules and tasks, too."""
    clients = [Root(CLIENT, *client) for client in work.clients]
    others = [*clients, *modules()] if whole else clients
    found = Census()
    for each in cluster.all:
        census = each.run(_census(each, others if each is cluster else (), whole=whole))
        found.sizes += census.sizes
        found.paths |= census.paths
    return found


async def _census(cluster: GrowthCluster, others: Sequence[Root], *, whole: bool) -> Census:
    """Take a census of one cluster's services and of `others`."""
    apps = ((service.name, service._app) for service in cluster.services if service._app is not None)
    roles = Roles(apps, of_target=cluster.target is None)
    foreign = {id(each) for each in (cluster._store, cluster.faults, cluster.clock, cluster._loop)}

    def is_foreign(value: object) -> bool:
        return id(value) in foreign or module_of(value).startswith(_FOREIGN)

    walk = Walk(roles.of, is_foreign)
    roots = [*roles.roots(), *others]
    if not whole:
        return walk.run(roots)
    gc.collect()
    running = asyncio.all_tasks() - {asyncio.current_task()}
    tasks = (Root(TASK, getattr(task.get_coro(), "__qualname__", "?"), task) for task in running)
    return walk.run([*roots, *tasks])


async def _surroundings(cluster: GrowthCluster) -> Counter[Structure]:
    return surroundings(cluster) + instances() + caches()
