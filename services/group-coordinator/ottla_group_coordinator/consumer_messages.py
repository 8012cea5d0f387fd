"""Groups of the consumer protocol in the form of their contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE
from ottla_core.model import TopicId
from ottla_core.rpc.context import RequestContext
from ottla_group_coordinator.machines.consumer.group import ConsumerGroup
from ottla_group_coordinator.machines.consumer.member import JOINS, ConsumerMember
from ottla_group_coordinator.machines.consumer.partitions import Partitions
from ottla_group_coordinator.machines.consumer.requests import ConsumerHeartbeat, ConsumerHeartbeatAnswer, Reader
from ottla_group_coordinator.machines.consumer.settings import ConsumerSettings
from ottla_proto import group_pb2 as pb

CONSUMER: Final = "consumer"


def heartbeat_of(
    request: pb.ConsumerHeartbeatRequest, new_id: Callable[[], str], context: RequestContext
) -> ConsumerHeartbeat:
    """Return the request. `new_id` gives the id of a member that joins, and can't choose its own."""
    member, reader, member_id = request.member, None, request.member.member_id
    if not member_id and request.gives_no_id and request.member_epoch == JOINS:
        member_id = new_id()
    if request.HasField("reader"):
        reader = Reader(request.reader.principal, request.reader.host, request.reader.sees_unlisted)
    return ConsumerHeartbeat(
        member_id=member_id,
        epoch=request.member_epoch,
        instance_id=member.instance_id if member.HasField("instance_id") else None,
        rack=request.rack if request.HasField("rack") else None,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topics=frozenset(request.topics.names) if request.HasField("topics") else None,
        regex=request.topic_regex if request.HasField("topic_regex") else None,
        assignor=request.assignor if request.HasField("assignor") else None,
        owned=_partitions(request.owned) if request.HasField("owned") else None,
        client_id=request.client_id or context.client_id,
        client_host=request.client_host or context.client_host,
        reader=reader,
    )


def consumer_response(answer: ConsumerHeartbeatAnswer) -> pb.ConsumerHeartbeatResponse:
    return pb.ConsumerHeartbeatResponse(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.heartbeat_interval_ms,
        assignment=None if answer.assignment is None else _message(answer.assignment),
    )


def described_consumers(group: ConsumerGroup, settings: ConsumerSettings) -> pb.GroupDescription:
    return pb.GroupDescription(
        group=group.group_id,
        type=CONSUMER,
        state=group.state.value,
        protocol_type=PROTOCOL_TYPE,
        generation=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.assignor(settings.assignors),
        members=[_member(member, group, settings) for member in group.members.values()],
    )


def _member(member: ConsumerMember, group: ConsumerGroup, settings: ConsumerSettings) -> pb.MemberDescription:
    metadata, current = member.metadata, member.current
    session_timeout_ms = settings.session_timeout_ms
    if metadata.classic is not None:
        session_timeout_ms = metadata.classic.session_timeout_ms
    return pb.MemberDescription(
        member=pb.Member(member_id=member.member_id, instance_id=metadata.instance_id),
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=max(0, metadata.rebalance_timeout_ms),
        consumer=pb.ConsumerMember(
            epoch=member.epoch,
            rack=metadata.rack,
            topics=sorted(metadata.topics),
            topic_regex=metadata.regex or None,
            assigned=_message(current.assigned),
            target=_message(group.target(member.member_id)),
            is_classic=member.is_classic,
            state=current.state.value,
            revoking=_message(current.revoking),
        ),
    )


def _partitions(message: pb.AssignedPartitions) -> Partitions:
    found: dict[TopicId, frozenset[int]] = {}
    for topic in message.topics:
        topic_id = TopicId(topic.topic_id)
        found[topic_id] = found.get(topic_id, frozenset()) | frozenset(topic.partitions)
    return found


def _message(partitions: Mapping[TopicId, frozenset[int] | Mapping[int, int]]) -> pb.AssignedPartitions:
    topics = ((topic_id, sorted(numbers)) for topic_id, numbers in partitions.items() if numbers)
    return pb.AssignedPartitions(topics=[pb.AssignedTopic(topic_id=t, partitions=numbers) for t, numbers in topics])
