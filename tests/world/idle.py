"""This module leaves a cluster alone for many hours, measures what that costs, and checks that nothing of it grows."""

from __future__ import annotations

import logging
import time
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Final

from tests.growth.measurement import Measurement
from tests.growth.roles import part
from tests.growth.verdict import described, judge
from tests.world import substitutes
from tests.world.census import BOUNDS, Census
from tests.world.cluster import Cluster
from tests.world.disk import Disks
from tests.world.fibers import World
from tests.world.findings import Findings
from tests.world.forked import in_a_fork
from tests.world.growth import PRODUCERS_S, Growth
from tests.world.ledger import Ledger
from tests.world.network import Network
from tests.world.shards import Shards

from ottla_broker.replication.replicas import Replicas

_BROKERS: Final = 3
_PERIODS: Final = 3
_SETTLED_S: Final = 700.0
"""After this time each partition is led by its preferred replica, and groups without members and offsets are deleted.
The cluster checks the one every five minutes, and the other every ten."""
_HOUR_S: Final = 3600.0
_EXPIRED_H: Final = 7 * 24.0 + 2.0
"""By then brokers have forgotten idle producers (one day), and coordinators have forgotten transactional ids and
committed offsets (seven days). A shorter rest forgets producers before it begins."""
_LONG_REST: Final = MappingProxyType({"replica.fetch.wait.max.ms": "10000"})
"""Followers' fetches are most of what happens in an idle cluster."""
_LOOK_S: Final = 10.0
"""The world itself looks this often whether a process of an idle cluster is dead."""
_LIMIT_S: Final = 7200.0
_cpu = time.process_time


@dataclass(slots=True)
class Idleness:
    """This says what idle hours have cost and changed. `revisions` counts those of etcd."""

    hours: float
    cpu_ms_per_second: float = 0.0
    expired: int = 0
    """How much was there that a long rest had to outlast: producers, transactional ids, groups and offsets."""
    structures: int = 0
    grown: int = 0
    revisions: int = 0
    log_bytes: int = 0
    violations: list[str] = field(default_factory=list)


def idle_in_a_fork(hours: float, seed: int = 1) -> Idleness:
    """Let a cluster work, rest for some hours, and work again. Measure it while it rests."""
    return Idleness(**in_a_fork(lambda: asdict(_idle(hours, seed)), _LIMIT_S))


def _idle(hours: float, seed: int) -> Idleness:
    world, found = World(seed), Idleness(hours)
    findings = Findings(world.note)
    network, disks = Network(world), Disks(world)
    substitutes.put_in_place(world, network, disks)
    logging.getLogger().setLevel(logging.ERROR)
    configs = {
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.num.partitions": "2",
    }
    outlasts_all = hours > _EXPIRED_H
    configs |= _LONG_REST if outlasts_all else {"producer.id.expiration.ms": str(int(PRODUCERS_S * 1000))}
    cluster = Cluster(world, network, disks, configs, brokers=_BROKERS, coordinators=1, is_idle=outlasts_all)
    for name in cluster.services:
        cluster.start(name)
    world.run_for(0.5)
    cluster.metadata.watch(cluster.etcd)
    of_topic = {"min.insync.replicas": "2", "cleanup.policy": "delete"}
    work = Ledger(cluster, findings, world.chance("work"), of_topic, is_crowded=False, goes_by_dates=True)
    look_s = network.look_s
    growth, census = Growth(cluster, findings, work), Census(cluster)
    if growth.do_units() and growth.delete_all():
        world.run_for(_SETTLED_S)
        began, network.look_s = _cpu(), _LOOK_S
        measured_h = hours
        if outlasts_all:
            found.expired = len(_kept(cluster, findings))
            world.run_for(_EXPIRED_H * _HOUR_S)
            found.violations += [f"{each} has not expired" for each in _kept(cluster, findings)]
            measured_h -= _EXPIRED_H
        measurements = [census.measured(0)]
        revision, log_bytes = cluster.etcd.memory._revision, _log_bytes(cluster)
        for period in range(1, _PERIODS + 1):
            world.run_for(measured_h * _HOUR_S / _PERIODS)
            measurements.append(census.measured(period))
        network.look_s = look_s
        found.cpu_ms_per_second = round((_cpu() - began) / hours / _HOUR_S * 1000, 3)
        found.revisions = cluster.etcd.memory._revision - revision
        found.log_bytes = _log_bytes(cluster) - log_bytes
        _judge(measurements, found)
        growth.do_units()
    found.violations += [*findings.violations, *world.failures]
    return found


def _judge(measurements: list[Measurement], found: Idleness) -> None:
    verdict = judge(measurements, BOUNDS)
    found.structures, found.grown = verdict.structures, len(verdict.grown) + len(verdict.over)
    found.violations += described(replace(verdict, stale=()))
    if found.revisions:
        found.violations.append(f"etcd has {found.revisions} more revisions, although nothing has happened")
    if found.log_bytes > 0:
        found.violations.append(f"the logs have {found.log_bytes} more bytes, although nobody has written")


def _kept(cluster: Cluster, findings: Findings) -> list[str]:
    """Return what the cluster remembers of clients that may have gone."""
    producers = [
        f"producer {producer} of {replica} on {name}"
        for name in cluster.brokers
        for replica in part(cluster.apps[name], Replicas).table.all()
        for producer in replica.log.producers.entries()
    ]
    return [*producers, *Shards(cluster, findings).kept()]


def _log_bytes(cluster: Cluster) -> int:
    """Return the total size of all logs on all disks."""
    with cluster.disks.inspected():
        return sum(
            cluster.disks.size_bytes(path)
            for broker in cluster.brokers
            for topic in cluster.metadata.topics
            for number in range(cluster.metadata.partitions_of(topic))
            for path in cluster.segments(broker, topic, number)
        )
