"""Offsets committed in a topic are deleted with it, as in Kafka: a new topic may get its name, and a group that started
in it at the old offset would miss records.

The owner of a shard deletes the offsets when it learns that the topic is deleted, and when it has loaded the shard: the
topic may have been deleted while the shard had no owner. They are found by the topic's id, and the metadata must be up
to date: a topic that is not known yet looks like a deleted one.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final, Protocol

from ottla_core.cluster.image import ClusterImage
from ottla_core.cluster.store import StoreUnavailableError
from ottla_core.coordination.shards import Shards
from ottla_core.errors import OttlaError
from ottla_core.rpc.retry import Backoff
from ottla_group_coordinator.keyed_work import KeyedWork
from ottla_group_coordinator.machines.shard import GroupShard, Loaded

_ASK_S: Final = 10.0
_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 5.0


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
        # The names of deleted topics that a shard has yet to handle, or None if it has to check all topics.
        self._work: Final[KeyedWork[int, frozenset[str] | None]] = KeyedWork(
            "deleting offsets of deleted topics in shard", self._forget, _merged
        )

    async def start(self) -> None:
        """Do nothing: the first deleted topic starts the work."""

    async def stop(self) -> None:
        await self._work.stop()

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        changed, names = new.changed_partitions, old.topic_names
        ids = names.keys() if changed is None else {partition.topic_id for partition in changed}
        gone = frozenset(names[id_] for id_ in ids if id_ in names and id_ not in new.topic_names)
        if gone:
            for shard in self._shards.owned():
                self._work.ask(shard, gone)

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, Loaded):
            self._work.ask(shard, None)

    async def _forget(self, shard: int, gone: frozenset[str] | None) -> None:
        """Delete the offsets until none is left, or another instance owns the shard."""
        backoff = Backoff(first_s=_PAUSE_S, most_s=_LONGEST_PAUSE_S)
        while shard in self._shards.owned():
            try:
                if await self._forget_batch(shard, gone):
                    return
                backoff.reset()
            except (StoreUnavailableError, TimeoutError, OttlaError) as error:
                if isinstance(error, OttlaError) and not error.retriable:
                    raise
                await asyncio.sleep(backoff.next())

    async def _forget_batch(self, shard: int, gone: frozenset[str] | None) -> bool:
        topics = (await self._metadata.catch_up(_ASK_S)).topics
        are_all: bool = await self._shards.ask_shard(
            shard, lambda held, now: held.forget_topics(topics, gone), timeout=_ASK_S
        )
        return are_all


def _merged(gone: frozenset[str] | None, others: frozenset[str] | None) -> frozenset[str] | None:
    return None if gone is None or others is None else gone | others
