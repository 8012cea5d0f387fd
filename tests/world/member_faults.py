"""Faults of the weather that hit members of groups and their coordinators."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from random import Random
from typing import Final

from tests.world.cluster import Cluster
from tests.world.group_member import SESSION_S
from tests.world.migrations import GROUPS, Migrations

_DOWN_S: Final = (0.0, 1.0, 4.0)
_PAUSED_S: Final = (1.0, 3.0, SESSION_S + 1.0, 2 * SESSION_S)
_CUT_S: Final = (0.3, 2.5)
_ENDED_SHARE: Final = 0.7
_PATIENCE_S: Final = 2 * SESSION_S
"""A group has changed its protocol, and has settled, within this time, unless the cluster is ill."""


class MemberFaults:
    """`often` are the faults that each seed has. It chooses some of the `others`."""

    def __init__(
        self,
        cluster: Cluster,
        chance: Callable[[], Random],
        migrations: Migrations,
        kill_for_some_time: Callable[[str], None],
        hold: Callable[[], Generator[float, None, bool]],
        release: Callable[[], None],
    ) -> None:
        self._cluster: Final = cluster
        self._chance: Final = chance
        self._migrations: Final = migrations
        self._kill_for_some_time: Final = kill_for_some_time
        self._hold: Final = hold
        self._release: Final = release
        self.faults = 0

    @property
    def often(self) -> list[Callable[[], Iterator[float] | None]]:
        return [
            *[self._migrate] * 2,
            *[self._migrate_group] * 4,
            *[self._end_coordinator] * 2,
            *[self._forget_downgrade] * 2,
        ]

    @property
    def others(self) -> list[Callable[[], None]]:
        return [*[self._kill_member] * 2, *[self._suspend_member] * 2, self._hold_back_answers, self._delay_requests]

    def _migrate(self) -> None:
        """Have one member change its protocol."""
        self.faults += 1
        self._migrations.migrate(self._chance().choice(self._migrations.seats))

    def _migrate_group(self) -> Iterator[float]:
        """Have all members of a group change to one protocol, one after the other.

        Often a coordinator ends as soon as the group has changed, too.
        """
        random, group, migrations = self._chance(), self._chance().choice(GROUPS), self._migrations
        seats = migrations.seats_of(group)
        to_classic = sum(seat.is_classic for seat in seats) < len(seats) / 2
        before = migrations.happenings.migrations[group]
        for seat in random.sample(seats, len(seats)):
            if seat.is_classic != to_classic:
                self.faults += 1
                migrations.migrate(seat)
                yield random.choice((0.0, random.uniform(0.0, 3.0)))
        if random.random() < _ENDED_SHARE:
            yield from self._until(lambda: migrations.happenings.migrations[group] > before)
            yield random.choice((0.0, random.uniform(0.0, 1.0)))
            self._end_coordinator()

    def _forget_downgrade(self) -> Iterator[float]:
        """Kill the last member of the consumer protocol, and the coordinators as soon as its group is downgraded.

        Nobody joins then but those who hear from the next coordinator that they have to. Until the group has settled,
        no other fault begins.
        """
        random, group, migrations = self._chance(), self._chance().choice(GROUPS), self._migrations
        if not (yield from self._hold()):
            return
        last, *others = random.sample(migrations.seats_of(group), len(migrations.seats_of(group)))
        for seat in (last, *others):
            if seat.is_classic == (seat is last):
                migrations.migrate(seat)
        yield 1.0
        yield from self._until(lambda: not migrations.unsettled(group))
        before = migrations.happenings.migrations[group]
        self.faults += 1
        migrations.vacate(last)
        yield from self._until(lambda: migrations.happenings.migrations[group] > before)
        for name in self._coordinators:
            self._kill_for_some_time(name)
        yield 2.0
        yield from self._until(lambda: not migrations.unsettled(group))
        self._release()

    def _until(self, is_so: Callable[[], bool]) -> Iterator[float]:
        ends_at = self._cluster.world.now + _PATIENCE_S
        while not is_so() and self._cluster.world.now < ends_at:
            yield 0.05

    @property
    def _coordinators(self) -> list[str]:
        return [name for name in self._cluster.coordinators if name.startswith("group")]

    def _end_coordinator(self) -> None:
        """Kill the coordinators of groups, or one of them."""
        names = self._coordinators
        for name in self._chance().choice((names, names[:1], names[-1:])):
            self._kill_for_some_time(name)

    def _kill_member(self) -> None:
        self.faults += 1
        random = self._chance()
        self._migrations.kill(random.choice(self._migrations.seats), random.choice(_DOWN_S))

    def _suspend_member(self) -> None:
        """Suspend a member, perhaps for longer than its session."""
        self.faults += 1
        random = self._chance()
        self._migrations.pause(random.choice(self._migrations.seats), random.choice(_PAUSED_S))

    def _hold_back_answers(self) -> None:
        """Have a member not hear what brokers answer. It gives up, and the answers are lost."""
        self._cut(is_heard=True)

    def _delay_requests(self) -> None:
        """Have brokers hear a member's requests late, and mostly after it has given them up."""
        self._cut(is_heard=False)

    def _cut(self, *, is_heard: bool) -> None:
        self.faults += 1
        random = self._chance()
        host, seconds = random.choice(self._migrations.seats).host, random.uniform(*_CUT_S)
        brokers = random.choice((self._cluster.brokers, [random.choice(self._cluster.brokers)]))
        for broker in brokers:
            pair = (broker, host) if is_heard else (host, broker)
            self._cluster.network.cut(*pair, seconds)
