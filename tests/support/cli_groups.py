"""Groups for tests of the command line: the methods of admin.groups that it calls, over what a test puts there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from cli_fakes import FakeAdmin

from ottla.admin.group_info import (
    GroupEvent,
    GroupInfo,
    GroupLag,
    GroupMember,
    GroupSummary,
    OffsetReset,
    PartitionLag,
    ShardStatus,
)
from ottla.errors import ErrorCode, OttlaError, error_from_code
from ottla_core.model import TopicPartition


def member(name: str, *partitions: int, instance: str | None = None, host: str = "10.0.0.1") -> GroupMember:
    owned = tuple(TopicPartition("orders", n) for n in partitions)
    return GroupMember(name, instance, "app", host, ("orders",), owned, 45.0, 300.0)


@dataclass
class FakeGroup:
    members: list[GroupMember] = field(default_factory=list)
    committed: dict[TopicPartition, int] = field(default_factory=dict)
    lag: list[PartitionLag] = field(default_factory=list)
    events: list[GroupEvent] = field(default_factory=list)
    type: str = "classic"


class FakeGroups:
    """`calls` of the admin names what changed something; `failing` is raised by the next looks at a lag."""

    def __init__(self, admin: FakeAdmin, **groups: FakeGroup) -> None:
        self.admin = admin
        self.groups = groups
        self.failing: list[OttlaError] = []
        self.resets: tuple[OffsetReset, ...] = ()
        self.standings: Sequence[ShardStatus] = ()

    def list(self, *, states: Sequence[str] = ()) -> list[GroupSummary]:
        infos = [self.describe(name) for name in sorted(self.groups)]
        return [
            GroupSummary(g.name, g.state, g.protocol_type, len(g.members), g.coordinator, g.shard, g.type)
            for g in infos
            if not states or g.state in states
        ]

    def describe(self, name: str) -> GroupInfo:
        found = self._there(name)
        members = tuple(found.members)
        leader = members[0].member_id if members and found.type == "classic" else ""
        state = "Stable" if members else "Empty"
        return GroupInfo(name, state, "consumer", "range", 3, leader, members, 0, 1, found.type)

    def exists(self, name: str) -> bool:
        return name in self.groups

    def lag(self, name: str) -> GroupLag:
        if self.failing:
            raise self.failing.pop()
        return GroupLag(name, tuple(self._there(name).lag))

    def explain(self, name: str) -> tuple[GroupEvent, ...]:
        return tuple(self._there(name).events)

    def committed(self, name: str) -> dict[TopicPartition, int]:
        return self._there(name).committed

    def reset(self, name: str, **asked: Any) -> tuple[OffsetReset, ...]:
        self.admin.calls.append(("reset", name, asked))
        return self.resets

    def shards(self) -> Sequence[ShardStatus]:
        return self.standings

    def delete(self, name: str) -> None:
        self.admin.calls.append(("delete", name))
        del self.groups[name]

    def delete_offsets(self, name: str, *, partitions: Sequence[TopicPartition]) -> None:
        self.admin.calls.append(("delete_offsets", name, tuple(map(str, partitions))))

    def kick(self, name: str, member_id: str, *, reason: str) -> GroupMember:
        self.admin.calls.append(("kick", name, member_id, reason))
        return next(m for m in self.groups[name].members if m.member_id == member_id)

    def _there(self, name: str) -> FakeGroup:
        if name not in self.groups:
            raise error_from_code(
                ErrorCode.GROUP_ID_NOT_FOUND, f"the group {name!r} does not exist", hint="did you mean billing?"
            )
        return self.groups[name]
