"""DeleteGroups (key 42), versions 0 to 3: groups without members, each with its own result (KIP-229).

v3 adds an error message.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import needs
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields, reported_fields
from ottla_broker.kafka.forwarding.group_calls import GROUPS_AT_ONCE, call
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import few_at_once, sliced
from ottla_core.kafka.messages import DeleteGroupsRequest, DeleteGroupsResponse
from ottla_core.security.resource import ResourceType
from ottla_proto import group_pb2 as pb
from ottla_proto.contracts import Group
from ottla_proto.operation import Operation

_Result: TypeAlias = DeleteGroupsResponse.DeletableGroupResult


async def handle(backend: Backend, request: DeleteGroupsRequest, context: KafkaContext) -> DeleteGroupsResponse:
    names = list(dict.fromkeys(request.groups_names))
    denied = await context.access.denied(Operation.DELETE, ResourceType.GROUP, names)
    allowed = [name for name in names if name not in denied]
    results = await few_at_once(partial(_delete, backend), allowed, at_once=GROUPS_AT_ONCE)
    rejected = await sliced(lambda entry: _Result(group_id=entry[0], **error_fields(entry[1])), denied.items())
    return DeleteGroupsResponse(results=[*results, *rejected])


async def _delete(backend: Backend, group: str) -> _Result:
    try:
        response = await call(backend, group, Group.DELETE_GROUPS, pb.DeleteGroupsRequest(groups=[group]))
    except OttlaError as error:
        return _Result(group_id=group, **error_fields(error))
    of_group = next((entry.error for entry in response.groups), response.error)
    return _Result(group_id=group, **reported_fields(response.error if response.error.code else of_group))


API: Final = control(
    DeleteGroupsRequest,
    (0, 3),
    handle,
    needs=needs((Operation.DELETE, ResourceType.GROUP)),
    errors=error_codes.Errors(
        "DeleteGroupsResponse",
        error_codes.GROUP | {ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND},
        instead=error_codes.COORDINATORS_LOG,
    ),
    forwards=Group.DELETE_GROUPS,
)
