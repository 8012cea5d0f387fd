"""Groups in the form of their contract."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Final

from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE, assigned_numbers
from ottla_core.model import TopicPartition
from ottla_core.rpc.status import error_message
from ottla_group_coordinator.consumer_messages import CONSUMER, described_consumers
from ottla_group_coordinator.lag import Lag
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import ConsumerMember
from ottla_group_coordinator.machines.group import Group
from ottla_group_coordinator.machines.history import HistoryEvent
from ottla_group_coordinator.machines.members import Member
from ottla_group_coordinator.machines.offsets import AnyGroup
from ottla_group_coordinator.machines.shard import GroupShard
from ottla_proto import group_pb2 as pb

CLASSIC: Final = "classic"


def listed(shard: GroupShard) -> list[pb.ListedGroup]:
    return [
        pb.ListedGroup(
            group=group.group_id,
            protocol_type=PROTOCOL_TYPE if isinstance(group, ConsumerGroup) else group.protocol_type,
            state=group.state.value,
            type=type_of(group),
            members=len(group.members),
        )
        for group in shard.groups()
    ]


def type_of(group: AnyGroup) -> str:
    return CONSUMER if isinstance(group, ConsumerGroup) else CLASSIC


def described(shard: GroupShard, group_ids: Sequence[str], after: str, most_bytes: int) -> list[pb.GroupDescription]:
    """Return descriptions of the named groups, in order, until they are larger than `most_bytes` together. That of the
    first one goes on behind the member `after`."""
    found: list[pb.GroupDescription] = []
    for group_id in group_ids:
        try:
            group = shard.group(group_id)
            if isinstance(group, ConsumerGroup):
                description = described_consumers(group, shard.settings.consumer.of(group_id), after, most_bytes)
            else:
                description = _described(group)
        except OttlaError as error:
            description = pb.GroupDescription(group=group_id, error=error_message(error))
        found.append(description)
        most_bytes, after = most_bytes - description.ByteSize(), ""
        if most_bytes <= 0 or description.has_more:
            break
    return found


def _described(group: Group) -> pb.GroupDescription:
    return pb.GroupDescription(
        group=group.group_id,
        type=CLASSIC,
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
    members: Iterable[Member | ConsumerMember], image: ClusterImage, time_slice: Slice
) -> dict[TopicPartition, Member | ConsumerMember]:
    """Return the member that reads each partition that exists. It is empty if the members don't speak the consumer
    protocol.

    A client may assign 100,000 numbers in 400 KB, so nothing is made of a number before it is known to be a
    partition's.
    """
    found: dict[TopicPartition, Member | ConsumerMember] = {}
    try:
        for member in members:
            for topic, numbers in _numbers(member, image):
                known = image.topics.get(topic)
                existing = () if known is None else [n for n in set(numbers) if 0 <= n < known.partition_count]
                found |= dict.fromkeys(await sliced(partial(TopicPartition, topic), existing, time_slice), member)
    except OttlaError:
        return {}
    return found


def _numbers(member: Member | ConsumerMember, image: ClusterImage) -> Iterator[tuple[str, Collection[int]]]:
    if isinstance(member, Member):
        yield from assigned_numbers(member.assignment)
        return
    # It reads what it has yet to give up.
    for partitions in (member.current.assigned, member.current.revoking):
        for topic_id, epochs in partitions.items():
            if (name := image.topic_names.get(topic_id)) is not None:
                yield name, epochs.keys()


def partition_lag(partition: TopicPartition, lag: Lag, member: Member | ConsumerMember | None) -> pb.PartitionLag:
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
