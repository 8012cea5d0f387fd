"""Heartbeat (key 12), versions 0 to 4: keeps a member alive, and says whether it has to rejoin.

v1 adds the throttle time; v3 the group instance id (KIP-345).
"""

from __future__ import annotations

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.group_calls import call, member
from ottla_core.errors import OttlaError
from ottla_core.kafka.messages import HeartbeatRequest, HeartbeatResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation


async def handle(backend: Backend, request: HeartbeatRequest, context: KafkaContext) -> HeartbeatResponse:
    who = member(request.member_id, request.group_instance_id)
    forwarded = pb.HeartbeatRequest(group=request.group_id, member=who, generation=request.generation_id)
    try:
        context.access.check(Operation.READ, ResourceType.GROUP, request.group_id)
        response = await call(backend, request.group_id, Group.HEARTBEAT, forwarded)
    except OttlaError as error:
        return HeartbeatResponse(error_code=error.code)
    return HeartbeatResponse(error_code=response.error.code)
