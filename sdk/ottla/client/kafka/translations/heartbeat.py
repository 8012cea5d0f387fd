"""Group.Heartbeat is Kafka's Heartbeat."""

from __future__ import annotations

from typing import Final

from ottla.client.kafka.apis import HEARTBEAT, AnyApi
from ottla.client.kafka.translations.groups import instance_id_of
from ottla.client.kafka.translations.translation import Terms
from ottla_core.kafka.messages import HeartbeatRequest, HeartbeatResponse
from ottla_proto import group_pb2 as pb
from ottla_proto.common_pb2 import Error


class HeartbeatTranslation:
    """Translates a heartbeat. The response says whether the member has to join again."""

    api: Final[AnyApi] = HEARTBEAT

    def request(self, request: pb.HeartbeatRequest, terms: Terms) -> HeartbeatRequest:
        return HeartbeatRequest(
            group_id=request.group,
            generation_id=request.generation,
            member_id=request.member.member_id,
            group_instance_id=instance_id_of(request.member),
        )

    def response(self, response: HeartbeatResponse, terms: Terms) -> pb.HeartbeatResponse:
        return pb.HeartbeatResponse(error=Error(code=response.error_code))
