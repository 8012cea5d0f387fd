"""DescribeGroups (key 15), versions 0 to 6: groups as their coordinators describe them.

v3 adds authorized operations (KIP-430); v4 group instance ids (KIP-345); v6 an error message (KIP-1043), and an error
for a group that does not exist, which is `Dead` before. A group of another type does not exist here: see
ConsumerGroupDescribe.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.errors import shortened
from ottla_broker.kafka.forwarding.described_groups import CLASSIC, described_groups, of_other_type
from ottla_broker.kafka.forwarding.group_calls import instance_id_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_broker.kafka.wire.metadata import NOT_REQUESTED
from ottla_core.errors import ErrorCode
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import DescribeGroupsRequest, DescribeGroupsResponse
from ottla_core.rpc.status import error_message
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Group: TypeAlias = DescribeGroupsResponse.DescribedGroup
_Member: TypeAlias = DescribeGroupsResponse.DescribedGroupMember

_NOT_FOUND_FROM: Final = 6


async def handle(backend: Backend, request: DescribeGroupsRequest, context: KafkaContext) -> DescribeGroupsResponse:
    described = await described_groups(backend, context.access, request.groups)

    def reported(entry: pb.GroupDescription) -> _Group:
        return _reported(entry, context, with_operations=request.include_authorized_operations)

    return DescribeGroupsResponse(groups=await sliced(reported, described))


def _reported(group: pb.GroupDescription, context: KafkaContext, *, with_operations: bool) -> _Group:
    if (mismatch := of_other_type(group, CLASSIC)) is not None:
        group = pb.GroupDescription(group=group.group, error=error_message(mismatch))
    version, code, state = context.version, group.error.code, group.state
    text = shortened(group.error.message) or None
    if code == ErrorCode.GROUP_ID_NOT_FOUND:
        state = "Dead"
        if version < _NOT_FOUND_FROM:
            code = 0
    is_shown = with_operations and group.error.code != ErrorCode.GROUP_AUTHORIZATION_FAILED
    return _Group(
        error_code=code,
        group_id=group.group,
        group_state=state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol,
        members=[_member(member) for member in group.members],
        error_message=text if version >= _NOT_FOUND_FROM else None,
        authorized_operations=context.access.operations(ResourceType.GROUP, group.group) if is_shown else NOT_REQUESTED,
        generation=group.generation,
        leader=group.leader,
        shard=group.shard,
        coordinator=group.coordinator,
    )


def _member(described: pb.MemberDescription) -> _Member:
    who = described.member
    return _Member(
        member_id=who.member_id,
        group_instance_id=instance_id_of(who),
        client_id=described.client_id,
        client_host=described.client_host,
        member_metadata=described.metadata,
        member_assignment=described.assignment,
        session_timeout_ms=described.session_timeout_ms,
        rebalance_timeout_ms=described.rebalance_timeout_ms,
    )


API: Final = control(
    DescribeGroupsRequest,
    (0, 6),
    handle,
    needs=needs((Operation.DESCRIBE, ResourceType.GROUP)),
    errors=error_codes.Errors(
        "schema (v6); KIP-1043: older versions describe the group as dead",
        error_codes.GROUP,
        {ErrorCode.GROUP_ID_NOT_FOUND: error_codes.Since(6, ErrorCode.NONE)},
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.DESCRIBE_GROUPS,
)
