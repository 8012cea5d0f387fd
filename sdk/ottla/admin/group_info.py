"""What admin.groups returns: groups, their members, their lag, and what has happened to them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from ottla.errors import OttlaError
from ottla_core.model import TopicPartition

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


@dataclass(frozen=True, slots=True)
class GroupSummary:
    """An entry in the list of groups. `protocol_type` is "consumer", "connect", …, or "" for a group without members.
    `type` is the group's protocol: "classic", or "consumer" for the new one (KIP-848).

    `coordinator` is the id of the group-coordinator that owns `shard`, the shard of the group. Kafka's clusters report
    neither (both are -1), and no number of `members` (0).
    """

    name: str
    state: str
    protocol_type: str
    members: int
    coordinator: int
    shard: int
    type: str = CLASSIC


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member. `instance_id` is the member's group.instance.id, or None for a dynamic member.

    `topics` are the subscribed topics and `partitions` the assigned partitions. Both are empty while a classic group
    rebalances, or if its members are not consumers. The timeouts are in seconds.

    Only members of a consumer group have values in the other fields. `epoch` is that of the member's assignment,
    `target` are the partitions that it is to have, and `revoking` those that it still has to give up. `state` is
    stable, unrevoked-partitions (it has to give up partitions) or unreleased-partitions (it waits for partitions of
    other members). Kafka's clusters report neither `state` nor `revoking`. `protocol` is "classic" or "consumer",
    because a group that changes its protocol has members of both.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    partitions: tuple[TopicPartition, ...]
    session_timeout: float
    rebalance_timeout: float
    epoch: int = -1
    state: str = ""
    target: tuple[TopicPartition, ...] = ()
    revoking: tuple[TopicPartition, ...] = ()
    topic_regex: str | None = None
    rack: str | None = None
    protocol: str = CLASSIC

    @property
    def name(self) -> str:
        """A name to display: the instance id, or the member id if the member has no instance id."""
        return self.instance_id or self.member_id


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """One group.

    `assignor` is the assignor that the members have agreed on, and `leader` is the id of the member that assigns
    partitions. `coordinator` is the id of the group-coordinator that owns `shard`, the shard of the group. Kafka's
    clusters do not report `generation`, `coordinator` and `shard` (all -1), `leader` (""), and the timeouts of members
    (0).

    In a group whose `type` is "consumer" the coordinator assigns, so there is no leader. `generation` is the epoch of
    the group, which its members reach one by one, and `assignment_epoch` is the epoch of its members' targets.
    """

    name: str
    state: str
    protocol_type: str
    assignor: str
    generation: int
    leader: str
    members: tuple[GroupMember, ...]
    coordinator: int
    shard: int
    type: str = CLASSIC
    assignment_epoch: int = -1

    @property
    def held_up(self) -> tuple[HeldPartitions, ...]:
        """The partitions that members of a consumer group still have, and for which other members wait."""
        wanted = {p: member for member in self.members for p in member.target if p not in member.partitions}
        held: dict[tuple[str, str], list[TopicPartition]] = {}
        for holder in self.members:
            for partition in dict.fromkeys((*holder.partitions, *holder.revoking)):
                waiting = wanted.get(partition)
                if waiting is not None and waiting is not holder:
                    held.setdefault((holder.name, waiting.name), []).append(partition)
        return tuple(HeldPartitions(*names, tuple(sorted(of))) for names, of in sorted(held.items()))


@dataclass(frozen=True, slots=True)
class HeldPartitions:
    """Partitions that the member `holder` has not given up yet, and for which the member `waiting` waits."""

    holder: str
    waiting: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in one partition at the time when the partition's leader was queried.

    `committed` is None if no offset is committed. `start` is the first offset in the log, and `end` is the offset of
    the next record to be written. `records` is the number of offsets from `committed` to `end`; the real number of
    records may be lower, because compaction and transactions leave gaps. `seconds` is the age of the oldest of these
    records, or 0 if the group has no lag. Kafka's clusters do not tell the age, so there it is None if the group has a
    lag. If the leader can't be queried, `error` says why, and `start`, `end`, `records` and `seconds` are None.
    `member_id` is "" if the partition is not assigned to a member.
    """

    topic: str
    partition: int
    committed: int | None
    start: int | None
    end: int | None
    records: int | None
    seconds: float | None
    oldest_unread_ms: int | None = None
    member_id: str = ""
    client_id: str = ""
    host: str = ""
    error: OttlaError | None = None


@dataclass(frozen=True, slots=True)
class ShardStatus:
    """The state of one shard of groups or of transactional ids, and the coordinator that owns it.

    A shard is a partition of __consumer_offsets, or of __transaction_state.

    `phase` is serving, fencing or loading, for `seconds` so far, or unowned; if it is unowned, `coordinator` and
    `next_offset` are None. `trouble` says why attempts to serve the shard have failed for seconds, or what its
    coordinator can't do in time. `unreadable` counts records that are damaged or of a kind that this release does not
    know; the coordinator lacks their content.
    """

    shard: int
    coordinator: int | None
    phase: str
    seconds: float
    next_offset: int | None
    trouble: str
    unreadable: int

    @property
    def is_good(self) -> bool:
        """Whether nothing needs repair; a load that makes progress counts as good."""
        return self.phase != "unowned" and not self.trouble and not self.unreadable


@dataclass(frozen=True, slots=True)
class GroupLag:
    """The lag of a group in each partition that it reads or has committed offsets for, by topic and number."""

    name: str
    partitions: tuple[PartitionLag, ...]

    @property
    def records(self) -> int:
        """The lag in records, summed over all partitions with a known lag."""
        return sum(partition.records or 0 for partition in self.partitions)

    @property
    def seconds(self) -> float | None:
        """The lag in seconds of the partition that is furthest behind.

        None means that the group is behind, and it is not known for how long, as in Kafka's clusters.
        """
        behind = [partition for partition in self.partitions if partition.records]
        ages = [partition.seconds for partition in behind if partition.seconds is not None]
        return max(ages) if ages else None if behind else 0.0


@dataclass(frozen=True, slots=True)
class GroupEvent:
    """An event in a group's history, and its cause. `timestamp` is in milliseconds.

    `kind` is joined, left, evicted, replaced (a static member came back), rebalance-began, generation (all members have
    joined), assigned (a rebalance has ended), migrated (the group changed its protocol) or loaded (another coordinator
    took over). In a consumer group it may also be target (the coordinator has assigned), revokes (a member has to give
    up partitions), waits (a member waits for partitions of others), reconciled (a member has its target) or settled
    (every member has its target), and `generation` is an epoch. `member_id` is "" if the event concerns no single
    member. `duration` (seconds) is 0 unless `kind` is assigned or settled, and `partitions_moved` unless it is assigned
    or target.
    """

    timestamp: int
    kind: str
    cause: str
    generation: int
    member_id: str = ""
    instance_id: str | None = None
    client_id: str = ""
    host: str = ""
    duration: float = 0.0
    partitions_moved: int = 0

    @property
    def datetime(self) -> datetime:
        """`timestamp` in UTC."""
        return datetime.fromtimestamp(self.timestamp / 1000, UTC)


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """The move of a partition's committed offset from `before` (None if no offset was committed) to `after`.

    `wanted` is the requested offset, and `after` is the offset nearest to it that the partition contains.
    """

    topic: str
    partition: int
    before: int | None
    after: int
    wanted: int

    @property
    def moved(self) -> int:
        """The number of offsets that the group moves forwards; negative if it will read records again.

        It is 0 if no offset was committed before.
        """
        return 0 if self.before is None else self.after - self.before
