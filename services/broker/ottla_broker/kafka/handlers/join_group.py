"""JoinGroup (key 11), versions 0 to 9: waits at the coordinator until the group is complete.

v1 adds the rebalance timeout (KIP-62); v4 requires a member id (KIP-394); v5 adds the group instance id (KIP-345); v7
the protocol type (KIP-559); v8 a reason (KIP-800); v9 lets the leader skip the assignment (KIP-814).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import READ_GROUP
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields, reported_fields
from ottla_broker.kafka.forwarding.group_calls import JOIN_S, call, host_of, instance_id_of, member
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import JoinGroupRequest, JoinGroupResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Member: TypeAlias = JoinGroupResponse.JoinGroupResponseMember

_MEMBER_ID_REQUIRED_FROM: Final = 4
_NO_PROTOCOL_FROM: Final = 7
_SKIPS_ASSIGNMENT_FROM: Final = 9


async def handle(backend: Backend, request: JoinGroupRequest, context: KafkaContext) -> JoinGroupResponse:
    version = context.version
    try:
        context.access.check(Operation.READ, ResourceType.GROUP, request.group_id)
        response = await call(
            backend, request.group_id, Group.JOIN, await _join_request(request, context), limit_s=JOIN_S
        )
    except OttlaError as error:
        return _failed(version, error_fields(error), request.member_id)
    if response.error.code:
        return _failed(version, reported_fields(response.error), response.member_id or request.member_id)
    return JoinGroupResponse(
        error_code=0,
        generation_id=response.generation,
        protocol_type=response.protocol_type,
        protocol_name=response.protocol,
        leader=response.leader,
        skip_assignment=version >= _SKIPS_ASSIGNMENT_FROM and response.skip_assignment,
        member_id=response.member_id,
        members=[_member(entry) for entry in response.members],
    )


async def _join_request(request: JoinGroupRequest, context: KafkaContext) -> pb.JoinRequest:
    version = context.version
    return pb.JoinRequest(
        group=request.group_id,
        member=member(request.member_id, request.group_instance_id),
        session_timeout_ms=max(0, request.session_timeout_ms),
        rebalance_timeout_ms=max(0, request.rebalance_timeout_ms),
        protocol_type=request.protocol_type,
        protocols=await sliced(lambda p: pb.Protocol(name=p.name, metadata=p.metadata), request.protocols),
        member_id_required=version >= _MEMBER_ID_REQUIRED_FROM,
        reason=request.reason or "",
        skips_assignment=version >= _SKIPS_ASSIGNMENT_FROM,
        client_id=context.client_id,
        client_host=host_of(context),
    )


def _member(subscriber: pb.Subscriber) -> _Member:
    who = subscriber.member
    return _Member(member_id=who.member_id, group_instance_id=instance_id_of(who), metadata=subscriber.metadata)


def _failed(version: int, error: Mapping[str, Any], member_id: str) -> JoinGroupResponse:
    no_protocol = None if version >= _NO_PROTOCOL_FROM else ""
    return JoinGroupResponse(**error, generation_id=-1, protocol_name=no_protocol, member_id=member_id)


API: Final = control(
    JoinGroupRequest,
    (0, 9),
    handle,
    needs=READ_GROUP,
    errors=error_codes.Errors(
        "GroupMetadataManager, classicGroupJoin; KIP-345, KIP-389, KIP-394",
        error_codes.GROUP
        | {
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            ErrorCode.INVALID_GROUP_ID,
            ErrorCode.UNKNOWN_MEMBER_ID,
            ErrorCode.INVALID_SESSION_TIMEOUT,
            ErrorCode.REBALANCE_IN_PROGRESS,
            ErrorCode.GROUP_MAX_SIZE_REACHED,
        },
        {ErrorCode.MEMBER_ID_REQUIRED: error_codes.Since(4, ErrorCode.UNKNOWN_MEMBER_ID), **error_codes.static(5)},
        error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.JOIN,
)
