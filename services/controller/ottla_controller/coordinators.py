"""The active controller makes the topics of the coordinators' state, and gives every shard an owner.

It looks at each image in which something has changed that these depend on. Each step is one transaction. The next look
finds what is left or has failed, because it compares how things are with how they should be (level-triggered, rule C3).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from ottla_controller.journal import Journal
from ottla_controller.machines.internal_topics import decide_internal_topic, unfinished
from ottla_controller.machines.shards import decide_shards, unassigned_kinds
from ottla_core.cluster.follower import MetadataFollower
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.model import INTERNAL_TOPICS, TopicId
from ottla_core.rpc.retry import Backoff
from ottla_core.telemetry import Metrics

_log = logging.getLogger(__name__)

_DEPENDS_ON: Final = ("coordinators", "shards", "brokers", "configs")


class ShardAssigner:
    """A duty of the active controller."""

    def __init__(self, follower: MetadataFollower, new_topic_id: Callable[[], TopicId], metrics: Metrics) -> None:
        self._follower = follower
        self._new_topic_id = new_topic_id
        self._changed = asyncio.Event()
        self._assigned = metrics.counter(
            "ottla_controller_shards_given_total", "Shards assigned to a coordinator by this process."
        )
        follower.on_change(self._on_image)

    async def run(self, journal: Journal) -> None:
        """Assign shards until the task is cancelled, at the end of the term."""
        backoff = Backoff(first_s=0.1)
        while True:
            self._changed.clear()
            try:
                await self._settle(journal)
                backoff.reset()
                await self._changed.wait()
            except OttlaError as error:
                if not backoff.attempts:
                    _log.warning("can't assign the coordinators' shards, retrying: %s", error)
                await asyncio.sleep(backoff.next())
            except Exception:
                _log.exception("assigning the coordinators' shards failed, retrying")
                await asyncio.sleep(backoff.next())

    async def _settle(self, journal: Journal) -> None:
        """Assign owners first, because clients wait for those."""
        for kind in unassigned_kinds(self._follower.image):
            while assignments := await journal.commit(partial(decide_shards, kind=kind), urgent=True):
                self._assigned.value += len(assignments)
                _log.info("assigned %d shards of kind %s to new owners", len(assignments), kind)
        for kind in unfinished(self._follower.image):
            decide = partial(decide_internal_topic, kind=kind, topic_id=self._new_topic_id())
            while done := await journal.commit(decide):
                _log.info("%s", done)
                self._changed.set()

    def _on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        changed = new.changed_partitions
        topics = {image.topics[name].id for image in (old, new) for name in INTERNAL_TOPICS if name in image.topics}
        if (
            changed is None
            or any(getattr(old, name) is not getattr(new, name) for name in _DEPENDS_ON)
            or any(id_.topic_id in topics for id_ in changed)
        ):
            self._changed.set()
