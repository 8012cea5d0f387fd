"""This module takes etcd away from all processes, or from one of them.

etcd stops, or nobody hears it, or it is compacted while a process does not hear it. Two controllers may lead at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from tests.world.cluster import Cluster

_SHORT_S: Final = (0.05, 2.0)
_LONG_S: Final = (2.0, 12.0)
_DEPOSED_S: Final = (3.5, 9.0)
"""This is longer than a controller's lease."""
_BEHIND_S: Final = (6.5, 10.0)
"""This is longer than a watch waits for an answer."""
_BACK_S: Final = 7.0
"""Within this time after an outage, each process has its lease again, or is no longer waited for."""


class Outages:
    """These are scripts of the weather. Only one outage at a time takes etcd away from all processes."""

    def __init__(self, cluster: Cluster, chance: Callable[[], Random]) -> None:
        self.faults = 0
        self.is_away = False
        """This tells whether etcd is away from all processes, or was a moment ago."""
        self._cluster: Final = cluster
        self._chance: Final = chance

    @property
    def _random(self) -> Random:
        """This is the chance of the fault whose step is being taken."""
        return self._chance()

    def end(self) -> None:
        if self.is_away and not self._cluster.etcd.is_up:
            self._cluster.etcd.begin()

    def script(self) -> Iterator[float]:
        """Return an outage of any kind."""
        return self._random.choice((self._stop, self._silence, self._fall_behind))()

    def _stop(self) -> Iterator[float]:
        """Stop etcd, start it again, and often compact its history then."""
        if self._begins():
            etcd = self._cluster.etcd
            etcd.stop()
            yield self._length_s()
            etcd.begin()
            if self._random.random() < 0.5:
                etcd.compact()
            yield from self._ends()

    def _silence(self) -> Iterator[float]:
        """Cut etcd off from all processes for some time, in one direction or both. Long cuts let leases expire."""
        if self._begins():
            seconds = self._length_s()
            directions = self._random.choice(((True, False), (False, True), (True, True)))
            for name in self._cluster.services:
                self._cut(name, seconds, *directions)
            yield seconds
            yield from self._ends()

    def _fall_behind(self) -> Iterator[float]:
        """Have a process hear nothing from etcd until its watch has ended, and compact the events that it missed."""
        self.faults += 1
        seconds = self._random.uniform(*_BEHIND_S)
        self._cut(self._random.choice(self._cluster.services), seconds, there=False, back=True)
        yield seconds * self._random.uniform(0.8, 1.0)
        if self._cluster.etcd.is_up:
            self._cluster.etcd.compact()

    def depose(self) -> None:
        """Cut the active controller off from etcd until another is elected. It does not notice the election at once."""
        controller = self._cluster.metadata.controller
        if controller is None:
            return
        self.faults += 1
        name = f"controller-{controller.id}"
        back = self._random.random() < 0.5
        self._cut(name, self._random.uniform(*_DEPOSED_S), there=True, back=back)

    def _length_s(self) -> float:
        return self._random.uniform(*(_LONG_S if self._random.random() < 0.3 else _SHORT_S))

    def _cut(self, name: str, seconds: float, there: bool, back: bool) -> None:
        if there:
            self._cluster.network.cut(name, "etcd", seconds)
        if back:
            self._cluster.network.cut("etcd", name, seconds)

    def _begins(self) -> bool:
        """Return whether an outage may begin now, and begin it."""
        if self.is_away:
            return False
        self.is_away = True
        self.faults += 1
        return True

    def _ends(self) -> Iterator[float]:
        yield _BACK_S
        self.is_away = False
