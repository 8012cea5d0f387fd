"""Heartbeat (key 12), versions 0 to 4: keeps a member alive, and says whether it has to rejoin.

v1 adds the throttle time; v3 the group instance id (KIP-345).
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import READ_GROUP
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.group_calls import call, member
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
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


API: Final = control(
    HeartbeatRequest,
    (0, 4),
    handle,
    needs=READ_GROUP,
    errors=error_codes.Errors(
        "GroupCoordinatorService, heartbeat: a loading coordinator responds without a check; KIP-345",
        error_codes.COORDINATOR - {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        | {
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.REBALANCE_IN_PROGRESS,
        },
        error_codes.static(3),
        {**error_codes.COORDINATORS_LOG, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.NONE},
    ),
    forwards=Group.HEARTBEAT,
)
