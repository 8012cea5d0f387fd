"""Group.Join is Kafka's JoinGroup, which waits until all members have joined.

A new member gets its id together with MEMBER_ID_REQUIRED, and joins again with that id (KIP-394).
"""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import JOIN_GROUP, AnyApi
from ottla.client.kafka.translations.errors import error_of
from ottla.client.kafka.translations.groups import instance_id_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import JoinGroupRequest, JoinGroupResponse
from ottla_proto import group_pb2 as pb

_REASON_FROM: Final = 8


class JoinGroupTranslation:
    """Translates a member's subscription. The leader gets the subscriptions of all members back."""

    api: Final[AnyApi] = JOIN_GROUP

    def request(self, request: pb.JoinRequest, terms: Terms) -> JoinGroupRequest:
        return JoinGroupRequest(
            group_id=request.group,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            member_id=request.member.member_id,
            group_instance_id=instance_id_of(request.member),
            protocol_type=request.protocol_type,
            protocols=[
                JoinGroupRequest.JoinGroupRequestProtocol(name=protocol.name, metadata=protocol.metadata)
                for protocol in request.protocols
            ],
            reason=request.reason if terms.version >= _REASON_FROM else None,
        )

    def response(self, response: JoinGroupResponse, terms: Terms) -> pb.JoinResponse:
        return pb.JoinResponse(
            error=error_of(response.error_code, response.error_message),
            generation=response.generation_id,
            protocol_type=response.protocol_type or "",
            protocol=response.protocol_name or "",
            leader=response.leader,
            member_id=response.member_id,
            members=[
                pb.Subscriber(
                    member=pb.Member(member_id=member.member_id, instance_id=member.group_instance_id),
                    metadata=member.metadata,
                )
                for member in response.members
            ],
            skip_assignment=response.skip_assignment,
        )
