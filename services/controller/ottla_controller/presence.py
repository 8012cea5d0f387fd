"""Who is there: health streams to every registered broker, and the brake on mass expiry.

The brake listens from the start of the process, in a term or not, so that a controller that is elected in the middle of
a stall knows who was there before it. Streams are held, and brokers asked, by the active controller only.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import Final

from ottla_controller.health import RETRY_S, HealthWatch, answers
from ottla_controller.journal import Journal
from ottla_controller.machines.brake import Brake
from ottla_controller.machines.brokers import decide_remove_dead
from ottla_core.clock import Clock
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import Broker, ClusterImage
from ottla_core.errors import OttlaError

GRACE_S: Final = 6.0  # a broker's lease lives so long
ASK_LIMIT_S: Final = 1.0

_log = logging.getLogger(__name__)

_Life = tuple[int, int]
"""Broker id and broker epoch."""


class Presence:
    """A duty of the active controller."""

    def __init__(self, follower: MetadataFollower, clock: Clock) -> None:
        self._follower = follower
        self._clock = clock
        self._brake = Brake(GRACE_S)
        self._changed = asyncio.Event()
        self._watches: dict[_Life, tuple[HealthWatch, asyncio.Task[None]]] = {}
        self._asked: dict[_Life, asyncio.Task[None]] = {}
        follower.on_change(self._on_image)

    @property
    def held(self) -> int:
        """How many health streams stand."""
        return sum(watch.held for watch, _ in self._watches.values())

    def spared(self) -> frozenset[int]:
        """Brokers that are away or fenced, and count as there for the moment."""
        return self._brake.spared(self._clock.monotonic())

    async def run(self, journal: Journal) -> None:
        """Until it is cancelled, at the end of the term."""
        try:
            while True:
                try:
                    await self._look(journal)
                except Exception:
                    _log.exception("watching the brokers failed, trying on")
                    await asyncio.sleep(RETRY_S)
        finally:
            tasks = [*(task for _, task in self._watches.values()), *self._asked.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._watches.clear()
            self._asked.clear()

    async def _look(self, journal: Journal) -> None:
        self._changed.clear()
        self._watch_all()
        self._ask_all()
        await asyncio.gather(*(self._remove(journal, broker) for broker in self._dead()))
        await self._until_news()

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        now = self._clock.monotonic()
        if old.revision == 0:
            needed = {b for p in new.partitions.values() for b in p.isr}
            self._brake.on_start(now, needed, new.brokers.keys())
        if new.brokers is not old.brokers:
            self._brake.on_brokers(now, old.brokers, new.brokers)
            self._changed.set()

    def _watch_all(self) -> None:
        """One stream for every life that is registered, and none for others."""
        lives = {_life(b): b for b in self._follower.image.brokers.values()}
        for life in self._watches.keys() - lives.keys():
            self._watches.pop(life)[1].cancel()
        for life in lives.keys() - self._watches.keys():
            watch = HealthWatch(lives[life].address)
            self._watches[life] = watch, asyncio.create_task(watch.until_dead(), name=f"watch-broker-{life[0]}")

    def _dead(self) -> list[Broker]:
        """The registered brokers whose death was proven since the last look; their watches are over."""
        over = {life for life, (_, task) in self._watches.items() if task.done()}
        for life in over:
            self._watches.pop(life)[1].result()
        return [b for b in self._follower.image.brokers.values() if _life(b) in over]

    async def _remove(self, journal: Journal, broker: Broker) -> None:
        """Remove the registration. A process that is alive after all finds that it is gone, and registers again."""
        self._brake.on_proven_dead(broker)
        decide = partial(decide_remove_dead, broker_id=broker.id, epoch=broker.epoch)
        try:
            if await journal.commit(decide, urgent=True):
                _log.warning("broker %d, epoch %d, is dead: its connection broke, its port refuses", *_life(broker))
        except OttlaError as error:
            _log.warning("could not remove broker %d, which is dead: %s; its lease will", broker.id, error)

    def _ask_all(self) -> None:
        for broker in self._brake.to_ask():
            if _life(broker) not in self._asked:
                self._asked[_life(broker)] = asyncio.create_task(self._ask(broker), name=f"ask-broker-{broker.id}")

    async def _ask(self, broker: Broker) -> None:
        try:
            answered = await answers(broker.address, timeout=ASK_LIMIT_S)
        except Exception:  # to spare it for ever would leave its partitions without a leader
            _log.exception("asking broker %d failed", broker.id)
            answered = False
        _log.warning(
            "brokers vanished together; broker %d %s",
            broker.id,
            "answers, and is waited for" if answered else "does not answer, and counts as dead",
        )
        self._brake.on_asked(self._clock.monotonic(), broker, answered=answered)
        del self._asked[_life(broker)]

    async def _until_news(self) -> None:
        """Until a broker comes or goes, or a watch is over."""
        news = asyncio.ensure_future(self._changed.wait())
        try:
            watches = [task for _, task in self._watches.values()]
            await asyncio.wait({news, *watches}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()


def _life(broker: Broker) -> _Life:
    return broker.id, broker.epoch
