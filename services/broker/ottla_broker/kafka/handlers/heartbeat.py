"""Heartbeat (key 12), versions 0 to 4: keeps a member alive, and says whether it has to rejoin.

v1 adds the throttle time; v3 the group instance id (KIP-345).
"""

from __future__ import annotations

from kafka.protocol.consumer import HeartbeatResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.group_calls import call, instance_of, member
from ottla_core.errors import OttlaError
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    who = member(request.member_id, instance_of(request))
    forwarded = pb.HeartbeatRequest(group=request.group_id, member=who, generation=request.generation_id)
    try:
        response = await call(backend, request.group_id, Group.HEARTBEAT, forwarded)
    except OttlaError as error:
        return HeartbeatResponse(version=context.version, error_code=error.code)
    return HeartbeatResponse(version=context.version, error_code=response.error.code)
