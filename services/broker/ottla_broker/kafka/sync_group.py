"""SyncGroup: it waits at the coordinator until the leading member has assigned."""

from __future__ import annotations

from kafka.protocol.consumer import SyncGroupResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import Request
from ottla_broker.kafka.group_calls import JOIN_S, call, code_of, instance_of, member
from ottla_core.errors import OttlaError
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group


async def answer(backend: Backend, asked: Message, request: Request) -> Message:
    version = request.version
    wanted = pb.SyncRequest(
        group=asked.group_id,
        member=member(asked.member_id, instance_of(asked)),
        generation=asked.generation_id,
        protocol_type=getattr(asked, "protocol_type", None) or "",
        protocol=getattr(asked, "protocol_name", None) or "",
        assignments=[pb.MemberAssignment(member_id=a.member_id, assignment=a.assignment) for a in asked.assignments],
    )
    try:
        reply = await call(backend, asked.group_id, Group.SYNC, wanted, limit_s=JOIN_S)
    except OttlaError as error:
        return SyncGroupResponse(version=version, error_code=code_of(error), assignment=b"")
    if reply.error.code:
        return SyncGroupResponse(version=version, error_code=code_of(reply.error), assignment=b"")
    return SyncGroupResponse(
        version=version,
        error_code=0,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        assignment=reply.assignment,
    )
