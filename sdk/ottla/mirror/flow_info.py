"""How it is with a mirror's flows, and what became of groups that were moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from ottla.errors import OttlaError, error_from_code
from ottla_core.model import TopicPartition
from ottla_proto import mirror_pb2 as pb


@dataclass(frozen=True, slots=True)
class MirroredPartition:
    """A partition of the source, by `topic` and `partition`, and its copy, in the topic `copy` of the target.

    What lies before `position` in the source is in the copy. `lag` counts offsets from there to the end of what is
    committed, and `lag_s` is the age in seconds of the newest record that was copied, 0 without a lag; each is None
    where it is not known. `records` and `bytes` count since this mirror has it. `trouble` says why it is not copied.
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
    """A flow, such as `east->west`, and the partitions that the mirror which was asked copies of it.

    `delivery` is at_least_once or exactly_once, `policy` prefix or identity, `leads` whether this mirror creates topics
    and moves groups' offsets. `trouble` says why the flow stands still; `topics` and `groups` of each copy, and of each
    group, why it is not as it should be. Addresses are the clusters', as the mirror knows them.
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
        """All that is not as it should be, a sentence each."""
        if self.paused:
            yield f"{self.name} is paused; go on with: ottla mirror resume '{self.name}'"
        if self.trouble:
            yield f"{self.name} is in trouble: {self.trouble}"
        for partition in self.partitions:
            if partition.trouble:
                yield f"{self.name}: {partition.topic}-{partition.partition} is not copied: {partition.trouble}"
        for copy, trouble in self.topics.items():
            yield f"{self.name}: {copy}: {trouble}"
        for group, trouble in self.groups.items():
            yield f"{self.name}: {group} has not its offsets in the target: {trouble}"


@dataclass(frozen=True, slots=True)
class MovedPosition:
    """A group is at the offset `before` of `partition`, and goes on at the offset `after` of `to`, where it `had` one.

    It does not where there is an `obstacle`, in words; `after` is None where its place is not known.
    """

    partition: TopicPartition
    before: int
    to: TopicPartition
    after: int | None
    had: int | None = None
    obstacle: str = ""


@dataclass(frozen=True, slots=True)
class MovedGroup:
    """With an `error` nothing is moved."""

    group: str
    positions: Sequence[MovedPosition]
    error: OttlaError | None

    def troubles(self) -> Iterator[str]:
        """What of it does not go on in the other cluster, a sentence each."""
        if self.error is not None:
            yield f"{self.group} stays where it is: {self.error.message}"
        elif not self.positions:
            yield f"{self.group} stays where it is: it has committed nothing of what is copied"
        for position in self.positions:
            if position.obstacle:
                yield f"{self.group} does not go on in {position.to}: {position.obstacle}"


@dataclass(frozen=True, slots=True)
class MovedGroups:
    """What a failover or a failback has done, or would do. With `source_reached` False groups go on by their last
    checkpoints."""

    source_reached: bool
    groups: Sequence[MovedGroup]

    @classmethod
    def of(cls, response: pb.MoveGroupsResponse) -> Self:
        return cls(response.source_reached, [_moved(group) for group in response.groups])

    def troubles(self) -> Iterator[str]:
        """What does not go on in the other cluster, a sentence each."""
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
