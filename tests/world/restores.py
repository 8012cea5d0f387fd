"""This module restores etcd from a backup, as an operator does (docs/operate/cluster.md)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Any, Final

from tests.world.cluster import Cluster
from tests.world.etcd import Backup
from tests.world.process import Process
from tests.world.table import Table

from ottla_core.errors import OttlaError
from ottla_core.rpc.aio import AioPeer
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller

_CONTROLLER_PORT: Final = 9640
_BUMP: Final = 1_000_000
_CUT_S: Final = 6.0
_MOVED_S: Final = 15.0
_STOPPED_S: Final = 15.0
_ASKED_S: Final = 30.0
_NOTICED_S: Final = 8.0
_HEALED_S: Final = 60.0


class Restores:
    """This is a script of the weather, for three brokers.

    Producers write nothing between the restore and the election that the logs decide. So nothing that was acknowledged
    may be lost.
    """

    def __init__(self, cluster: Cluster, chance: Callable[[], Random], table: Table) -> None:
        self.faults = 0
        self.is_under_way = False
        """This tells whether a restore has begun, and the cluster has not settled on what etcd has now."""
        self._cluster: Final = cluster
        self._chance: Final = chance
        self._table: Final = table
        self._backups: Final[deque[Backup]] = deque(maxlen=3)

    @property
    def _random(self) -> Random:
        """This is the chance of the fault whose step is being taken."""
        return self._chance()

    def script(self) -> Iterator[float]:
        """Take a backup, have leaders and ISRs change, and restore it."""
        cluster, uniform = self._cluster, self._random.uniform
        for name in cluster.services:
            self._cluster.start(name)
        yield from self._until(cluster.metadata.is_whole, _HEALED_S)
        if not cluster.metadata.is_whole():
            return
        yield uniform(0.2, 2.0)
        cluster.world.note("etcd is backed up")
        self._backups.append(cluster.etcd.memory.back_up())
        # Only what brokers have followed shows that such a restore took place: no log has a later epoch.
        is_young = self._random.random() < 0.3
        behind = yield from self._go_on(0 if is_young else self._random.choice((0, 0, 1, 2, 3)))
        yield uniform(0.3, 3.0)
        self.is_under_way = True
        self.faults += 1
        is_declared = not is_young and self._random.random() < 0.5
        self._table.rest(_HEALED_S * 2)
        runs_on = not is_young and self._random.random() < 0.25
        if not runs_on:
            yield from self._end_all()
        cluster.etcd.stop()
        yield uniform(0.1, 1.0)
        # An operator who does not declare the restore relies on the revision going back.
        bump = self._random.choice((0, _BUMP)) if is_declared else 0
        # A backup that is not the newest does not know of the restores since it was taken.
        is_newest = self._random.random() < 0.5
        backup = self._backups[-1 if is_newest else 0]
        cluster.etcd.restore(backup, bump=bump, leases_live_on=self._random.random() < 0.5)
        cluster.metadata.read_again(cluster.etcd)
        before = cluster.metadata.restorations
        cluster.etcd.begin()
        if runs_on:
            yield uniform(0.2, 5.0)
            yield from self._end_all()
        yield from self._start_all(behind)
        declared = 0
        if is_declared:
            yield uniform(0.0, 2.0)
            declared = yield from self._ask(Controller.DECLARE_RESTORED, pb.DeclareRestoredRequest())
        yield from self._until(lambda: cluster.metadata.restorations > before, _NOTICED_S)
        yield from self._until(cluster.metadata.is_whole, _HEALED_S)
        self._table.findings.counts["restores"] += 1
        counted = cluster.metadata.restorations - before
        if is_newest and counted > 1 + declared:
            self._table.findings.violate(f"one restore was counted {counted} times")
        self._table.findings.counts["restorations"] += counted
        self._table.rest(0.0)
        self.is_under_way = False

    def _go_on(self, moves: int) -> Generator[float, None, str]:
        """Let the cluster change after the backup, and leaders move this often. Return the broker that falls behind, or
        any broker if none does."""
        behind = self._random.choice(self._cluster.brokers)
        how = self._random.choice(("it is down at once", "killed", "stopped", "cut off", "in sync"))
        if how == "it is down at once":
            self._end(behind, kill=True)
            yield from self._until_out(behind)
        for _ in range(moves):
            yield from self._move_leader()
            yield self._random.uniform(0.0, 1.0)
        if how in ("killed", "stopped"):
            self._end(behind, kill=how == "killed")
            yield from self._until_out(behind)
        elif how == "cut off":
            for name in self._cluster.brokers:
                self._cluster.network.cut(behind, name, _CUT_S)
            yield from self._until_out(behind)
        return behind

    def _move_leader(self) -> Iterator[float]:
        """Have another broker lead, wait until the former leader is back in the ISR, and often have it lead again."""
        old = f"broker-{self._table.leader}"
        self._end(old, kill=self._random.random() < 0.5)
        yield from self._until(lambda: self._leads_no_more(old), _MOVED_S)
        yield from self._until(lambda: not self._cluster.is_up(old), _STOPPED_S)
        self._cluster.start(old)
        yield from self._until(lambda: self._cluster.metadata.has_in_sync(old, everywhere=True), _MOVED_S)
        if self._random.random() < 0.5:
            yield from self._ask(Controller.ELECT_LEADERS, pb.ElectLeadersRequest(all_partitions=True))

    def _leads_no_more(self, name: str) -> bool:
        return f"broker-{self._table.leader}" != name

    def _until_out(self, name: str) -> Iterator[float]:
        return self._until(lambda: not self._cluster.metadata.has_in_sync(name, everywhere=False), _MOVED_S)

    def _end_all(self) -> Iterator[float]:
        """Stop all services, or kill them, in any order."""
        share = self._random.choice((0.5, 0.9, 1.0))
        for name in self._random.sample(self._cluster.services, len(self._cluster.services)):
            if self._cluster.is_up(name):
                self._end(name, kill=self._random.random() < share)
                yield self._random.choice((0.0, self._random.uniform(0.0, 1.0)))
        yield from self._until(self._are_down, _STOPPED_S)
        for name in filter(self._cluster.is_up, self._cluster.services):
            self._end(name, kill=True)

    def _are_down(self) -> bool:
        return not any(map(self._cluster.is_up, self._cluster.services))

    def _start_all(self, behind: str) -> Iterator[float]:
        """Start all services.

        The broker that is behind is mostly the first of the brokers. The first one may be killed once more, before it
        has reported what it has found.
        """
        others = [name for name in self._cluster.brokers if name != behind]
        self._random.shuffle(others)
        brokers = [behind, *others] if self._random.random() < 0.8 else [*others, behind]
        controllers = self._cluster.controllers
        late = self._random.random() < 0.3
        order = [*brokers, *controllers] if late else [*controllers, *brokers]
        longest_s = self._random.choice((0.0, 3.0, 3.0))
        for name in order:
            self._cluster.start(name)
            if name == brokers[0] and self._random.random() < 0.3:
                yield self._random.uniform(0.0, 2.0)
                self._end(name, kill=True)
                yield self._random.uniform(0.0, 1.0)
                self._cluster.start(name)
            yield self._random.uniform(0.0, longest_s)

    def _ask(self, method: Any, request: Any) -> Generator[float, None, int]:
        """Ask the controllers until the active one has carried out the request. Return how often they were asked."""
        asked: list[str] = []
        is_over = False

        async def ask(_: Process) -> None:
            nonlocal is_over
            while not is_over:
                for name in self._cluster.controllers:
                    peer = AioPeer(f"{name}:{_CONTROLLER_PORT}", client_id="operator")
                    asked.append(name)
                    try:
                        await peer.call(method, request, timeout=5.0)
                    except OttlaError:
                        await asyncio.sleep(0.2)
                    else:
                        is_over = True
                        return
                    finally:
                        await peer.close()

        Process(self._cluster.world, self._cluster.network, "operator", ask)
        yield from self._until(lambda: is_over, _ASKED_S)
        is_over = True
        return len(asked)

    def _end(self, name: str, *, kill: bool) -> None:
        if not self._cluster.is_up(name):
            return
        self.faults += 1
        if kill:
            self._cluster.kill(name)
        else:
            self._cluster.stop(name)

    def _until(self, is_so: Callable[[], bool], limit_s: float) -> Iterator[float]:
        ends_at = self._cluster.world.now + limit_s
        while not is_so() and self._cluster.world.now < ends_at:
            yield 0.02
