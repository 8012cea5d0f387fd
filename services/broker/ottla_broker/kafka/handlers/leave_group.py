"""LeaveGroup (key 13), versions 0 to 5: members leave, or an administrator removes them.

v3 takes several, static ones by their instance ids (KIP-345); v5 adds a reason (KIP-800).
"""

from __future__ import annotations

from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import READ_GROUP
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.group_calls import call, instance_id_of, member
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import LeaveGroupRequest, LeaveGroupResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Member: TypeAlias = LeaveGroupResponse.MemberResponse

_SEVERAL_FROM: Final = 3


async def handle(backend: Backend, request: LeaveGroupRequest, context: KafkaContext) -> LeaveGroupResponse:
    version, forwarded = context.version, pb.LeaveRequest(group=request.group_id)
    if version >= _SEVERAL_FROM:
        named = {(entry.member_id, entry.group_instance_id): entry for entry in request.members}
        await sliced(lambda entry: forwarded.members.append(_leaver(entry)), named.values())
    else:
        forwarded.members.add(member=member(request.member_id, None))
    try:
        context.access.check(Operation.READ, ResourceType.GROUP, request.group_id)
        response = await call(backend, request.group_id, Group.LEAVE, forwarded)
    except OttlaError as error:
        return LeaveGroupResponse(error_code=error.code, members=[])
    code = response.error.code
    if version < _SEVERAL_FROM:
        code = code or next((left.error.code for left in response.members), 0)
        return LeaveGroupResponse(error_code=code)
    return LeaveGroupResponse(error_code=code, members=[_left(item) for item in response.members])


def _leaver(entry: LeaveGroupRequest.MemberIdentity) -> pb.Leaver:
    who = member(entry.member_id, entry.group_instance_id)
    return pb.Leaver(member=who, reason=entry.reason or "")


def _left(left: pb.Left) -> _Member:
    who = left.member
    return _Member(member_id=who.member_id, group_instance_id=instance_id_of(who), error_code=left.error.code)


API: Final = control(
    LeaveGroupRequest,
    (0, 5),
    handle,
    needs=READ_GROUP,
    errors=error_codes.Errors(
        "LeaveGroupResponse; KIP-345",
        error_codes.GROUP | {ErrorCode.UNKNOWN_MEMBER_ID},
        error_codes.static(3),
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.LEAVE,
)
