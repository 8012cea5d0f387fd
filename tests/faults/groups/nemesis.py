"""What is done to coordinators, and to the brokers that lead their shards."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.faults.cluster import until
from tests.faults.groups.client import SHARDS
from tests.faults.groups.cluster import OFFSETS_TOPIC, GroupCluster
from tests.faults.nemesis import Nemesis
from tests.faults.node import Node

import ottla

_GIVEN_LIMIT_S: Final = 30.0
_OLD: Final = "old-records"
_OLD_RETENTION_S: Final = 7200.0
_OLD_BATCHES: Final = 20
_SEGMENT_BYTES: Final = 1 << 16


class GroupNemesis(Nemesis):
    """A hit's partitions are the shards that its victims own or lead. `members` are processes that may be killed."""

    def __init__(
        self, cluster: GroupCluster, clients: Sequence[str], members: Sequence[Node], seed: str, log: Path
    ) -> None:
        super().__init__(cluster, OFFSETS_TOPIC, SHARDS, clients, seed, log)
        self.groups: Final = cluster
        self.members: Final = members

    def led_by(self, names: Sequence[str]) -> tuple[int, ...]:
        led = set(super().led_by(names))
        owners = self.groups.owners()
        self._leaders.update(owners.values())
        return tuple(sorted(led.union(shard for shard, owner in owners.items() if owner in names)))

    def until_whole(self) -> None:
        super().until_whole()
        until(self._all_given, "every shard to have an owner that runs", _GIVEN_LIMIT_S)

    def _all_given(self) -> bool:
        try:
            owners = set(self.groups.owners().values())
        except ottla.OttlaError:
            return False
        return owners == set(self.groups.coordinators)

    # ---- choices ----------------------------------------------------------------------------------------------------

    def any_owner(self) -> str:
        return self.random.choice(self.groups.coordinators)

    def other_owner(self, name: str) -> str:
        return next(each for each in self.groups.coordinators if each != name)

    # ---- harm -------------------------------------------------------------------------------------------------------

    def kill_members(self) -> None:
        """SIGKILL a process with all its members, and start it again a moment later."""
        victim = self.random.choice(self.members)
        self.note(f"SIGKILL {victim.name}")
        victim.kill()
        time.sleep(self.random.uniform(0.0, 2.0))
        victim.start()

    # ---- records that are an hour younger than their retention ------------------------------------------------------

    def write_old_records(self) -> None:
        """A topic of many small segments, which are to be deleted long after the clock's greatest error."""
        config = {"retention.ms": int(_OLD_RETENTION_S * 1000), "segment.bytes": _SEGMENT_BYTES}
        self.groups.admin().topics.create(_OLD, partitions=1, replicas=3, config=config, timeout=10.0)
        with ottla.Producer(self.groups.bootstrap) as producer:
            for _ in range(_OLD_BATCHES):
                producer.send(bytes(_SEGMENT_BYTES // 2), topic=_OLD).result()

    def check_old_records(self) -> None:
        first = self.groups.admin().topics.offsets(_OLD, "earliest")[0]
        if first != 0:
            self.failures.append(f"records of {_OLD} up to offset {first} were deleted early")

    def move_clocks(self, *names: str, seconds: float) -> None:
        self.note(f"clocks of {' '.join(names)} are off by {seconds:+g} s")
        for name in names:
            self.groups.move_clock(name, seconds)
