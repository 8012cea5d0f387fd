"""A group consumer's arguments, checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ottla.client.settings import one_of
from ottla.client.units import seconds
from ottla.consumer.group.listener import RebalanceListener
from ottla.consumer.start_offsets import checked_reset, checked_stop, checked_topics
from ottla.errors import config_error
from ottla.machines.assignors import ASSIGNORS, Assignor
from ottla.machines.membership import MemberSettings
from ottla.machines.metadata import TopicView
from ottla.machines.subscription import Reset

CommitMode = Literal["at_least_once", "at_most_once", "manual"]

AssignorLike = str | Assignor | type[Assignor]
"""The name of one of Kafka's assignors, or one of your own."""

COMMIT_MODES: Final = ("at_least_once", "at_most_once", "manual")

_GROUP_ONLY: Final = ("pattern", "group_instance_id", "on_assigned", "on_revoked", "on_lost", "listener")


@dataclass(frozen=True)
class GroupOptions:
    """A member's settings. Times in seconds; `stop` and `reset` as ReadingPlan has them."""

    group: str
    topics: tuple[str, ...]
    pattern: re.Pattern[str] | None
    commit: CommitMode
    auto_commit_interval_s: float
    assignors: tuple[Assignor, ...]
    member: MemberSettings
    listener: RebalanceListener
    reset: Reset
    stop: Any
    rack: str

    @property
    def cooperative(self) -> bool:
        """Whether members keep reading while they rebalance, which every assignor that may be chosen has to allow."""
        return all(assignor.cooperative for assignor in self.assignors)

    def wants(self, topic: TopicView) -> bool:
        """Return whether the pattern matches the topic's whole name."""
        matches = self.pattern is not None and self.pattern.fullmatch(topic.name) is not None
        return matches and not topic.is_internal and not topic.error


def group_options(topics: Sequence[str], settings: Mapping[str, Any], listener: RebalanceListener) -> GroupOptions:
    """Return the checked options. Raises ConfigError for invalid arguments."""
    group, pattern, start = settings["group"], settings["pattern"], settings["start"]
    if not isinstance(group, str) or not group:
        raise config_error(f"group={group!r} is not a group id", hint="pass a name that all members of the group share")
    if settings["partitions"] is not None:
        raise config_error("group= and partitions= can't be combined", hint="the group assigns the partitions")
    if start != "committed":
        raise config_error(
            f"group={group!r} and start={start!r} can't be combined: a group continues where it left off",
            hint="auto_offset_reset= sets where a new group begins; to start elsewhere, seek in on_assigned",
        )
    if pattern is not None and topics:
        raise config_error("topics and pattern= can't be combined", hint="include the names in the pattern")
    return GroupOptions(
        group,
        () if pattern is not None else checked_topics(topics),
        None if pattern is None else _compiled(pattern),
        one_of(settings["commit"], "commit", COMMIT_MODES),
        seconds(settings["auto_commit_interval"], "auto_commit_interval"),
        _assignors(settings["assignors"]),
        _member(settings),
        listener,
        checked_reset(settings["auto_offset_reset"], "committed"),
        checked_stop(settings["stop"]),
        settings["client_rack"],
    )


def check_no_group(settings: Mapping[str, Any]) -> None:
    """Raise ConfigError for arguments that mean nothing without a group."""
    for name in _GROUP_ONLY:
        if settings[name] is not None:
            raise config_error(f"{name}= needs a group", hint="pass group=, the id that all members share")


def _member(settings: Mapping[str, Any]) -> MemberSettings:
    instance_id = settings["group_instance_id"]
    if instance_id is not None and (not isinstance(instance_id, str) or not instance_id):
        raise config_error(
            f"group_instance_id={instance_id!r} is not a name", hint="pass a unique name for each member"
        )
    member = MemberSettings(
        seconds(settings["session_timeout"], "session_timeout"),
        seconds(settings["heartbeat_interval"], "heartbeat_interval"),
        seconds(settings["max_poll_interval"], "max_poll_interval"),
        instance_id,
    )
    if not 0 < member.heartbeat_interval_s < member.session_timeout_s:
        raise config_error(
            f"heartbeat_interval={member.heartbeat_interval_s:g} s is not between 0 and "
            f"session_timeout={member.session_timeout_s:g} s",
            hint="use a third of session_timeout, so that two heartbeats may be late",
        )
    if member.max_poll_interval_s <= 0:
        raise config_error(
            "max_poll_interval=0 is not valid", hint="pass the maximum time between two polls, in seconds"
        )
    return member


def _compiled(pattern: Any) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except (re.error, TypeError) as error:
        raise config_error(
            f"pattern={pattern!r} is not a regular expression: {error}",
            hint="see the documentation of Python's re module",
        ) from None


def _assignors(like: Any) -> tuple[Assignor, ...]:
    assignors = tuple(map(_assignor, [like] if isinstance(like, str | Assignor | type) else list(like)))
    if not assignors or len({assignor.name for assignor in assignors}) < len(assignors):
        raise config_error(f"assignors={like!r} is not valid", hint="pass at least one, and none more than once")
    return assignors


def _assignor(like: Any) -> Assignor:
    if isinstance(like, type) and issubclass(like, Assignor):
        return like()
    if isinstance(like, Assignor):
        return like
    return ASSIGNORS[one_of(like, "assignors", tuple(ASSIGNORS))]
