"""Groups in the form of their contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from ottla_core.cluster.image import Topic
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka_formats.consumer_protocol import assigned_numbers
from ottla_core.model import TopicPartition
from ottla_core.rpc.status import error_message
from ottla_group_coordinator.lag import Lag
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import HistoryEvent
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_proto import group_pb2 as pb

CLASSIC: Final = "classic"


def listed(shard: GroupShard) -> list[pb.ListedGroup]:
    return [
        pb.ListedGroup(
            group=group.group_id,
            protocol_type=group.protocol_type,
            state=group.state.value,
            type=CLASSIC,
            members=len(group.members),
        )
        for group in shard.groups()
    ]


def described(shard: GroupShard, group_ids: Sequence[str], most_bytes: int) -> list[pb.GroupDescription]:
    """Return descriptions of the named groups, in order, until they are larger than `most_bytes` together."""
    found: list[pb.GroupDescription] = []
    for group_id in group_ids:
        try:
            description = _described(shard.group(group_id))
        except OttlaError as error:
            description = pb.GroupDescription(group=group_id, error=error_message(error))
        found.append(description)
        most_bytes -= description.ByteSize()
        if most_bytes <= 0:
            break
    return found


def _described(group: Group) -> pb.GroupDescription:
    return pb.GroupDescription(
        group=group.group_id,
        state=group.state.value,
        protocol_type=group.protocol_type,
        protocol=group.protocol or "",
        generation=group.generation,
        leader=group.leader or "",
        members=[
            pb.MemberDescription(
                member=pb.Member(member_id=m.member_id, instance_id=m.instance_id),
                client_id=m.client_id,
                client_host=m.client_host,
                metadata=m.metadata(group.protocol),
                assignment=m.assignment,
                session_timeout_ms=m.session_timeout_ms,
                rebalance_timeout_ms=m.rebalance_timeout_ms,
            )
            for m in group.members.values()
        ],
    )


def event(of: HistoryEvent) -> pb.GroupEvent:
    return pb.GroupEvent(
        at_ms=of.at_ms,
        kind=of.kind.value,
        member=pb.Member(member_id=of.member_id, instance_id=of.instance_id),
        client_id=of.client_id,
        client_host=of.client_host,
        generation=of.generation,
        cause=of.cause,
        duration_ms=of.duration_ms,
        partitions_moved=of.moved,
    )


async def assigned(
    members: Iterable[Member], topics: Mapping[str, Topic], time_slice: Slice
) -> dict[TopicPartition, Member]:
    """Return the member that reads each partition that exists. It is empty if the members don't speak the consumer
    protocol.

    A client may assign 100,000 numbers in 400 KB, so nothing is made of a number before it is known to be a
    partition's.
    """
    found: dict[TopicPartition, Member] = {}
    try:
        for member in members:
            for topic, numbers in assigned_numbers(member.assignment):
                known = topics.get(topic)
                existing = () if known is None else [n for n in set(numbers) if 0 <= n < known.partition_count]
                found |= dict.fromkeys(await sliced(partial(TopicPartition, topic), existing, time_slice), member)
    except OttlaError:
        return {}
    return found


def partition_lag(partition: TopicPartition, lag: Lag, member: Member | None) -> pb.PartitionLag:
    shown = pb.PartitionLag(
        topic=partition.topic,
        partition=partition.partition,
        error=None if lag.error is None else error_message(lag.error),
        committed=lag.committed,
        log_start_offset=lag.log_start_offset,
        log_end_offset=lag.log_end_offset,
        records=lag.records,
        oldest_unread_ms=lag.oldest_unread_ms,
    )
    if member is not None:
        shown.member_id, shown.client_id, shown.client_host = member.member_id, member.client_id, member.client_host
    return shown
