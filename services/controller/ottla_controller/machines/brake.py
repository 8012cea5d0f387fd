"""The mass-expiry brake gives brokers that lost their leases, but may be alive, a grace period (rule C6).

etcd may end every lease at once when its disk or CPU stalls (etcd issue 15247). So if a registration goes without a
known reason (a proven death, a controlled shutdown), the broker is held within grace for WINDOW_S. If only few have
gone, they then count as dead. If more than a third of the brokers went within the window, each of them is probed. A
broker that responds is within grace for a lease's time, in which it registers again, and one that does not is dead. So
if one of three falls silent, the controller acts after a second. If it is the only broker of a cluster, or one of two,
the controller acts as soon as the broker has not responded.

If as many are missing from the first image of a process, they are within grace, too, because the cluster is starting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from ottla_core.cluster.image import Broker

WINDOW_S: Final = 1.0

Brokers = Mapping[int, Broker]


@dataclass(slots=True)
class _Away:
    """A broker within its grace period until `until`. `last` is its last registration, if there was one."""

    last: Broker | None
    since: float
    until: float

    def is_over(self, now: float, registered: Broker | None) -> bool:
        """Return whether the broker has come back, or something else has: another process, or one that may have lost
        records."""
        if registered is None:
            return now >= self.until
        restarted = self.last is not None and registered.incarnation != self.last.incarnation
        return now >= self.until or not registered.fenced or registered.unclean or restarted


class Brake:
    """`grace_s` is the time that a broker needs to register again: about a lease's time to live."""

    def __init__(self, grace_s: float) -> None:
        self._grace_s: Final = grace_s
        self._away: dict[int, _Away] = {}
        self._explained: set[tuple[int, int]] = set()

    def on_start(self, now: float, needed: Set[int], registered: Set[int]) -> None:
        """Take in the first image. The `needed` brokers are in sync for some partition, registered or not."""
        missing = needed - registered
        if _is_mass_failure(missing, needed | registered):
            self._away = {broker_id: _Away(None, now, now + self._grace_s) for broker_id in missing}

    def on_proven_dead(self, broker: Broker) -> None:
        """Note that a registration is about to go, and that the reason is known."""
        self._explained.add((broker.id, broker.epoch))

    def on_brokers(self, now: float, before: Brokers, after: Brokers) -> None:
        self._away = {n: away for n, away in self._away.items() if not away.is_over(now, after.get(n))}
        for broker in before.values():
            explained = broker.shutting_down or (broker.id, broker.epoch) in self._explained
            if broker.id not in after and not explained:
                self._away[broker.id] = _Away(broker, now, now + WINDOW_S)
        self._explained = {(n, epoch) for n, epoch in self._explained if n in after and after[n].epoch == epoch}
        recent = {n for n, away in self._away.items() if away.last is not None and now - away.since < WINDOW_S}
        if _is_mass_failure(recent, after.keys() | recent):
            for n in recent:
                self._away[n].until = math.inf  # until the broker was probed

    def to_probe(self) -> list[Broker]:
        """Return the last registrations of the brokers about which it must be known whether they are alive."""
        return [away.last for away in self._away.values() if away.last is not None and away.until == math.inf]

    def on_probed(self, now: float, broker: Broker, *, alive: bool) -> None:
        away = self._away.get(broker.id)
        if away is not None and away.last is not None and away.last.epoch == broker.epoch:
            away.until = now + self._grace_s if alive else now

    def within_grace(self, now: float) -> frozenset[int]:
        return frozenset(n for n, away in self._away.items() if now < away.until)


def _is_mass_failure(gone: Set[int], all_of_them: Set[int]) -> bool:
    return len(gone) * 3 > len(all_of_them)
