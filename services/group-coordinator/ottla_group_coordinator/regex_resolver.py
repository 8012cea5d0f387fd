"""Finds the topics that groups' regular expressions match, in slices of the loop: see `machines.consumer.regexes`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.shards import Shards
from ottla_core.coordination.timers import Moment
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.event_loop.tasks import end_task
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.resource import ResourceType
from ottla_group_coordinator.machines.consumer.regexes import ResolveRegexes, compiled, decide_resolved
from ottla_group_coordinator.machines.consumer.requests import Reader
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_proto.operation import Operation

_ASK_S: Final = 10.0
_TAKEN_IN: Final = 5_000
"""How many names of topics one decision takes in, at least. Matches of one pattern are never torn."""

_A_TURN: Final = 20
"""How many patterns of a group are matched before it is another group's turn."""

_log = logging.getLogger(__name__)


class RegexResolver:
    """A component. `on_effect` is for the runtime. Groups take turns, so one with many patterns holds up no other."""

    def __init__(self, shards: Shards[GroupShard], image: Callable[[], ClusterImage]) -> None:
        self._shards: Final = shards
        self._image: Final = image
        self._asked: Final[dict[str, ResolveRegexes]] = {}
        self._task: asyncio.Task[None] | None = None
        self._authorizers: Final[dict[bool, Authorizer]] = {}

    async def start(self) -> None:
        """Do nothing: the first regular expression starts the work."""

    async def stop(self) -> None:
        await end_task(self._task)

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if not isinstance(effect, ResolveRegexes):
            return
        self._add(effect)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._resolve_all(), name="regular-expressions")

    def _add(self, asked: ResolveRegexes) -> None:
        waiting = self._asked.pop(asked.group, None)
        # Without patterns all of the group are meant, whatever else is asked for.
        if waiting is not None and asked.patterns:
            asked = asked._replace(patterns=(*waiting.patterns, *asked.patterns) if waiting.patterns else ())
        self._asked[asked.group] = asked

    async def _resolve_all(self) -> None:
        while self._asked:
            asked = self._asked.pop(next(iter(self._asked)))
            try:
                await self._resolve(asked)
            except OttlaError as error:
                # The group's next heartbeat that finds them missing asks again.
                _log.info("the regular expressions of group %s are not resolved yet: %s", asked.group, error)
            except Exception:
                _log.exception("the regular expressions of group %s could not be resolved", asked.group)

    async def _resolve(self, asked: ResolveRegexes) -> None:
        patterns = asked.patterns or await self._shards.ask(asked.group, _patterns_of(asked.group), timeout=_ASK_S)
        if len(patterns) > _A_TURN:
            self._add(asked._replace(patterns=patterns[_A_TURN:]))
        image, time_slice = self._image(), Slice()
        may_see: dict[str, bool] = {}
        matches: dict[str, frozenset[str]] = {}
        found = 0
        for pattern in patterns[:_A_TURN]:
            names = await self._matching(pattern, image, time_slice)
            matches[pattern] = frozenset([n for n in names if self._may_see(asked.reader, n, image, may_see)])
            found += 1 + len(names)
            if found >= _TAKEN_IN:
                await self._take_in(asked.group, matches, image.revision)
                matches, found = {}, 0
        if matches:
            await self._take_in(asked.group, matches, image.revision)

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

    async def _take_in(self, group_id: str, matches: Mapping[str, frozenset[str]], version: int) -> None:
        def decide(shard: GroupShard, now: Moment) -> ShardDecision[None]:
            group = shard.consumer_group(group_id)
            if group is None:
                return ShardDecision(None)
            return decide_resolved(group, matches, version, shard.topics, now)

        await self._shards.ask(group_id, decide, timeout=_ASK_S)


def _patterns_of(group_id: str) -> Callable[[GroupShard, Moment], ShardDecision[tuple[str, ...]]]:
    def decide(shard: GroupShard, now: Moment) -> ShardDecision[tuple[str, ...]]:
        group = shard.consumer_group(group_id)
        return ShardDecision(() if group is None else tuple(group.regexes), by_last_proof=True)

    return decide
