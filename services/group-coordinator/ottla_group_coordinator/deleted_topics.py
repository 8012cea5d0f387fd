"""What was committed in a topic goes when the topic does, as in Kafka: another one may come under its name, and a group
that began in it where it ended in the former would miss records.

Whoever owns a shard while a topic is deleted takes the offsets out. Where nobody does, they end with their time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any, Final, Protocol

from ottla_core.clock import Clock
from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shard import Decide
from ottla_core.errors import OttlaError
from ottla_core.tasks import end_task
from ottla_group_coordinator.machines.shard import GroupShard

_ASK_S: Final = 10.0
_PAUSE_S: Final = 0.2

_log = logging.getLogger(__name__)


class OwnShards(Protocol):
    """The shards of this instance (ottla_core.coordination.runtime)."""

    def owned(self) -> Sequence[int]: ...

    async def ask_shard(self, shard: int, decide: Decide[GroupShard], *, timeout: float) -> Any: ...


class DeletedTopics:
    """A component. `on_image` is for the metadata follower."""

    def __init__(self, shards: OwnShards, clock: Clock) -> None:
        self._shards: Final = shards
        self._clock: Final = clock
        self._tasks: Final[set[asyncio.Task[None]]] = set()

    async def start(self) -> None:
        """Nothing to do before the first topic is deleted."""

    async def stop(self) -> None:
        for task in list(self._tasks):
            await end_task(task)

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        if old.topics is new.topics:
            return
        gone = frozenset(name for name, topic in old.topics.items() if new.topic_by_id(topic.id) is None)
        if not gone:
            return
        until_ms = self._clock.wall_ms()
        for shard in self._shards.owned():
            task = asyncio.create_task(self._forget(shard, gone, until_ms), name=f"forget-topics-{shard}")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forget(self, shard: int, topics: frozenset[str], until_ms: int) -> None:
        """Until all are out, or another owns the shard."""
        while shard in self._shards.owned():
            try:
                if await self._shards.ask_shard(
                    shard, lambda held, now: held.forget_topics(topics, until_ms), timeout=_ASK_S
                ):
                    return
            except OttlaError as error:
                if not error.retriable:
                    _log.warning("offsets of %s stay in shard %d: %s", ", ".join(sorted(topics)), shard, error)
                    return
                await asyncio.sleep(_PAUSE_S)
