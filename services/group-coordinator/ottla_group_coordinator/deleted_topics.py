"""Offsets committed in a topic are deleted with it, as in Kafka: a new topic may get its name, and a group that started
in it at the old offset would miss records.

The owner of a shard deletes the offsets when it learns that the topic is deleted, and when it has loaded the shard: the
topic may have been deleted while the shard had no owner. They are found by the topic's id, and the metadata must be up
to date: a topic that is not known yet looks like a deleted one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shards import Shards
from ottla_core.errors import OttlaError
from ottla_core.event_loop.tasks import end_task
from ottla_core.rpc.retry import Backoff
from ottla_group_coordinator.machines.shard import GroupShard, Loaded

_ASK_S: Final = 10.0
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0

_log = logging.getLogger(__name__)


class MetadataCatchUp(Protocol):
    """This instance's view of the cluster (ottla_core.cluster.follower)."""

    async def catch_up(self, timeout: float) -> ClusterImage:
        """Return an up-to-date image. Raises StoreUnavailableError, TimeoutError or OttlaError."""
        ...


class DeletedTopics:
    """A component. `on_image` is for the metadata follower, `on_effect` for the runtime."""

    def __init__(self, shards: Shards[GroupShard], metadata: MetadataCatchUp) -> None:
        self._shards: Final = shards
        self._metadata: Final = metadata
        self._gone: Final[dict[int, frozenset[str] | None]] = {}
        """For each shard, the names of deleted topics that it has yet to handle, or None if it has to check all
        topics."""
        self._tasks: Final[dict[int, asyncio.Task[None]]] = {}

    async def start(self) -> None:
        """Do nothing: the first deleted topic starts the work."""

    async def stop(self) -> None:
        for task in list(self._tasks.values()):
            await end_task(task)

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        changed, names = new.changed_partitions, old.topic_names
        ids = names.keys() if changed is None else {partition.topic_id for partition in changed}
        gone = frozenset(names[id_] for id_ in ids if id_ in names and id_ not in new.topic_names)
        if gone:
            for shard in self._shards.owned():
                self._begin(shard, gone)

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, Loaded):
            self._begin(shard, None)

    def _begin(self, shard: int, gone: frozenset[str] | None) -> None:
        self._add(shard, gone)
        if shard not in self._tasks:
            self._tasks[shard] = asyncio.create_task(self._forget(shard), name=f"forget-topics-{shard}")

    async def _forget(self, shard: int) -> None:
        """Delete the offsets until none is left, or another instance owns the shard."""
        backoff = Backoff(first_s=_PAUSE_S, most_s=_LONGEST_PAUSE_S)
        try:
            while shard in self._gone and shard in self._shards.owned():
                gone = self._gone.pop(shard)
                try:
                    are_all = await self._forget_batch(shard, gone)
                    backoff.reset()
                except (StoreUnavailableError, TimeoutError, OttlaError) as error:
                    if isinstance(error, OttlaError) and not error.retriable:
                        _log.warning("offsets committed for deleted topics stay in shard %d for now: %s", shard, error)
                        return
                    are_all = False
                    await asyncio.sleep(backoff.next())
                if not are_all:
                    self._add(shard, gone)
        finally:
            self._gone.pop(shard, None)
            del self._tasks[shard]

    def _add(self, shard: int, gone: frozenset[str] | None) -> None:
        others = self._gone.get(shard, frozenset())
        self._gone[shard] = None if gone is None or others is None else gone | others

    async def _forget_batch(self, shard: int, gone: frozenset[str] | None) -> bool:
        topics = (await self._metadata.catch_up(_ASK_S)).topics
        are_all: bool = await self._shards.ask_shard(
            shard, lambda held, now: held.forget_topics(topics, gone), timeout=_ASK_S
        )
        return are_all
