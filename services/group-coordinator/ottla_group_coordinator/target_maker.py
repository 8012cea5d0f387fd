"""Makes the targets of large groups, in slices of the loop: see `machines.consumer.target`."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.shards import Shards
from ottla_core.coordination.timers import Moment
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice, stepped
from ottla_core.event_loop.tasks import end_tasks
from ottla_group_coordinator.machines.consumer.target import (
    AssignTarget,
    MadeTarget,
    TargetWork,
    decide_made,
    made_target,
    target_work,
)
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.shard import GroupShard

_ASK_S: Final = 10.0
_AT_ONCE: Final = 2
"""The most targets that are made at one time, because each takes memory. Other groups wait."""

_log = logging.getLogger(__name__)


class TargetMaker:
    """A component. `on_effect` is for the runtime."""

    def __init__(self, shards: Shards[GroupShard]) -> None:
        self._shards: Final = shards
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        self._few: Final = asyncio.Semaphore(_AT_ONCE)

    @property
    def is_busy(self) -> bool:
        """Whether any target is being made."""
        return bool(self._tasks)

    async def start(self) -> None:
        """Do nothing: the first large group starts the work."""

    async def stop(self) -> None:
        await end_tasks(tuple(self._tasks.values()))

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, AssignTarget) and effect.group not in self._tasks:
            task = asyncio.create_task(self._assign(effect.group), name=f"target-of-{effect.group}")
            self._tasks[effect.group] = task
            task.add_done_callback(lambda _: self._tasks.pop(effect.group))

    async def _assign(self, group_id: str) -> None:
        try:
            async with self._few:
                await self._make(group_id)
        except OttlaError as error:
            # A later heartbeat requests it again.
            _log.warning("the target of group %s is not made yet: %s", group_id, error)
        except Exception:
            _log.exception("the target of group %s could not be made", group_id)

    async def _make(self, group_id: str) -> None:
        def begin(shard: GroupShard, now: Moment) -> ShardDecision[tuple[TargetWork, GroupTopics] | None]:
            group = shard.consumer_group(group_id)
            if group is None or group.is_assigned:
                return ShardDecision(None)
            return ShardDecision((target_work(group, shard.settings.consumer.of(group_id)), shard.topics))

        begun = await self._shards.ask(group_id, begin, timeout=_ASK_S)
        if begun is not None:
            await self._write(group_id, await stepped(made_target(*begun), Slice()))

    async def _write(self, group_id: str, made: MadeTarget) -> None:
        def write(shard: GroupShard, now: Moment) -> ShardDecision[int | None]:
            group = shard.consumer_group(group_id)
            if group is None or place is None:
                return ShardDecision(None)
            return decide_made(group, made, place, shard.settings, now)

        place: int | None = 0
        while place is not None:
            place = await self._shards.ask(group_id, write, timeout=_ASK_S)
