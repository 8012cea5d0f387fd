"""Group.Leave is Kafka's LeaveGroup."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import LEAVE_GROUP, AnyApi
from ottla.client.kafka.translations.groups import instance_id_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import LeaveGroupRequest, LeaveGroupResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

_REASON_FROM: Final = 5
"""From this version on a member says why it leaves (KIP-800)."""


class LeaveGroupTranslation:
    """Translates the departure or removal of members, with an outcome for each."""

    api: Final[AnyApi] = LEAVE_GROUP

    def request(self, request: pb.LeaveRequest, terms: Terms) -> LeaveGroupRequest:
        members = [
            LeaveGroupRequest.MemberIdentity(
                member_id=leaver.member.member_id,
                group_instance_id=instance_id_of(leaver.member),
                reason=leaver.reason if terms.version >= _REASON_FROM else None,
            )
            for leaver in request.members
        ]
        return LeaveGroupRequest(group_id=request.group, members=members)

    def response(self, response: LeaveGroupResponse, terms: Terms) -> pb.LeaveResponse:
        members = [
            pb.Left(
                member=pb.Member(member_id=left.member_id, instance_id=left.group_instance_id),
                error=Error(code=left.error_code),
            )
            for left in response.members
        ]
        return pb.LeaveResponse(error=Error(code=response.error_code), members=members)
