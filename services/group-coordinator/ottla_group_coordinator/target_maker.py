"""Makes the targets of large groups, in slices of the loop: see `machines.consumer.target`."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.shards import Shards
from ottla_core.coordination.timers import Moment
from ottla_core.event_loop.slices import Slice, stepped
from ottla_group_coordinator.keyed_work import KeyedWork
from ottla_group_coordinator.machines.consumer.target import (
    AssignTarget,
    MadeTarget,
    TargetWork,
    decide_made,
    is_due,
    made_target,
    target_work,
)
from ottla_group_coordinator.machines.consumer.topics import GroupTopics
from ottla_group_coordinator.machines.shard import GroupShard

_ASK_S: Final = 10.0
_AT_ONCE: Final = 2
"""The most targets that are made at one time, because each takes memory. Other groups wait."""


class TargetMaker:
    """A component. `on_effect` is for the runtime."""

    def __init__(self, shards: Shards[GroupShard]) -> None:
        self._shards: Final = shards
        self._work: Final[KeyedWork[str, int]] = KeyedWork("making the target of group", self._make)
        self._few: Final = asyncio.Semaphore(_AT_ONCE)

    async def start(self) -> None:
        """Do nothing: the first large group starts the work."""

    async def stop(self) -> None:
        await self._work.stop()

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, AssignTarget):
            self._work.ask(effect.group, shard)

    async def _make(self, group_id: str, shard: int) -> None:
        def begin(held: GroupShard, now: Moment) -> ShardDecision[tuple[TargetWork, GroupTopics] | None]:
            group, settings = held.consumer_group(group_id), held.settings.consumer.of(group_id)
            # If another target was being made when this one was asked for, this one may be needed only later.
            if group is None or group.is_assigned or not is_due(group, settings, now):
                return ShardDecision(None, by_last_proof=True)
            return ShardDecision((target_work(group, settings), held.topics), by_last_proof=True)

        begun = await self._shards.ask(group_id, begin, timeout=_ASK_S)
        if begun is None:
            return
        # Only the work itself takes one of the few places, so a shard that does not respond delays no other.
        async with self._few:
            if shard not in self._shards.owned():
                return
            made = await stepped(made_target(*begun), Slice())
        await self._write(group_id, made)

    async def _write(self, group_id: str, made: MadeTarget) -> None:
        def write(shard: GroupShard, now: Moment) -> ShardDecision[int | None]:
            group = shard.consumer_group(group_id)
            if group is None or place is None:
                return ShardDecision(None)
            return decide_made(group, made, place, shard.settings, now)

        place: int | None = 0
        while place is not None:
            place = await self._shards.ask(group_id, write, timeout=_ASK_S)
