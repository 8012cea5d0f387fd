"""Group.DescribeGroups is Kafka's DescribeGroups.

Brokers of ottla add the generation, the leader, the shard and the coordinator of a group, and the timeouts of its
members, in private fields. Before version 6 a group that does not exist has the state "Dead", and no error.
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import DESCRIBE_GROUPS, AnyApi
from ottla.client.kafka.translations.translation import Terms
from ottla.errors import ErrorCode
from ottla_core.kafka.messages import DescribeGroupsRequest, DescribeGroupsResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

_DEAD: Final = "Dead"


class DescribeGroupsTranslation:
    """Translates a request for what the coordinator knows of some groups."""

    api: Final[AnyApi] = DESCRIBE_GROUPS

    def request(self, request: pb.DescribeGroupsRequest, terms: Terms) -> DescribeGroupsRequest:
        return DescribeGroupsRequest(groups=list(request.groups))

    def response(self, response: DescribeGroupsResponse, terms: Terms) -> pb.DescribeGroupsResponse:
        return pb.DescribeGroupsResponse(groups=map(_group, response.groups))


def _group(group: DescribeGroupsResponse.DescribedGroup) -> pb.GroupDescription:
    error = Error(code=group.error_code, message=group.error_message or "")
    if group.group_state == _DEAD and not error.code:
        error = Error(code=ErrorCode.GROUP_ID_NOT_FOUND, message=f"the group {group.group_id} does not exist")
    return pb.GroupDescription(
        error=error,
        group=group.group_id,
        state=group.group_state,
        protocol_type=group.protocol_type,
        protocol=group.protocol_data,
        generation=group.generation,
        leader=group.leader,
        members=map(_member, group.members),
        shard=group.shard,
        coordinator=group.coordinator,
    )


def _member(member: DescribeGroupsResponse.DescribedGroupMember) -> pb.MemberDescription:
    return pb.MemberDescription(
        member=pb.Member(member_id=member.member_id, instance_id=member.group_instance_id),
        client_id=member.client_id,
        client_host=member.client_host,
        metadata=member.member_metadata,
        assignment=member.member_assignment,
        session_timeout_ms=max(0, member.session_timeout_ms),
        rebalance_timeout_ms=max(0, member.rebalance_timeout_ms),
    )
