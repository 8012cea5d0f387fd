"""The judge of growth has a calm cluster do more and more work, and checks that it keeps nothing of what has ended.

`tests.growth` counts and judges, as it does for a cluster in real time. Here all records are deleted before each
measurement, so that only what a service itself keeps can grow.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final, Protocol

from tests.growth.measurement import Measurement
from tests.growth.verdict import described, judge
from tests.world.census import BOUNDS, Census
from tests.world.client import RawClient
from tests.world.cluster import Cluster
from tests.world.findings import Findings
from tests.world.process import Process

_PHASES: Final = 3
_MOST_MORE: Final = 3
"""At most this many phases are added after an election, or while something seems to grow. What really grows will grow
again."""
UNITS: Final = 20
"""A phase has at least this many units of work."""
_LONGEST_S: Final = 60.0
PRODUCERS_S: Final = 45.0
"""The cluster's partitions remember a producer for this time (producer.id.expiration.ms)."""
_OPEN_S: Final = 12.0
"""A transaction that was left open is aborted within this time."""
_REST_S: Final = PRODUCERS_S + 5.0
"""Within this time all producers are forgotten, and deleted records leave the disks."""


class Work(Protocol):
    """A workload has these methods for the judge."""

    def start_clients(self) -> None: ...
    def units(self) -> int:
        """Return how much has ended so far."""
        ...

    async def delete_all(self, raw: RawClient) -> bool:
        """Delete all records. Return whether that was done."""
        ...


class Growth:
    """This has a healed cluster work in phases, and counts what it keeps after each of them."""

    def __init__(self, cluster: Cluster, findings: Findings, work: Work) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._work: Final = work
        self._census: Final = Census(cluster)

    def judge(self) -> None:
        """Have the cluster work and rest in turn, and report what has grown in every phase."""
        measurements: list[Measurement] = []
        life, leaders = 0, self._leaders()
        verdict = judge((), ())
        while len(measurements) < _PHASES + (_MOST_MORE if verdict.grown or life else 0):
            if not (self.do_units() and self.delete_all()):
                return
            # After an election a replica has another role, so its sizes are not compared with what they were before.
            life += leaders != (leaders := self._leaders())
            measurements.append(self._census.measured(self._work.units(), life))
            verdict = judge(measurements, BOUNDS)
        self._findings.counts["structures"] += verdict.structures
        self._findings.counts["grown"] += len(verdict.grown) + len(verdict.over)
        for line in described(replace(verdict, stale=())):
            self._findings.violate(line)

    def _leaders(self) -> list[int]:
        return [partition.leader for partition in self._cluster.metadata.partitions.values()]

    def do_units(self) -> bool:
        """Have clients work until one more phase is done. Return whether it was."""
        world, until = self._cluster.world, self._work.units() + UNITS
        self._work.start_clients()
        is_done = world.run_until(lambda: self._work.units() >= until, limit_s=_LONGEST_S)
        self._cluster.kill("client")
        if not is_done:
            done = self._work.units() - until + UNITS
            self._findings.violate(f"the healed cluster has done {done} units of work in {_LONGEST_S:.0f} s")
        return is_done

    def delete_all(self) -> bool:
        """Rest until every transaction is over, delete all records, and rest until they are gone from the disks."""
        world = self._cluster.world
        world.run_for(_OPEN_S)
        deleted: list[bool] = []

        async def delete(_: Process) -> None:
            raw = RawClient()
            while not await self._work.delete_all(raw):
                await asyncio.sleep(0.2)
            deleted.append(True)

        Process(world, self._cluster.network, "sweeper", delete)
        is_done = world.run_until(lambda: bool(deleted), limit_s=_LONGEST_S)
        if not is_done:
            self._findings.violate(f"the healed cluster has not deleted all records in {_LONGEST_S:.0f} s")
        world.run_for(_REST_S)
        return is_done
