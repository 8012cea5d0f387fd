"""A run does batches of units, then restarts and fails over everything, and measures after each of these steps."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Final

from tests.growth.cluster import GrowthCluster, mirrored_cluster
from tests.growth.measurement import Measurement, measure
from tests.growth.roles import flows_of, part
from tests.growth.running_mirror import DELIVERIES
from tests.growth.verdict import RESTART, WORK
from tests.growth.work import Work

from ottla_controller.leadership import Leadership
from ottla_core.coordination.runtime import OwnedShards
from ottla_stack.cluster import InProcessService
from ottla_stack.running import wait_for

LONG: Final = (WORK, WORK, WORK, RESTART, WORK, WORK, RESTART, WORK, WORK, RESTART)
SHORT: Final = (WORK, WORK, WORK)
FAILOVER_S: Final = 60.0
MOST_MORE: Final = 3
"""How often steps are added while something seems to grow that should not: what really grows will grow again."""


@dataclass(frozen=True)
class Outcome:
    measurements: Sequence[Measurement]
    done: Counter[str]
    restarts: int
    seconds: float


def run(
    steps: Sequence[str],
    units: int,
    seed: int,
    *,
    with_turns: bool,
    deliveries: Mapping[str, str] = DELIVERIES,
    tell: Callable[[str], None] = lambda line: None,
    in_doubt: Callable[[Sequence[Measurement]], bool] = lambda measurements: False,
) -> Outcome:
    """Carry out the `steps`, each batch of so many `units`. Raises whatever a unit raises: none may fail.

    The mirrors have a flow for each of the `deliveries`.

    If there are restarts among them, an orderly one comes first, so that what a stop leaves is there from then on.
    """
    began_at, measurements, life, done = time.monotonic(), list[Measurement](), 0, 0
    chance = random.Random(seed)
    with mirrored_cluster(deliveries) as cluster, Work(cluster, seed) as work:

        def carry_out(step: str) -> None:
            nonlocal life, done
            if step == RESTART:
                restart_everything(cluster, life, chance)
                life += 1
            else:
                for _ in range(units):
                    work.unit()
                work.finish()
                done += units
            measurements.append(measure(cluster, work, step, done, life, with_turns=with_turns))
            last = measurements[-1]
            tell(
                f"{time.monotonic() - began_at:5.0f} s  after {step}: {done} units, {len(last.sizes)} structures, "
                f"{last.sizes.total()} in all, measured in {last.seconds:.1f} s"
            )

        if RESTART in steps:
            work.unit()
            work.finish()
            for each in cluster.all:
                for service in each.services:
                    service.restart()
        for step in steps:
            carry_out(step)
        for _ in range(MOST_MORE):
            if in_doubt(measurements):
                for step in (WORK, WORK, RESTART) if RESTART in steps else (WORK,):
                    carry_out(step)
        return Outcome(measurements, work.done, life, time.monotonic() - began_at)


def restart_everything(cluster: GrowthCluster, life: int, chance: random.Random) -> None:
    """Restart each service once: half of them are killed, the others stop in order. Another takes over meanwhile."""
    services: list[InProcessService] = [*cluster.brokers, *_owners(cluster), *_elected(cluster), *cluster.mirrors]
    chance.shuffle(services)
    for number, service in enumerate(services):
        if (number + life) % 2:
            service.kill()
        else:
            service.stop()
        kind = service.name.rpartition("-")[0]
        if (successors := _SUCCESSORS.get(kind)) is not None:
            wait_for(partial(_has_one, kind, successors, cluster), f"another {kind}", limit_s=FAILOVER_S)
        service.restart()
    for service in cluster.target.services if cluster.target is not None else ():
        service.restart()


def _has_one(kind: str, successors: Callable[[GrowthCluster], list[InProcessService]], cluster: GrowthCluster) -> bool:
    return any(service.name.startswith(kind) for service in successors(cluster))


def _owners(cluster: GrowthCluster) -> list[InProcessService]:
    """Return the coordinators that serve a shard."""
    coordinators = [*cluster.group_coordinators, *cluster.txn_coordinators]
    return [c for c in coordinators if c._app is not None and part(c._app, OwnedShards)._serving() > 0]


def _elected(cluster: GrowthCluster) -> list[InProcessService]:
    return [c for c in cluster.controllers if c._app is not None and part(c._app, Leadership).active]


def _leading(cluster: GrowthCluster) -> list[InProcessService]:
    """Return the mirrors that lead all flows."""
    return [m for m in cluster.mirrors if m._app is not None and all(f.state.leads for f in flows_of(m._app))]


_SUCCESSORS: Final[Mapping[str, Callable[[GrowthCluster], list[InProcessService]]]] = MappingProxyType(
    {"controller": _elected, "group-coordinator": _owners, "txn-coordinator": _owners, "mirror": _leading}
)
"""Who has taken over, by the kind of service that was taken away."""
