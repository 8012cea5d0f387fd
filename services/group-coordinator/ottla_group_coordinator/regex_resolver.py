"""Finds the topics that groups' regular expressions match, in slices of the loop: see `machines.consumer.regexes`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from time import thread_time
from typing import Any, Final, NamedTuple

from ottla_core.cluster.image import ClusterImage
from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.shards import Shards
from ottla_core.coordination.timers import Moment
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice
from ottla_core.security.authorizer import Authorizer
from ottla_core.security.resource import ResourceType
from ottla_group_coordinator.keyed_work import KeyedWork
from ottla_group_coordinator.machines.consumer.errors import refused_regex
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.regexes import (
    Found,
    ResolveRegexes,
    check_matches,
    compiled,
    decide_resolved,
    matches_limit,
    patterns_to_match,
)
from ottla_group_coordinator.machines.consumer.requests import Reader
from ottla_group_coordinator.machines.consumer.shared_names import shared_names
from ottla_group_coordinator.machines.consumer.topics import ImageTopics
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_proto.operation import Operation

_ASK_S: Final = 10.0
_AT_ONCE_BYTES: Final = 1 << 17
"""One decision stores matches of at most this size, or those of one larger pattern. A batch holds more, but requests of
other groups write to it, too."""

_FORMER_NAME_BYTES: Final = 10
"""How much a topic counts that a pattern has matched before. It is in no record, but it takes as long to take it out of
the group as to take ten bytes in."""

_AT_ONCE: Final = 1_000
"""The most patterns whose matches one decision stores."""

_MOST_CPU_S: Final = 1.0
"""The most CPU time for matching a pattern with all topics. Most patterns take 2 µs for a name."""

_log = logging.getLogger(__name__)


class RegexResolver:
    """A component. `on_effect` is for the runtime.

    Each group has a task of its own, so a group whose shard does not answer delays no other. The tasks take turns after
    each pattern, so a group with many patterns delays the others only a little.
    """

    def __init__(self, shards: Shards[GroupShard], topics: ImageTopics) -> None:
        self._shards: Final = shards
        self._topics: Final = topics
        # Of the members of a group that ask for matches, the last one counts.
        self._work: Final[KeyedWork[str, Reader | None]] = KeyedWork(
            "resolving the regular expressions of group", self._resolve
        )
        self._turn: Final = asyncio.Lock()
        self._slice: Final = Slice()
        self._authorizers: Final[dict[bool, Authorizer]] = {}

    async def start(self) -> None:
        """Do nothing: the first regular expression starts the work."""

    async def stop(self) -> None:
        await self._work.stop()

    def on_effect(self, shard: int, epoch: int, effect: Any) -> None:
        if isinstance(effect, ResolveRegexes):
            self._work.ask(effect.group, effect.reader)

    async def _resolve(self, group_id: str, reader: Reader | None) -> None:
        # The topics and their version have to belong together.
        image, version = self._topics.image, self._topics.matches_version
        work: _Work = await self._shards.ask(group_id, _work_of(group_id), timeout=_ASK_S)
        found, size_bytes = Found({}, {}, image.revision), 0
        at_once_bytes = min(_AT_ONCE_BYTES, work.most_bytes)
        for pattern, former_names in work.patterns.items():
            try:
                async with self._turn:
                    matches = await self._matching(pattern, image, reader)
                more_bytes = matches_limit(group_id, pattern, matches)
                check_matches(pattern, matches, more_bytes, work.most_bytes)
                more_bytes += former_names * _FORMER_NAME_BYTES
            except OttlaError as error:
                _log.warning("a regular expression of group %s gets no new matches: %s", group_id, error)
                matches, more_bytes = None, 0
                found.refused[pattern] = error.message
            if size_bytes + more_bytes > at_once_bytes or len(found.matches) + len(found.refused) >= _AT_ONCE:
                await self._take_in(group_id, found)
                found, size_bytes = Found({}, {}, image.revision), 0
            if matches is not None:
                found.matches[pattern] = matches
                size_bytes += more_bytes
        await self._take_in(group_id, found._replace(refreshed=version if work.is_refresh else None))

    async def _matching(self, pattern: str, image: ClusterImage, reader: Reader | None) -> frozenset[str]:
        """Return the topics that the pattern matches, and that the reader may see. Raises
        INVALID_REGULAR_EXPRESSION."""
        await self._slice.rest()
        expression = compiled(pattern)
        names: list[str] = []
        spent_s, began_at = 0.0, thread_time()
        for name in image.topics:
            if self._slice.is_over:
                spent_s += thread_time() - began_at
                if spent_s > _MOST_CPU_S:
                    raise refused_regex(f"{pattern[:100]!r} takes too long to match with {len(image.topics)} topics")
                await self._slice.rest()
                began_at = thread_time()
            if expression.fullmatch(name.encode()) is not None:
                names.append(name)
        if reader is not None:
            names = await self._visible(names, image, reader)
        return shared_names(frozenset(names))

    async def _visible(self, names: Sequence[str], image: ClusterImage, reader: Reader) -> list[str]:
        authorizer = await self._authorizer(image, sees_unlisted=reader.sees_unlisted)
        visible: list[str] = []
        for name in names:
            await self._slice.rest()
            decision = authorizer.decide(reader.principal, reader.host, Operation.DESCRIBE, ResourceType.TOPIC, name)
            if decision.is_allowed:
                visible.append(name)
        return visible

    async def _authorizer(self, image: ClusterImage, *, sees_unlisted: bool) -> Authorizer:
        made = self._authorizers.get(sees_unlisted)
        if made is None or made.revision != image.acls_revision:
            # Preparing 100,000 ACLs takes 0.2 s.
            made = self._authorizers[sees_unlisted] = await asyncio.to_thread(
                Authorizer, image.acls, revision=image.acls_revision, allow_everyone_if_no_acl_found=sees_unlisted
            )
        return made

    async def _take_in(self, group_id: str, found: Found) -> None:
        def decide(shard: GroupShard, now: Moment) -> ShardDecision[None]:
            group = shard.consumer_group(group_id)
            return ShardDecision(None) if group is None else decide_resolved(group, found, shard.topics, now)

        await self._shards.ask(group_id, decide, timeout=_ASK_S)


class _Work(NamedTuple):
    """The patterns of a group that are to be matched. If they are all of them, it is a refresh."""

    patterns: dict[str, int]
    """With how many topics each of them has matched so far."""
    is_refresh: bool
    most_bytes: int
    """The largest record that the matches of one pattern may take."""


def _former_names(group: ConsumerGroup, pattern: str) -> int:
    former = group.resolved.get(pattern)
    return 0 if former is None else len(former.topics)


def _work_of(group_id: str) -> Callable[[GroupShard, Moment], ShardDecision[_Work]]:
    def decide(shard: GroupShard, now: Moment) -> ShardDecision[_Work]:
        group = shard.consumer_group(group_id)
        patterns = {} if group is None else {each: _former_names(group, each) for each in patterns_to_match(group)}
        is_refresh = group is not None and len(patterns) == len(group.regexes)
        # The same batch holds the group's epoch, and tombstones of other patterns.
        most_bytes = shard.settings.max_record_bytes * 9 // 10
        return ShardDecision(_Work(patterns, is_refresh, most_bytes), by_last_proof=True)

    return decide
