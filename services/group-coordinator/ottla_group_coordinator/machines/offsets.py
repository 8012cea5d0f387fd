"""Committed offsets: which commits are accepted, what a fetch returns, and what expires.

A commit is of a member in its generation (rule 46), or of no member if the group has none: a program that chooses its
partitions itself may use a group's name only to keep its position. A commit is for an existing topic, and keeps the
topic's id: what was committed in a topic that is gone means nothing in another one of that name, and goes. Offsets of a
group without members expire `offsets.retention.minutes` after the last of them left. Offsets of a topic that a living
group no longer reads expire as long after they were committed (KIP-211). They never expire while a transaction is open
on them (rule 50), or while a regular expression of the group has no matches yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla_core.cluster.image import Topic
from ottla_core.coordination.batches import size_limit
from ottla_core.coordination.shard import Entry, ShardDecision
from ottla_core.coordination.timers import Moment, TimerKey
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.model import TopicId, TopicPartition
from ottla_core.plural import counted
from ottla_group_coordinator.machines.consumer.commits import check_commit
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.membership import CallerIdentity, GroupSettings, check_generation, check_member
from ottla_group_coordinator.machines.records import CommittedOffset, OffsetKey, encode_key, encode_offset
from ottla_group_coordinator.machines.responses import illegal_generation, rebalance_in_progress
from ottla_group_coordinator.machines.states import GroupState
from ottla_group_coordinator.machines.transition import SessionTimer, session_ends_at

NO_GENERATION: Final = -1

_AT_ONCE_BYTES: Final = 1 << 18

Offsets = Mapping[TopicPartition, CommittedOffset]
Topics = Mapping[str, Topic]
"""The existing topics, by name."""


class ToCommit(NamedTuple):
    """`topic_id` is that of the topic that was read, if the client names it."""

    partition: TopicPartition
    offset: int
    leader_epoch: int
    metadata: str
    topic_id: TopicId | None = None


# ---- commit ---------------------------------------------------------------------------------------------------------


AnyGroup = Group | ConsumerGroup


def decide_commit(
    group: AnyGroup,
    identity: CallerIdentity,
    generation: int,
    requested: Sequence[ToCommit],
    topics: Topics,
    settings: GroupSettings,
    now: Moment,
    *,
    in_transaction: bool = False,
    but: Collection[TopicPartition] = (),
    knows_no_epochs: bool = False,
) -> ShardDecision[list[OttlaError | None]]:
    """Commit offsets. Return one outcome for each.

    All offsets that can be committed are committed together, except those of partitions in `but`, which do not change.
    A client that `knows_no_epochs` can't be a member of the consumer protocol.
    """
    timers: Mapping[TimerKey, float | None] = {}
    if isinstance(group, ConsumerGroup):
        named = ((topics.get(each.partition.topic), each.partition.partition) for each in requested)
        ids = ((topic.id, number) for topic, number in named if topic is not None)
        is_anonymous = in_transaction and generation < 0 and identity == CallerIdentity("")
        check_commit(
            group, identity.member_id, generation, ids, is_anonymous=is_anonymous, knows_no_epochs=knows_no_epochs
        )
    else:
        timers = _check_commit(group, identity, generation, now, in_transaction=in_transaction)
    outcomes = [check_topic(commit, topics) or _check_metadata(commit, settings) for commit in requested]
    records = tuple(
        Entry(
            encode_key(OffsetKey(group.group_id, commit.partition)),
            encode_offset(
                CommittedOffset(
                    commit.offset,
                    commit.leader_epoch,
                    commit.metadata,
                    now.wall_ms,
                    topic_id=topics[commit.partition.topic].id,
                )
            ),
        )
        for commit, rejected in zip(requested, outcomes, strict=True)
        if rejected is None and commit.partition not in but
    )
    return ShardDecision(outcomes, records, timers=timers)


def _check_commit(
    group: Group, identity: CallerIdentity, generation: int, now: Moment, *, in_transaction: bool
) -> Mapping[TimerKey, float | None]:
    """Raise if the caller may not commit (rules 46 and 47). Return the timer of the session that the commit extends.

    In a transaction the caller need not name a member, as clients older than KIP-447 do not: their producer is fenced
    by its transactional id. Nor does it matter whether the members of the generation know their assignment yet, as in
    Kafka: clients begin to use a new generation when they have joined it.
    """
    if generation < 0 and group.state is GroupState.EMPTY:
        return {}  # the identity does not matter: no member reads by the group's assignment
    if in_transaction and generation < 0 and identity == CallerIdentity(""):
        return {}
    if group.state is GroupState.EMPTY and not group.pending and group.generation == 0:
        raise illegal_generation(group.group_id, generation, NO_GENERATION)  # this shard has never had this group
    member = check_member(group, identity)
    check_generation(group, generation)
    # The new generation may have given the partition to another member, which this member learns from its assignment.
    if group.state is GroupState.COMPLETING_REBALANCE and not in_transaction:
        raise rebalance_in_progress(group.group_id)
    if member.joining is not None:
        return {}
    return {SessionTimer(group.group_id, member.member_id): session_ends_at(member, now)}


def check_topic(requested: ToCommit, topics: Topics) -> OttlaError | None:
    """Return why nothing can be committed in the partition. `topics` may be behind, so a later check may differ."""
    topic = topics.get(requested.partition.topic)
    if topic is None or not 0 <= requested.partition.partition < topic.partition_count:
        return OttlaError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"{requested.partition} does not exist",
            hint="the topic may have been deleted",
        )
    if requested.topic_id is not None and requested.topic_id != topic.id:
        return OttlaError(
            ErrorCode.UNKNOWN_TOPIC_ID,
            f"the offset for {requested.partition} belongs to an earlier topic of the same name",
            hint="start over in the new topic, as if nothing had been committed",
        )
    return None


def is_of_gone(partition: TopicPartition, committed: CommittedOffset, topics: Topics) -> bool:
    """Return whether the topic of the commit is gone, even if another topic has its name now. `topics` must not be
    behind."""
    topic = topics.get(partition.topic)
    return topic is None or (committed.topic_id is not None and committed.topic_id != topic.id)


def _check_metadata(requested: ToCommit, settings: GroupSettings) -> OttlaError | None:
    size_bytes = len(requested.metadata.encode())
    if size_bytes <= settings.offset_metadata_max_bytes:
        return None
    return OttlaError(
        ErrorCode.OFFSET_METADATA_TOO_LARGE,
        f"the offset of {requested.partition} has {size_bytes} bytes of metadata",
        hint=f"send at most {settings.offset_metadata_max_bytes} bytes (offset.metadata.max.bytes)",
    )


# ---- delete ---------------------------------------------------------------------------------------------------------


def decide_delete_offsets(
    group: AnyGroup, known: Collection[TopicPartition], requested: Sequence[TopicPartition]
) -> ShardDecision[list[OttlaError | None]]:
    """Delete offsets. Return one outcome for each. Offsets that a living group reads stay, and an offset that does not
    exist counts as deleted.

    `known` are the partitions in which something is committed, or pending.
    """
    reading = group.reading()
    if not group.is_empty and not group.is_consumers:
        raise non_empty(group.group_id, len(group.members))
    outcomes = [
        None
        if reading.topics is not None and partition.topic not in reading.topics
        else OttlaError(
            ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
            f"members of group {group.group_id} are subscribed to {partition.topic}",
            hint="stop these members, or subscribe them to other topics",
        )
        for partition in requested
    ]
    gone = [p for p, rejected in zip(requested, outcomes, strict=True) if rejected is None and p in known]
    return ShardDecision(outcomes, tombstones(group.group_id, gone))


def decide_delete_group(group: AnyGroup, known: Collection[TopicPartition]) -> ShardDecision[None]:
    if not group.is_empty:
        raise non_empty(group.group_id, len(group.members))
    return ShardDecision(None, (*tombstones(group.group_id, known), *group.tombstones()))


def non_empty(group: str, members: int) -> OttlaError:
    return OttlaError(
        ErrorCode.NON_EMPTY_GROUP,
        f"group {group} has {counted(members, 'member')}",
        hint="first stop or remove the members",
    )


# ---- time -----------------------------------------------------------------------------------------------------------


def expired(
    group: AnyGroup, offsets: Offsets, pending: Collection[TopicPartition], settings: GroupSettings, now: Moment
) -> tuple[Entry, ...]:
    """Return tombstones of the offsets that have expired, and after the last of them the group's.

    The first of these records may be written without the others, which come again. While a transaction is open,
    everything stays.
    """
    reading = group.reading()
    read = reading.topics
    if read is None or not reading.is_settled:
        return ()
    since_ms = reading.empty_since_ms
    gone = [
        partition
        for partition, committed in offsets.items()
        if partition.topic not in read and partition not in pending and _is_over(committed, since_ms, settings, now)
    ]
    records = tombstones(group.group_id, gone)
    goes = group.is_empty and not group.is_awaited and not pending and len(gone) == len(offsets)
    return (*records, *group.tombstones()) if goes and (gone or group.is_in_log) else records


def _is_over(committed: CommittedOffset, since_ms: int, settings: GroupSettings, now: Moment) -> bool:
    if committed.expires_at_ms is not None:
        return now.wall_ms >= committed.expires_at_ms
    return now.wall_ms - max(since_ms, committed.committed_at_ms) >= settings.offsets_retention_ms


class FirstRecords(NamedTuple):
    records: tuple[Entry, ...]
    are_all: bool


def first_of(records: Iterable[Entry]) -> FirstRecords:
    """Return as many records as are written at once. They are far fewer than a batch holds, because other requests
    write, too."""
    batch: list[Entry] = []
    size_bytes = 0
    for record in records:
        size_bytes += size_limit([record])
        if batch and size_bytes > _AT_ONCE_BYTES:
            return FirstRecords(tuple(batch), are_all=False)
        batch.append(record)
    return FirstRecords(tuple(batch), are_all=True)


def tombstones(group: str, partitions: Iterable[TopicPartition]) -> tuple[Entry, ...]:
    return tuple(Entry(encode_key(OffsetKey(group, partition)), None) for partition in partitions)
