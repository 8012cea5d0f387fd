"""LeaveGroup (key 13), versions 0 to 5: members leave, or an administrator removes them.

v3 takes several, static ones by their instance ids (KIP-345); v5 adds a reason (KIP-800).
"""

from __future__ import annotations

from typing import Final

from kafka.protocol.consumer import LeaveGroupResponse

from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.codec import Message
from ottla_broker.kafka.frames import KafkaContext
from ottla_broker.kafka.group_calls import call, instance_id_of, instance_of, member
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group

_Member: Final = LeaveGroupResponse.MemberResponse

_SEVERAL_FROM: Final = 3


async def handle(backend: Backend, request: Message, context: KafkaContext) -> Message:
    version = context.version
    if version >= _SEVERAL_FROM:
        named = {(entry.member_id, instance_of(entry)): entry for entry in request.members}
        leavers = await sliced(_leaver, named.values())
    else:
        leavers = [pb.Leaver(member=member(request.member_id, None))]
    try:
        response = await call(
            backend, request.group_id, Group.LEAVE, pb.LeaveRequest(group=request.group_id, members=leavers)
        )
    except OttlaError as error:
        return LeaveGroupResponse(version=version, error_code=error.code, members=[])
    code = response.error.code
    if version < _SEVERAL_FROM:
        code = code or next((left.error.code for left in response.members), 0)
        return LeaveGroupResponse(version=version, error_code=code)
    return LeaveGroupResponse(
        version=version, error_code=code, members=[_left(item, version) for item in response.members]
    )


def _leaver(entry: Message) -> pb.Leaver:
    who = member(entry.member_id, instance_of(entry))
    return pb.Leaver(member=who, reason=getattr(entry, "reason", None) or "")


def _left(left: pb.Left, version: int) -> Message:
    who = left.member
    return _Member(
        version=version, member_id=who.member_id, group_instance_id=instance_id_of(who), error_code=left.error.code
    )
