"""Finds the topics that groups' regular expressions match, in slices of the loop: see `machines.consumer.regexes`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.shards import Shards
from ottla_core.coordination.timers import Moment
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.event_loop.tasks import end_task
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.resource import ResourceType
from ottla_group_coordinator.machines.consumer.regexes import (
    ResolveRegexes,
    compiled,
    decide_resolved,
    patterns_to_match,
)
from ottla_group_coordinator.machines.consumer.requests import Reader
from ottla_group_coordinator.machines.consumer.topics import ImageTopics
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_proto.operation import Operation

_ASK_S: Final = 10.0
_TAKEN_IN: Final = 5_000
"""How many names of topics one decision takes in, at least. Matches of one pattern are never torn."""

_log = logging.getLogger(__name__)


class RegexResolver:
    """A component. `on_effect` is for the runtime. Groups take turns, so one with many patterns holds up no other."""

    def __init__(self, shards: Shards[GroupShard], topics: ImageTopics) -> None:
        self._shards: Final = shards
        self._topics: Final = topics
        self._asked: Final[dict[str, Reader | None]] = {}
        """For each group whose patterns are to be matched, the member that has asked last."""
        self._tasks: Final[dict[str, asyncio.Task[None]]] = {}
        self._turn: Final = asyncio.Lock()
        self._slice: Final = Slice()
        self._authorizers: Final[dict[bool, Authorizer]] = {}

    async def start(self) -> None:
        """Do nothing: the first regular expression starts the work."""

    async def stop(self) -> None:
        for task in list(self._tasks.values()):
            await end_task(task)

    @property
    def is_busy(self) -> bool:
        return bool(self._tasks)

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if not isinstance(effect, ResolveRegexes):
            return
        self._asked[effect.group] = effect.reader
        if effect.group not in self._tasks:
            self._tasks[effect.group] = asyncio.create_task(self._resolve_group(effect.group), name="regex")

    async def _resolve_group(self, group_id: str) -> None:
        try:
            while group_id in self._asked:
                await self._resolve(group_id, self._asked.pop(group_id))
        except OttlaError as error:
            # A later heartbeat that finds them missing asks again.
            _log.info("the regular expressions of group %s are not resolved yet: %s", group_id, error)
        except Exception:
            _log.exception("the regular expressions of group %s could not be resolved", group_id)
        finally:
            self._asked.pop(group_id, None)
            del self._tasks[group_id]

    async def _resolve(self, group_id: str, reader: Reader | None) -> None:
        image, version = self._topics.image, self._topics.matches_version
        work: _Work = await self._shards.ask(group_id, _work_of(group_id), timeout=_ASK_S)
        may_see: dict[str, bool] = {}
        matches: dict[str, frozenset[str]] = {}
        found = 0
        for pattern in work.patterns:
            async with self._turn:
                names = await self._matching(pattern, image, self._slice)
            matches[pattern] = frozenset([n for n in names if self._may_see(reader, n, image, may_see)])
            found += 1 + len(names)
            if found >= _TAKEN_IN:
                await self._take_in(group_id, matches, image.revision)
                matches, found = {}, 0
        await self._take_in(group_id, matches, image.revision, version if work.is_refresh else None)

    async def _matching(self, pattern: str, image: ClusterImage, time_slice: Slice) -> list[str]:
        expression = compiled(pattern)
        found = await sliced(lambda name: expression.fullmatch(name.encode()) is not None, image.topics, time_slice)
        return [name for name, is_match in zip(image.topics, found, strict=True) if is_match]

    def _may_see(self, reader: Reader | None, name: str, image: ClusterImage, known: dict[str, bool]) -> bool:
        if reader is None:
            return True
        found = known.get(name)
        if found is None:
            found = known[name] = (
                self._authorizer(image, sees_unlisted=reader.sees_unlisted)
                .decide(reader.principal, reader.host, Operation.DESCRIBE, ResourceType.TOPIC, name)
                .is_allowed
            )
        return found

    def _authorizer(self, image: ClusterImage, *, sees_unlisted: bool) -> Authorizer:
        made = self._authorizers.get(sees_unlisted)
        if made is None or made.revision != image.acls_revision:
            made = self._authorizers[sees_unlisted] = Authorizer(
                image.acls, revision=image.acls_revision, allow_everyone_if_no_acl_found=sees_unlisted
            )
        return made

    async def _take_in(
        self, group_id: str, matches: Mapping[str, frozenset[str]], revision: int, refreshed: int | None = None
    ) -> None:
        def decide(shard: GroupShard, now: Moment) -> ShardDecision[None]:
            group = shard.consumer_group(group_id)
            if group is None:
                return ShardDecision(None)
            return decide_resolved(group, matches, revision, shard.topics, now, refreshed)

        await self._shards.ask(group_id, decide, timeout=_ASK_S)


class _Work(NamedTuple):
    """What is to be matched of a group. It is a refresh if that is everything."""

    patterns: tuple[str, ...]
    is_refresh: bool


def _work_of(group_id: str) -> Callable[[GroupShard, Moment], ShardDecision[_Work]]:
    def decide(shard: GroupShard, now: Moment) -> ShardDecision[_Work]:
        group = shard.consumer_group(group_id)
        if group is None:
            return ShardDecision(_Work((), is_refresh=False), by_last_proof=True)
        patterns = patterns_to_match(group)
        return ShardDecision(_Work(patterns, len(patterns) == len(group.regexes)), by_last_proof=True)

    return decide
