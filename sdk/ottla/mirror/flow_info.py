"""The state of a mirror's flows, and the results of moving groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from ottla.errors import OttlaError, error_from_code
from ottla_core.model import TopicPartition
from ottla_proto import mirror_pb2 as pb


@dataclass(frozen=True, slots=True)
class MirroredPartition:
    """A partition of the source (`topic` and `partition`) and its copy, which is in the target's topic `copy`.

    The copy contains every record before the source offset `position`. `lag` counts the offsets from `position` to the
    end of the source's committed records; `lag_s` is the age in seconds of the newest copied record, or 0 if `lag` is
    0. Any of these three is None if its value is not known. `records` and `bytes` count copied data since this mirror
    took over the partition. `trouble` says why the partition is not being copied.
    """

    topic: str
    partition: int
    copy: str
    position: int | None
    lag: int | None
    lag_s: float | None
    records: int
    bytes: int
    trouble: str

    @classmethod
    def of(cls, p: pb.PartitionMirrored) -> Self:
        return cls(
            p.topic,
            p.partition,
            p.copy,
            p.position if p.HasField("position") else None,
            p.lag if p.HasField("lag") else None,
            p.lag_ms / 1000 if p.HasField("lag_ms") else None,
            p.records,
            p.bytes,
            p.trouble,
        )


@dataclass(frozen=True, slots=True)
class FlowInfo:
    """A flow, such as `east->west`.

    `partitions` has every partition that any mirror copies. If the client calls one mirror, it has only the partitions
    of that mirror. `leads` says whether one of these mirrors creates topics and moves groups' offsets. `delivery` is
    at_least_once, exactly_once or same_offsets, and `policy` is prefix, identity or marked. `trouble` says why the flow
    makes no progress. `topics` and `groups` map each copied topic and each group that has a problem to its cause.
    `source_bootstrap` and `target_bootstrap` are the addresses that the mirror uses.
    """

    name: str
    source: str
    target: str
    group: str
    policy: str
    delivery: str
    leads: bool
    paused: bool
    trouble: str
    partitions: Sequence[MirroredPartition]
    topics: Mapping[str, str]
    groups: Mapping[str, str]
    source_bootstrap: Sequence[str]
    target_bootstrap: Sequence[str]

    @classmethod
    def of(cls, flow: pb.FlowStatus) -> Self:
        return cls(
            flow.name,
            flow.source,
            flow.target,
            flow.group,
            flow.policy,
            flow.delivery,
            flow.leads,
            flow.paused,
            flow.trouble,
            [MirroredPartition.of(p) for p in flow.partitions],
            {topic.copy: topic.trouble for topic in flow.topics},
            {group.group: group.trouble for group in flow.groups},
            list(flow.source_bootstrap),
            list(flow.target_bootstrap),
        )

    def troubles(self) -> Iterator[str]:
        """Yield one sentence for each problem of the flow."""
        if self.paused:
            yield f"{self.name} is paused; resume it with: ottla mirror resume '{self.name}'"
        if self.trouble:
            yield f"{self.name} makes no progress: {self.trouble}"
        for partition in self.partitions:
            if partition.trouble:
                yield f"{self.name}: {partition.topic}-{partition.partition} is not copied: {partition.trouble}"
        for copy, trouble in self.topics.items():
            yield f"{self.name}: {copy}: {trouble}"
        for group, trouble in self.groups.items():
            yield f"{self.name}: {group} does not have its offsets in the target: {trouble}"


@dataclass(frozen=True, slots=True)
class MovedPosition:
    """The move of a group's position from offset `before` in `partition` to offset `after` in `to`.

    `had` is the offset that the group had committed in `to` before the move. If `obstacle` is set, it says why the
    offset is not moved. `after` is None if the corresponding offset is not known.
    """

    partition: TopicPartition
    before: int
    to: TopicPartition
    after: int | None
    had: int | None = None
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """A group that a failover or failback moves, and its positions.

    If `error` is set, none of its offsets are moved.
    """

    group: str
    positions: Sequence[MovedPosition]
    error: OttlaError | None

    def troubles(self) -> Iterator[str]:
        """Yield a sentence for each problem that keeps the group from continuing in the other cluster."""
        if self.error is not None:
            yield f"{self.group} is not moved: {self.error.message}"
        elif not self.positions:
            yield f"{self.group} is not moved: it has committed no offsets in the copied partitions"
        for position in self.positions:
            if position.obstacle:
                yield f"{self.group} cannot continue in {position.to}: {position.obstacle}"


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """The result of a failover or failback, or of a dry run.

    If `source_reached` is False, groups continue from their last checkpoints.
    """

    source_reached: bool
    groups: Sequence[MovedGroup]

    @classmethod
    def of(cls, response: pb.MoveGroupsResponse) -> Self:
        return cls(response.source_reached, [_moved(group) for group in response.groups])

    def troubles(self) -> Iterator[str]:
        """Yield a sentence for each problem that keeps a group from continuing in the other cluster."""
        for group in self.groups:
            yield from group.troubles()


def _moved(group: pb.GroupMoved) -> MovedGroup:
    positions = [
        MovedPosition(
            TopicPartition(at.topic, at.partition),
            at.before,
            TopicPartition(at.to_topic, at.partition),
            at.after if at.HasField("after") else None,
            at.had if at.HasField("had") else None,
            at.obstacle,
        )
        for at in group.positions
    ]
    error = error_from_code(group.error.code, group.error.message) if group.error.code else None
    return MovedGroup(group.group, positions, error)
