"""Regular expressions: each is matched once for all members that have it, and again when its matches may have changed.

Matching a pattern with every topic of the cluster takes longer than a decision may. So a decision only requests the
matches (`ResolveRegexes`), the service finds them in slices, and `decide_resolved` stores them. Until then a pattern
matches nothing. All patterns of a group are matched again if topics were created or deleted, if ACLs have changed, or
if the refresh interval is over. A refresh counts once its matches are stored, so a failed one is requested again.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final, NamedTuple

import re2

from ottla_core.coordination.shard import ShardDecision
from ottla_core.coordination.timers import Moment
from ottla_group_coordinator.machines.consumer import errors
from ottla_group_coordinator.machines.consumer.draft import Draft
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup, RefreshAsked, Refreshed, RegexesRefused
from ottla_group_coordinator.machines.consumer.records import RegexKey, ResolvedRegex
from ottla_group_coordinator.machines.consumer.requests import Reader
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_group_coordinator.machines.consumer.topics import GroupTopics

REFRESH_S: Final = 10.0
"""All patterns of a group are matched again at most this often, as in Kafka."""

MOST_MATCHES: Final = 1 << 20
"""The most names in all matches of a group. Each takes about 50 bytes, and equal matches count once."""

_PATTERN_BYTES: Final = 1 << 18
"""The most memory of a compiled pattern, because nested repetitions could take any amount. This also bounds the time to
match one name to 10 ms."""

LONGEST_BYTES: Final = 2048
"""How long a pattern may be. A decision compiles it, and 2 KB of `\\pL` take 50 ms. `_PATTERN_BYTES` does not bound the
time, because a pattern is parsed as a whole before its size is known."""

_RECORD_BYTES: Final = 100
"""The most bytes of a record besides its names."""


class ResolveRegexes(NamedTuple):
    """An effect that requests the matches of the group's `patterns_to_match`.

    `reader` is the member whose request has caused it. Its rights bound the matches, as in Kafka.
    """

    group: str
    reader: Reader | None


def compiled(pattern: str) -> Any:
    """Compile a pattern. Raises INVALID_REGULAR_EXPRESSION."""
    if len(pattern.encode()) > LONGEST_BYTES:
        raise errors.refused_regex(f"{pattern[:100]!r}… is longer than {LONGEST_BYTES} bytes")
    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = _PATTERN_BYTES, True, False
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0]
        raise errors.invalid_regex(pattern, reason.decode() if isinstance(reason, bytes) else str(reason)) from error


def check_regex(pattern: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION for a pattern that does not compile."""
    compiled(pattern)


def is_refresh_due(group: ConsumerGroup, topics: GroupTopics, settings: ConsumerSettings, now: Moment) -> bool:
    """Return whether all patterns of the group are to be matched again."""
    if now.at < group.refresh_asked.at + REFRESH_S:
        return False
    last = group.refreshed
    return (
        last.version != topics.matches_version
        or now.at >= last.at + settings.regex_refresh_interval_ms / 1000
        or group.awaits_matches
    )


def check_is_not_refused(group: ConsumerGroup, pattern: str) -> None:
    """Raise INVALID_REGULAR_EXPRESSION if the matches of the pattern can't be kept."""
    if (reason := group.refusal(pattern)) is not None:
        raise errors.refused_regex(reason)


def ask(draft: Draft, reader: Reader | None) -> None:
    """Request the matches of the patterns that have none yet."""
    draft.effects.append(ResolveRegexes(draft.group.group_id, reader))


def ask_all(draft: Draft, reader: Reader | None) -> None:
    """Request the matches of all patterns."""
    draft.memory.append(RefreshAsked(draft.group.group_id, draft.now.at))
    ask(draft, reader)


def patterns_to_match(group: ConsumerGroup) -> tuple[str, ...]:
    """Return all patterns if a refresh is due, or those that have no matches yet."""
    if group.refresh_asked.at > group.refreshed.at:
        return tuple(group.regexes)
    return tuple(pattern for pattern in group.unmatched if group.refusal(pattern) is None)


def matches_limit(group_id: str, pattern: str, names: Set[str]) -> int:
    """Return an upper bound of the bytes of the record with these matches. Names of topics are ASCII."""
    return _RECORD_BYTES + len(group_id.encode()) + len(pattern.encode()) + sum(len(name) + 2 for name in names)


def check_matches(pattern: str, names: Set[str], size_bytes: int, most_bytes: int) -> None:
    """Raise INVALID_REGULAR_EXPRESSION for matches that no record can hold."""
    if size_bytes > most_bytes:
        raise errors.refused_regex(
            f"{pattern[:100]!r} matches {len(names)} topics, whose names take {size_bytes} bytes, more than the "
            f"{most_bytes} bytes of a record"
        )


class Found(NamedTuple):
    """The matches of some patterns of a group, as of a revision of the metadata."""

    matches: dict[str, frozenset[str]]
    refused: dict[str, str]
    """The patterns whose matches can't be kept, with the reasons. Matches that they already have are kept."""
    revision: int
    refreshed: int | None = None
    """The version of the topics and ACLs if this completes a refresh of all patterns, or None."""


def decide_resolved(group: ConsumerGroup, found: Found, topics: GroupTopics, now: Moment) -> ShardDecision[None]:
    """Store matches. If any of them have changed, begin an epoch."""
    with Draft(group, now) as draft:
        refused = dict(found.refused)
        for pattern, names in found.matches.items():
            former = group.resolved.get(pattern)
            if pattern not in group.regexes or (former is not None and former.topics == names):
                continue
            if not group.has_room_for(names, MOST_MATCHES):
                refused[pattern] = (
                    f"the regular expressions of group {group.group_id} have more than {MOST_MATCHES} matches together"
                )
            else:
                draft.write(RegexKey(group.group_id, pattern), ResolvedRegex(names, found.revision, now.wall_ms))
        # A new expression begins an epoch even if it matches nothing: its member may have read other topics before.
        if draft.records():
            draft.begin_epoch(draft.topics_hash(topics), "the matches of a regular expression have changed")
        if unmatched := {pattern: why for pattern, why in refused.items() if pattern in group.unmatched}:
            draft.memory.append(RegexesRefused(group.group_id, unmatched))
        if found.refreshed is not None:
            draft.memory.append(Refreshed(group.group_id, found.refreshed, now.at))
        return draft.decision(None)
