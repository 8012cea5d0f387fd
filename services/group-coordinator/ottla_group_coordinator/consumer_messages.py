"""Translates groups of the consumer protocol to and from their contract."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from typing import Final

from ottla_core.kafka_formats.consumer_protocol import PROTOCOL_TYPE
from ottla_core.kafka_formats.primitives import MAX_ELEMENTS
from ottla_core.model import TopicId
from ottla_core.rpc.bounds import check_few
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
    """Return the request. `new_id` makes an id for a member that joins with version 0 and has none.

    Raises INVALID_REQUEST for too many elements.
    """
    member, has = request.member, request.HasField
    member_id, epoch = member.member_id, request.member_epoch
    if not member_id and request.gives_no_id and epoch == JOINS:
        member_id = new_id()
    has_topics, has_owned = has("topics"), has("owned")
    if has_topics or has_owned:
        _check_few(request)
    # The arguments have no names, because this is done for every heartbeat.
    return ConsumerHeartbeat(
        member_id,
        epoch,
        member.instance_id if member.HasField("instance_id") else None,
        request.rack if has("rack") else None,
        request.rebalance_timeout_ms,
        frozenset(request.topics.names) if has_topics else None,
        request.topic_regex if has("topic_regex") else None,
        request.assignor if has("assignor") else None,
        _partitions(request.owned) if has_owned else None,
        request.client_id or context.client_id,
        request.client_host or context.client_host,
        _reader(request.reader) if has("reader") else None,
    )


def _check_few(request: pb.ConsumerHeartbeatRequest) -> None:
    owned = request.owned.topics
    count = len(request.topics.names) + len(owned) + sum(len(topic.partitions) for topic in owned)
    check_few(count, "topics and partitions", MAX_ELEMENTS)


def _reader(reader: pb.ReaderOfTopics) -> Reader:
    return Reader(reader.principal, reader.host, reader.sees_unlisted)


def consumer_response(answer: ConsumerHeartbeatAnswer) -> pb.ConsumerHeartbeatResponse:
    response = pb.ConsumerHeartbeatResponse(
        member_id=answer.member_id, member_epoch=answer.epoch, heartbeat_interval_ms=answer.heartbeat_interval_ms
    )
    if answer.assignment is not None:
        response.assignment.CopyFrom(_message(answer.assignment))
    return response


def described_consumers(
    group: ConsumerGroup, settings: ConsumerSettings, after: str, most_bytes: int
) -> pb.GroupDescription:
    """Describe the group and its next members after `after`: at least one, until they take more than `most_bytes`."""
    member_ids = sorted(group.members)
    member_ids = member_ids[bisect_right(member_ids, after) :]
    members: list[pb.MemberDescription] = []
    for member_id in member_ids:
        members.append(_member(group.members[member_id], group, settings))
        most_bytes -= members[-1].ByteSize()
        if most_bytes < 0:
            break
    return pb.GroupDescription(
        group=group.group_id,
        type=CONSUMER,
        state=group.state.value,
        protocol_type=PROTOCOL_TYPE,
        generation=group.epoch,
        assignment_epoch=group.target_epoch,
        assignor=group.assignor(settings.assignors),
        members=members,
        has_more=len(members) < len(member_ids),
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
