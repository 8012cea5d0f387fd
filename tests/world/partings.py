"""This module has scripts in which the logs of three brokers part, and answers of leaders come late or never.

An answer that is held up arrives when its follower has another leader, or leads itself. A follower that has something
new to say gives up an answer that does not come, and asks again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Final

from tests.world.cluster import Cluster
from tests.world.table import Table

_HEALED_S: Final = 15.0
_HELD_UP_S: Final = (1.5, 4.0)
_OTHER_PARTITIONS: Final = 3


class Partings:
    """These are scripts of the weather, for three brokers and a table."""

    def __init__(
        self, cluster: Cluster, chance: Callable[[], Random], table: Table, kill: Callable[[str], None]
    ) -> None:
        self._cluster: Final = cluster
        self._chance: Final = chance
        self._table: Final = table
        self._kill: Final = kill
        self._topics = 0

    @property
    def _random(self) -> Random:
        """This is the chance of the fault whose step is being taken."""
        return self._chance()

    @property
    def scripts(self) -> list[Callable[[], Iterator[float]]]:
        return [self._take_turns] if self._table.may_be_unclean else [self._answer_late, self._lose_refusals]

    def _take_turns(self) -> Iterator[float]:
        """Have two brokers lead alone in turn, so that each writes what the other lacks, and start all in the end."""
        uniform = self._random.uniform
        yield from self._whole()
        turns = self._random.sample(self._cluster.brokers, self._random.choice((2, 3)))
        for turn in range(self._random.randint(2, 6)):
            name = turns[turn % len(turns)]
            for other in self._cluster.brokers:
                if other != name and self._cluster.is_up(other):
                    self._kill(other)
            self._cluster.start(name)
            yield from self._until(lambda: self._leads(name))  # noqa: B023 it is waited for here
            yield uniform(0.1, 1.5)
        for name in self._random.sample(self._cluster.brokers, 3):
            self._cluster.start(name)
            yield uniform(0.0, 1.0)
        self._table.findings.counts["turns"] += 1
        # A later election might cure a follower that can't follow this leader.
        yield from self._until(self._cluster.metadata.is_whole, 3 * _HEALED_S)

    def _answer_late(self) -> Iterator[float]:
        """Have a broker lead that does not know how far its predecessor has committed. Another one comes back behind
        that, and hears no answer of the new leader until that has ended, too.

        It lacks committed records, so it must not be in the ISR by then.
        """
        uniform, cut = self._random.uniform, self._cluster.network.cut
        yield from self._whole()
        one = f"broker-{self._table.leader}"
        two, third = self._random.sample([name for name in self._cluster.brokers if name != one], 2)
        self._kill(third)
        yield uniform(0.0, 0.1)
        cut(one, two, uniform(0.3, 3.0))
        yield uniform(0.1, 0.6)
        self._kill(one)
        yield from self._until(lambda: self._leads(two))
        cut(two, third, uniform(*_HELD_UP_S))
        self._cluster.start(third)
        yield uniform(0.2, 1.5)
        self._kill(two)
        self._table.findings.counts["late answers"] += 1
        yield uniform(0.0, 1.0)
        for name in self._random.sample((one, two), 2):
            self._cluster.start(name)
            yield uniform(0.0, 2.0)

    def _lose_refusals(self) -> Iterator[float]:
        """Have a follower come back with an old copy of its disk, on which its log parts from its leader's, in a leader
        epoch in which it was in sync. It gives up the first answers, because it has new partitions to follow.
        """
        uniform, cut = self._random.uniform, self._cluster.network.cut
        yield from self._whole()
        one = f"broker-{self._table.leader}"
        others = [name for name in self._cluster.brokers if name != one]
        for name in others:
            cut(one, name, 1.0)
        yield uniform(0.1, 0.6)
        # Nobody else has the end of this log.
        self._cluster.disks.volumes[one].back_up()
        yield uniform(0.0, 0.2)
        self._kill(one)
        yield from self._until(lambda: not self._leads(one) and self._table.leader >= 0)
        yield from self._whole()
        yield uniform(0.2, 1.0)
        leader = f"broker-{self._table.leader}"
        if leader == one:
            return
        self._kill(one)
        self._cluster.replace_disk(one, by_backup=True)
        seconds = uniform(*_HELD_UP_S)
        cut(leader, one, seconds)
        self._cluster.start(one)
        for _ in range(3):
            yield uniform(0.0, seconds / 3)
            self._topics += 1
            self._table.create_another(f"other-{self._topics}", _OTHER_PARTITIONS)
        self._table.findings.counts["lost refusals"] += 1
        yield seconds
        yield from self._whole()

    def _whole(self) -> Iterator[float]:
        """Start all, and wait until all are in sync."""
        for name in self._cluster.services:
            self._cluster.start(name)
        yield from self._until(self._cluster.metadata.is_whole, _HEALED_S)
        yield self._random.uniform(0.2, 1.5)

    def _leads(self, name: str) -> bool:
        return f"broker-{self._table.leader}" == name

    def _until(self, is_so: Callable[[], bool], limit_s: float = _HEALED_S) -> Iterator[float]:
        ends_at = self._cluster.world.now + limit_s
        while not is_so() and self._cluster.world.now < ends_at:
            yield 0.05
