"""SyncGroup (key 14), versions 0 to 5: waits at the coordinator until the leader has assigned.

v1 adds the throttle time; v3 the group instance id (KIP-345); v5 the protocol's type and name (KIP-559).
"""

from __future__ import annotations

from typing import Final

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import READ_GROUP
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.group_calls import JOIN_S, call, member
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import SyncGroupRequest, SyncGroupResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_NAMES_PROTOCOL_FROM: Final = 5


async def handle(backend: Backend, request: SyncGroupRequest, context: KafkaContext) -> SyncGroupResponse:
    if context.version >= _NAMES_PROTOCOL_FROM and None in (request.protocol_type, request.protocol_name):
        return _failed(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    forwarded = pb.SyncRequest(
        group=request.group_id,
        member=member(request.member_id, request.group_instance_id),
        generation=request.generation_id,
        protocol_type=request.protocol_type or "",
        protocol=request.protocol_name or "",
        assignments=await sliced(_assignment, request.assignments),
    )
    try:
        context.access.check(Operation.READ, ResourceType.GROUP, request.group_id)
        response = await call(backend, request.group_id, Group.SYNC, forwarded, limit_s=JOIN_S)
    except OttlaError as error:
        return _failed(error.code)
    if response.error.code:
        return _failed(response.error.code)
    return SyncGroupResponse(
        error_code=0,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol,
        assignment=response.assignment,
    )


def _assignment(entry: SyncGroupRequest.SyncGroupRequestAssignment) -> pb.MemberAssignment:
    return pb.MemberAssignment(member_id=entry.member_id, assignment=entry.assignment)


def _failed(code: int) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=code, assignment=b"")


API: Final = control(
    SyncGroupRequest,
    (0, 5),
    handle,
    needs=READ_GROUP,
    errors=error_codes.Errors(
        "GroupCoordinatorService, syncGroup: a coordinator that is loading no longer knows the rebalance; KIP-345, "
        "KIP-559",
        error_codes.COORDINATOR - {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        | {
            ErrorCode.GROUP_AUTHORIZATION_FAILED,
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.ILLEGAL_GENERATION,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.REBALANCE_IN_PROGRESS,
            # Kafka responds UNKNOWN_SERVER_ERROR. No client acts on either code, and this one says what is wrong.
            ErrorCode.RECORD_LIST_TOO_LARGE,
        },
        error_codes.static(3),
        {**error_codes.COORDINATORS_LOG, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: ErrorCode.REBALANCE_IN_PROGRESS},
    ),
    forwards=Group.SYNC,
)
