"""Kills at both ends and in between, and cuts of the way between them, by chance but repeatably."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tests.faults.cluster import until
from tests.faults.mirrored.sites import EAST, MIRRORS, REDIS, WEST, Site, Sites
from tests.faults.nemesis import Nemesis

_DEAD_S: Final = (0.0, 2.0)
_CUT_S: Final = (0.2, 8.0)
"""Short ones are delays: what was sent comes with the next try."""

_BOTH_WAYS: Final = 0.7
_CALM_S: Final = (0.5, 2.0)
_COPY_LIMIT_S: Final = 40.0


class MirroredNemesis(Nemesis):
    cluster: Sites

    def prepare(self, copies: Sequence[str], between: Callable[[], None]) -> None:
        """`between` is done after each hit."""
        self.kills: Counter[str] = Counter()
        self.link_cuts = 0
        self._copies, self._between = copies, between

    def until_whole(self) -> None:
        self.cluster.until_all_whole(self.topic, self._copies)

    def kill_some(self) -> None:
        """Three at once, of different kinds; they come back after moments."""
        kinds = self.random.sample(list(self._victims()), 3)
        victims = [(kind, *self._victims()[kind]()) for kind in kinds]
        self.note(f"SIGKILL {[f'{kind}: {name}' for kind, _, name in victims]}")
        for kind, site, name in victims:
            nodes = self.cluster.beside if site is None else site.nodes
            nodes[name].send(signal.SIGKILL)
            nodes[name].kill()
            self.kills[kind] += 1
        time.sleep(self.random.uniform(*_DEAD_S))
        for _, site, name in victims:
            (self.cluster.beside if site is None else site.nodes)[name].start()
        self._calm()

    def kill_mirrors(self) -> None:
        """All of them, while they copy; it returns when their successors copy."""
        self.note(f"SIGKILL {' '.join(MIRRORS)}")
        for name in MIRRORS:
            self.cluster.mirrors[name].kill()
            self.kills["mirror"] += 1
        for name in MIRRORS:
            self.cluster.mirrors[name].start()
        began = until(self.cluster.positions, "mirrors to have partitions", _COPY_LIMIT_S)
        until(lambda: self._all_beyond(began), "all to be copied on", _COPY_LIMIT_S)
        time.sleep(self.random.uniform(*_CALM_S))

    def _all_beyond(self, began: Mapping[tuple[str, str, int], int]) -> bool:
        now = self.cluster.positions()
        return len(now) >= len(self._copies) and all(position > began.get(at, -1) for at, position in now.items())

    def cut_link(self) -> None:
        """Between the mirrors and one of the sites, in both directions or in one."""
        prefix, site = self.random.choice(((EAST, self.cluster.east), (WEST, self.cluster)))
        far = [prefix + name for name in (*site.brokers, *site.coordinators, *site.txn_coordinators)]
        both, outward = self.random.random() < _BOTH_WAYS, self.random.random() < 0.5
        seconds = self.random.uniform(*_CUT_S)
        self.note(f"cut the link to {prefix} for {seconds:.1f} s, {'both ways' if both else 'one way'}")
        for mirror in MIRRORS:
            for name in far:
                if both or outward:
                    self.cluster.whole.cut(from_=mirror, to=name)
                if both or not outward:
                    self.cluster.whole.cut(from_=name, to=mirror)
        time.sleep(seconds)
        self.cluster.whole.heal()
        self.link_cuts += 1
        self._calm()

    def _calm(self) -> None:
        self.until_whole()
        self._between()
        time.sleep(self.random.uniform(*_CALM_S))

    def _victims(self) -> dict[str, Callable[[], tuple[Site | None, str]]]:
        """By kind: a service, and whose it is."""
        west, east = self.cluster, self.cluster.east
        return {
            "mirror": lambda: (None, self.random.choice(MIRRORS)),
            REDIS: lambda: (None, REDIS),
            "source leader": lambda: (east, east.leader(self.topic, 0) or east.brokers[0]),
            "target leader": lambda: (west, west.leader(self.random.choice(self._copies), 0) or west.brokers[0]),
            "source coordinator": lambda: (east, self.random.choice((*east.coordinators, *east.txn_coordinators))),
            "target coordinator": lambda: (west, self.random.choice((*west.coordinators, *west.txn_coordinators))),
        }
