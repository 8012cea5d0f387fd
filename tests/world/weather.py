"""What happens to a cluster: kills, power cuts, network cuts, deletions, all from one source of chance."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tests.world.cluster import Cluster

_DOWN_S: Final = (0.2, 6.0)
_CUT_S: Final = (0.05, 4.0)
_EMPTY_S: Final = (0.5, 4.0)
_OVERTAKING_SHARE: Final = 0.4
_OVERTAKING_S: Final = 12.0


class Weather:
    """One fault at a time, on average every `every_s` seconds, as long as it `blows`."""

    def __init__(self, cluster: Cluster, random: Random, every_s: float, delete_records: Callable[[], None]) -> None:
        self.faults = 0
        self.kills = 0
        self._cluster: Final = cluster
        self._random: Final = random
        self._every_s = every_s
        self._delete_records: Final = delete_records
        self._blows = True
        self._kinds: Final = self._chosen()

    def _chosen(self) -> list[Callable[[], None]]:
        """Return the faults of this seed: few kinds, some of them often, find more than all kinds alike."""
        if self._random.random() < _OVERTAKING_SHARE:
            self._every_s = _OVERTAKING_S
            return [self._overtake]
        kinds = [
            self._kill,
            self._kill,
            self._cut_power,
            self._kill_for_long,
            self._take_turns,
            self._take_turns,
            self._cut_network,
            self._delete,
            self._empty,
            self._empty,
        ]
        return [kind for kind in kinds if self._random.random() < 0.6] or [self._kill]

    def begin(self) -> None:
        self._cluster.world.after(self._random.expovariate(1 / self._every_s), self._strike)

    def end(self) -> None:
        self._blows = False

    def _strike(self) -> None:
        if self._blows:
            self.faults += 1
            self._random.choice(self._kinds)()
            self.begin()

    def _victim(self) -> str | None:
        up = [name for name in self._cluster.brokers if self._cluster.is_up(name)]
        return self._random.choice(up) if up else None

    def _kill(self, *, power_cut: bool = False, longer: float = 1.0) -> None:
        name = self._victim()
        if name is None:
            return
        self.kills += 1
        self._cluster.kill(name, power_cut=power_cut)
        self._cluster.world.after(self._random.uniform(*_DOWN_S) * longer, lambda: self._start(name))

    def _stop(self, name: str) -> None:
        if self._cluster.is_up(name):
            self.kills += 1
            self._cluster.kill(name)

    def _start(self, name: str) -> None:
        if not self._cluster.is_up(name):
            self._cluster.start(name)

    def _cut_power(self) -> None:
        self._kill(power_cut=True)

    def _kill_for_long(self) -> None:
        self._kill(longer=3.0)

    def _take_turns(self) -> None:
        """Kill who is up, and start who is down: each may lead alone for a while."""
        up = [name for name in self._cluster.brokers if self._cluster.is_up(name)]
        down = [name for name in self._cluster.brokers if not self._cluster.is_up(name)]
        for name in up if down else up[:1]:
            self._stop(name)
        for name in down:
            self._start(name)

    def _cut_network(self) -> None:
        one, other = self._random.sample(self._cluster.brokers, 2)
        self._cluster.network.cut(one, other, self._random.uniform(*_CUT_S))

    def _delete(self) -> None:
        self._delete_records()

    def _empty(self) -> None:
        """Kill a broker some time after all records were deleted, perhaps before others came."""
        self._delete_records()
        self._cluster.world.after(self._random.uniform(*_EMPTY_S), self._kill)

    def _overtake(self) -> None:
        """Let one broker lead alone until all of its records are deleted, and then the other one, which has fewer.

        That takes an unclean election. The first one comes back when the other may have passed the end of its log.
        """
        one, other = self._random.sample(self._cluster.brokers, 2)
        uniform, after = self._random.uniform, self._cluster.world.after
        self._start(one)
        self._stop(other)
        deleted_s = uniform(0.5, 2.0)
        turned_s = deleted_s + uniform(2.5, 4.5)
        after(deleted_s, self._delete_records)
        after(turned_s, lambda: self._stop(one))
        after(turned_s, lambda: self._start(other))
        after(turned_s + uniform(3.0, 9.0), lambda: self._start(one))
