"""ConsumerGroupDescribe (key 69), versions 0 to 1: groups of the consumer protocol, with their epochs and assignments
(KIP-848).

Version 1 adds the protocol of each member (KIP-1099). A group of another type counts as missing: see DescribeGroups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import shortened
from ottla_broker.kafka.forwarding.described_groups import CONSUMER, described_groups, of_other_type
from ottla_broker.kafka.forwarding.group_calls import instance_id_of, name_by_id
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.kafka.wire.metadata import NOT_REQUESTED
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from ottla_core.rpc.status import error_message
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Group: TypeAlias = ConsumerGroupDescribeResponse.DescribedGroup
_Member: TypeAlias = ConsumerGroupDescribeResponse.Member
_Assignment: TypeAlias = ConsumerGroupDescribeResponse.Assignment
_Topic: TypeAlias = ConsumerGroupDescribeResponse.TopicPartitions
_Names: TypeAlias = Mapping[bytes, str]

_SPEAKS_CLASSIC: Final = 0
_SPEAKS_CONSUMER: Final = 1


async def handle(
    backend: Backend, request: ConsumerGroupDescribeRequest, context: KafkaContext
) -> ConsumerGroupDescribeResponse:
    with_operations = request.include_authorized_operations
    time_slice = Slice()
    described = await described_groups(backend, context.access, request.group_ids)
    groups = [
        await _reported(backend, each, context, time_slice, with_operations=with_operations) for each in described
    ]
    return ConsumerGroupDescribeResponse(groups=groups)


async def _reported(
    backend: Backend, group: pb.GroupDescription, context: KafkaContext, time_slice: Slice, *, with_operations: bool
) -> _Group:
    access = context.access
    await time_slice.rest()
    names = {} if group.error.code else await _names(backend, group.members, time_slice)
    error = of_other_type(group, CONSUMER) or await _hidden(context, names)
    if error is not None or group.error.code:
        return _failed(group, group.error if error is None else error_message(error))
    return _Group(
        group_id=group.group,
        group_state=group.state,
        group_epoch=group.generation,
        assignment_epoch=group.assignment_epoch,
        assignor_name=group.assignor,
        members=await sliced(lambda member: _member(member, names), group.members, time_slice),
        authorized_operations=access.operations(ResourceType.GROUP, group.group) if with_operations else NOT_REQUESTED,
        shard=group.shard,
        coordinator=group.coordinator,
    )


def _failed(group: pb.GroupDescription, error: Error) -> _Group:
    return _Group(error_code=error.code, error_message=shortened(error.message) or None, group_id=group.group)


async def _names(backend: Backend, members: Sequence[pb.MemberDescription], time_slice: Slice) -> _Names:
    """Return the names of the topics in assignments and targets, by their ids. Deleted topics have none."""
    known: dict[bytes, str | None] = {}

    def note(member: pb.MemberDescription) -> None:
        has = member.consumer
        for part in (has.assigned, has.target, has.revoking):
            for topic in part.topics:
                if topic.topic_id not in known:
                    known[topic.topic_id] = name_by_id(backend, topic.topic_id)

    await sliced(note, members, time_slice)
    return {topic_id: name for topic_id, name in known.items() if name is not None}


async def _hidden(context: KafkaContext, names: _Names) -> OttlaError | None:
    """Return an error if the group has topics that the client may not describe. Kafka shows nothing of such a group."""
    if not await context.access.hidden(Operation.DESCRIBE, ResourceType.TOPIC, names.values()):
        return None
    return OttlaError(
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        "the group has topics that this principal may not describe",
        hint="log in as a principal that may describe all topics of the group",
    )


def _member(described: pb.MemberDescription, names: _Names) -> _Member:
    who, has = described.member, described.consumer
    return _Member(
        member_id=who.member_id,
        instance_id=instance_id_of(who),
        rack_id=has.rack if has.HasField("rack") else None,
        member_epoch=has.epoch,
        client_id=described.client_id,
        client_host=described.client_host,
        subscribed_topic_names=list(has.topics),
        subscribed_topic_regex=has.topic_regex if has.HasField("topic_regex") else None,
        assignment=_Assignment(topic_partitions=_topics(has.assigned, names)),
        target_assignment=_Assignment(topic_partitions=_topics(has.target, names)),
        member_type=_SPEAKS_CLASSIC if has.is_classic else _SPEAKS_CONSUMER,
        state=has.state,
        revoking=_topics(has.revoking, names),
        session_timeout_ms=described.session_timeout_ms,
        rebalance_timeout_ms=described.rebalance_timeout_ms,
    )


def _topics(partitions: pb.AssignedPartitions, names: _Names) -> list[_Topic]:
    return [
        _Topic(topic_id=topic.topic_id, topic_name=names[topic.topic_id], partitions=list(topic.partitions))
        for topic in partitions.topics
        if topic.topic_id in names
    ]


API: Final = control(
    ConsumerGroupDescribeRequest,
    (0, 1),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.GROUP), (Operation.DESCRIBE, ResourceType.TOPIC)),
    errors=error_codes.Errors(
        "schema; KafkaApis, handleConsumerGroupDescribe; KIP-848, KIP-1099",
        error_codes.GROUP | {ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.TOPIC_AUTHORIZATION_FAILED},
        instead=error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.DESCRIBE_GROUPS,
)
