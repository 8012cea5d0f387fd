"""Regular expressions: each is resolved once for all members that have it, and again when topics have come or gone.

To match a pattern with every topic of the cluster takes longer than a decision may. So a decision only asks for it
(`ResolveRegexes`), the service does it in slices, and `decide_resolved` takes the matches in. Until then a pattern
matches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import re2

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_group_coordinator.machines.consumer import errors
from ottla_group_coordinator.machines.consumer.draft import Draft
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup, RegexesAsked
from ottla_group_coordinator.machines.consumer.records import RegexKey, ResolvedRegex
from ottla_group_coordinator.machines.consumer.requests import Reader
from ottla_group_coordinator.machines.consumer.topics import GroupTopics, hash_of

REFRESH_S: Final = 10.0
"""A group's patterns are matched again at most this often."""

_PATTERN_BYTES: Final = 1 << 20
"""How much memory a compiled pattern may take. A repeated repetition could take any amount."""


class ResolveRegexes(NamedTuple):
    """Asks, as an effect, for the matches of these patterns, or of all patterns of the group if there are none.

    `reader` is the member that has brought it about. Its rights bound the matches, as in Kafka.
    """

    group: str
    patterns: tuple[str, ...]
    reader: Reader | None


def compiled(pattern: str) -> Any:
    """Compile a pattern. Raises INVALID_REGULAR_EXPRESSION."""
    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = _PATTERN_BYTES, True, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise errors.invalid_regex(pattern, reason.decode() if isinstance(reason, bytes) else str(reason)) from error


def check_regex(pattern: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION."""
    compiled(pattern)


def are_due(group: ConsumerGroup, topics: GroupTopics, now: Moment) -> bool:
    """Return whether the group's patterns are to be matched with the topics again."""
    if now.at < group.asked.at + REFRESH_S:
        return False
    return group.asked.names_version != topics.names_version or len(group.regexes) != len(group.resolved)


def ask_for(draft: Draft, pattern: str, reader: Reader | None) -> None:
    """Ask for the matches of a pattern that the group has not had yet."""
    draft.effects.append(ResolveRegexes(draft.group.group_id, (pattern,), reader))


def ask_all(draft: Draft, topics: GroupTopics, reader: Reader | None) -> None:
    group = draft.group
    draft.effects.append(ResolveRegexes(group.group_id, (), reader))
    draft.memory.append(RegexesAsked(group.group_id, topics.names_version, draft.now.at))


def decide_resolved(
    group: ConsumerGroup, matches: Mapping[str, frozenset[str]], version: int, topics: GroupTopics, now: Moment
) -> ShardDecision[None]:
    """Take in the matches of patterns. Other matches than before begin an epoch."""
    with Draft(group, now) as draft:
        for pattern, names in matches.items():
            former = group.resolved.get(pattern)
            if pattern in group.regexes and (former is None or former.topics != names):
                draft.write(RegexKey(group.group_id, pattern), ResolvedRegex(names, version, now.wall_ms))
        # A new expression begins one even if it matches nothing: its member may have read something else before.
        if draft.records():
            draft.begin_epoch(hash_of(group.subscribed_topics(), topics), "an expression matches other topics")
        return draft.decision(None)
