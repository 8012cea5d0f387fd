"""The controller knows which processes are alive by health streams to every registered broker and coordinator, and by
the brake on mass expiry of brokers.

The brake listens from the start of the process, in a term or not. So a controller that is elected in the middle of a
stall knows which brokers were there before it. Only the active controller holds streams and probes brokers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla_controller.health import RETRY_S, HealthWatch, responds
from ottla_controller.journal import Journal
from ottla_controller.machines.brake import Brake
from ottla_controller.machines.brokers import decide_remove_dead
from ottla_controller.machines.decision import Decision
from ottla_controller.machines.shards import decide_remove_dead_coordinator
from ottla_core.clock import Clock
from ottla_core.cluster import keys
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, ClusterImage, Coordinator
from ottla_core.errors import OttlaError
from ottla_core.rpc.internal_tls import InternalTls

GRACE_S: Final = 6.0  # in about this time a broker that has lost its lease registers again
PROBE_LIMIT_S: Final = 1.0

_log = logging.getLogger(__name__)

_Process = Broker | Coordinator
_Registration = tuple[keys.Key, int]
"""A registration's key, and its epoch."""


class Presence:
    """A duty of the active controller."""

    def __init__(self, follower: MetadataFollower, clock: Clock, tls: InternalTls | None = None) -> None:
        self._follower = follower
        self._tls = tls
        self._clock = clock
        self._brake = Brake(GRACE_S)
        self._changed = asyncio.Event()
        self._watches: dict[_Registration, tuple[HealthWatch, asyncio.Task[None]]] = {}
        self._probes: dict[_Registration, asyncio.Task[None]] = {}
        follower.on_change(self._on_image)

    @property
    def held(self) -> int:
        """This is the number of open health streams."""
        return sum(watch.held for watch, _ in self._watches.values())

    def within_grace(self) -> frozenset[int]:
        """Return the brokers that are away or fenced, and count as there for the moment."""
        return self._brake.within_grace(self._clock.monotonic())

    async def run(self, journal: Journal) -> None:
        """Watch the processes until the task is cancelled, at the end of the term."""
        try:
            while True:
                try:
                    await self._look(journal)
                except Exception:
                    _log.exception("watching the brokers failed, retrying")
                    await asyncio.sleep(RETRY_S)
        finally:
            tasks = [*(task for _, task in self._watches.values()), *self._probes.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._watches.clear()
            self._probes.clear()

    async def _look(self, journal: Journal) -> None:
        self._changed.clear()
        self._watch_all()
        self._probe_all()
        await asyncio.gather(*(self._remove(journal, process) for process in self._dead()))
        await self._until_changes()

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        now = self._clock.monotonic()
        if old.revision == 0:
            needed = {b for p in new.partitions.values() for b in (*p.isr, *p.elr)}
            self._brake.on_start(now, needed, new.brokers.keys())
        if new.brokers is not old.brokers:
            self._brake.on_brokers(now, old.brokers, new.brokers)
        if new.brokers is not old.brokers or new.coordinators is not old.coordinators:
            self._changed.set()

    def _watch_all(self) -> None:
        """Have one stream for every registration, and none for others."""
        registrations = {_registration(process): process for process in self._registered()}
        for registration in [each for each in self._watches if each not in registrations]:
            self._watches.pop(registration)[1].cancel()
        for registration in [each for each in registrations if each not in self._watches]:
            watch = HealthWatch(registrations[registration].address, self._tls)
            self._watches[registration] = (
                watch,
                asyncio.create_task(watch.until_dead(), name=f"watch-{_name(registrations[registration])}"),
            )

    def _registered(self) -> list[_Process]:
        image = self._follower.image
        return [*image.brokers.values(), *image.coordinators.values()]

    def _dead(self) -> list[_Process]:
        """Return the registered processes whose death was proven since the last look. Their watches are over."""
        over = dict.fromkeys(registration for registration, (_, task) in self._watches.items() if task.done())
        for registration in over:
            self._watches.pop(registration)[1].result()
        return [process for process in self._registered() if _registration(process) in over]

    async def _remove(self, journal: Journal, process: _Process) -> None:
        """Remove the registration. A process that is alive after all finds that it is gone, and registers again."""
        decide: Callable[[ClusterImage], Decision[bool]]
        if isinstance(process, Broker):
            self._brake.on_proven_dead(process)
            decide = partial(decide_remove_dead, broker_id=process.id, epoch=process.epoch)
        else:
            decide = partial(
                decide_remove_dead_coordinator, kind=process.kind, instance_id=process.id, epoch=process.epoch
            )
        name = _name(process)
        try:
            if await journal.commit(decide, urgent=True):
                _log.warning(
                    "%s, epoch %d, is dead: its connection broke, and its port refuses new ones", name, process.epoch
                )
        except OttlaError as error:
            _log.warning(
                "could not remove the registration of %s, which is dead: %s; the registration expires with its lease",
                name,
                error,
            )

    def _probe_all(self) -> None:
        for broker in self._brake.to_probe():
            if _registration(broker) not in self._probes:
                self._probes[_registration(broker)] = asyncio.create_task(
                    self._probe(broker), name=f"ask-broker-{broker.id}"
                )

    async def _probe(self, broker: Broker) -> None:
        try:
            alive = await responds(broker.address, self._tls, timeout=PROBE_LIMIT_S)
        except Exception:  # sparing it for ever would leave its partitions without a leader
            _log.exception("probing broker %d failed", broker.id)
            alive = False
        _log.warning(
            "several brokers disappeared at the same time; broker %d %s",
            broker.id,
            "responds, so the controller waits for it"
            if alive
            else "does not respond, so the controller treats it as dead",
        )
        self._brake.on_probed(self._clock.monotonic(), broker, alive=alive)
        del self._probes[_registration(broker)]

    async def _until_changes(self) -> None:
        """Return once a broker comes or goes, or a watch is over."""
        changes = asyncio.ensure_future(self._changed.wait())
        try:
            watches = [task for _, task in self._watches.values()]
            await asyncio.wait({changes, *watches}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            changes.cancel()


def _registration(process: _Process) -> _Registration:
    if isinstance(process, Broker):
        return keys.broker(process.id), process.epoch
    return keys.coordinator(process.kind, process.id), process.epoch


def _name(process: _Process) -> str:
    return f"broker {process.id}" if isinstance(process, Broker) else f"{process.kind} coordinator {process.id}"
