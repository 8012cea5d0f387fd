"""SyncGroup (key 14), versions 0 to 5: waits at the coordinator until the leader has assigned.

v1 adds the throttle time; v3 the group instance id (KIP-345); v5 the protocol's type and name (KIP-559).
"""

from __future__ import annotations

from typing import Final

from kafka.protocol.consumer import SyncGroupResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.group_calls import JOIN_S, call, instance_of, member
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

_NAMES_PROTOCOL_FROM: Final = 5


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    version = context.version
    if version >= _NAMES_PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        return _failed(version, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    forwarded = pb.SyncRequest(
        group=request.group_id,
        member=member(request.member_id, instance_of(request)),
        generation=request.generation_id,
        protocol_type=getattr(request, "protocol_type", None) or "",
        protocol=getattr(request, "protocol_name", None) or "",
        assignments=await sliced(_assignment, request.assignments),
    )
    try:
        response = await call(backend, request.group_id, Group.SYNC, forwarded, limit_s=JOIN_S)
    except OttlaError as error:
        return _failed(version, error.code)
    if response.error.code:
        return _failed(version, response.error.code)
    return SyncGroupResponse(
        version=version,
        error_code=0,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol,
        assignment=response.assignment,
    )


def _assignment(entry: Message) -> pb.MemberAssignment:
    return pb.MemberAssignment(member_id=entry.member_id, assignment=entry.assignment)


def _failed(version: int, code: int) -> Message:
    return SyncGroupResponse(version=version, error_code=code, assignment=b"")
