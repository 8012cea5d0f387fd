"""Group.Sync is Kafka's SyncGroup, which waits until the leader has assigned."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import SYNC_GROUP, AnyApi
from ottla.client.kafka.translations.groups import instance_id_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import SyncGroupRequest, SyncGroupResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error

_NAMES_PROTOCOL_FROM: Final = 5


class SyncGroupTranslation:
    """Translates the leader's assignments. Each member gets its own assignment back."""

    api: Final[AnyApi] = SYNC_GROUP

    def request(self, request: pb.SyncRequest, terms: Terms) -> SyncGroupRequest:
        names_protocol = terms.version >= _NAMES_PROTOCOL_FROM
        return SyncGroupRequest(
            group_id=request.group,
            generation_id=request.generation,
            member_id=request.member.member_id,
            group_instance_id=instance_id_of(request.member),
            protocol_type=request.protocol_type if names_protocol else None,
            protocol_name=request.protocol if names_protocol else None,
            assignments=[
                SyncGroupRequest.SyncGroupRequestAssignment(member_id=each.member_id, assignment=each.assignment)
                for each in request.assignments
            ],
        )

    def response(self, response: SyncGroupResponse, terms: Terms) -> pb.SyncResponse:
        return pb.SyncResponse(
            error=Error(code=response.error_code),
            protocol_type=response.protocol_type or "",
            protocol=response.protocol_name or "",
            assignment=response.assignment,
        )
