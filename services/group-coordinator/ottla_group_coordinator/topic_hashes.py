"""Keeps the hashes of topics up to date, in slices of the loop: see `machines.consumer.topics`."""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from ottla_core.cluster.image import ClusterImage
from ottla_core.event_loop.slices import Slice, stepped
from ottla_core.event_loop.tasks import end_task
from ottla_group_coordinator.machines.consumer.topics import ImageTopics

_log = logging.getLogger(__name__)


class TopicHashes:
    """A component. `on_image` is for the metadata follower."""

    def __init__(self, topics: ImageTopics) -> None:
        self._topics: Final = topics
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Do nothing: the first image starts the work."""

    async def stop(self) -> None:
        await end_task(self._task)

    def on_image(self, old: ClusterImage, new: ClusterImage) -> None:
        self._topics.on_image(old, new)
        if self._topics.is_old and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._renew(), name="topic-hashes")

    async def _renew(self) -> None:
        try:
            await stepped(self._topics.renew(), Slice())
        except Exception:
            _log.exception("the topics' hashes could not be renewed")
