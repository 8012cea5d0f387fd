"""DeleteAcls (key 31), versions 1 to 3: each filter has its own result, with the ACLs that it matched (KIP-140).

Versions differ in encoding only.
"""

from __future__ import annotations

from functools import partial
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.needs import ALTER_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import (
    UNTIMED_S,
    error_fields,
    forward,
    reported_fields,
    until_known,
)
from ottla_broker.kafka.handlers.describe_acls import check_enabled, filter_of
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.cluster.acl_entries import acl_of, entry_of_filter
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import OttlaError
from ottla_core.event_loop.slices import Slice, sliced
from ottla_core.kafka.messages import DeleteAclsRequest, DeleteAclsResponse
from ottla_core.security.acl import Acl
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Result: TypeAlias = DeleteAclsResponse.DeleteAclsFilterResult
_Matched: TypeAlias = DeleteAclsResponse.DeleteAclsMatchingAcl


async def handle(backend: Backend, request: DeleteAclsRequest, context: KafkaContext) -> DeleteAclsResponse:
    try:
        check_enabled(context.access)
        context.access.check(Operation.ALTER)
        forwarded = pb.DeleteAclsRequest()
        await sliced(lambda each: forwarded.filters.append(entry_of_filter(filter_of(each))), request.filters)
        response = await forward(
            backend, Controller.DELETE_ACLS, forwarded, principal=context.caller.principal, limit_s=UNTIMED_S
        )
    except OttlaError as error:
        fields = error_fields(error)
        return DeleteAclsResponse(filter_results=await sliced(lambda _: _Result(**fields), request.filters))
    deleted = await sliced(acl_of, (entry for result in response.results for entry in result.acls))
    await until_known(backend, partial(_lacks, deleted))
    time_slice = Slice()
    return DeleteAclsResponse(
        filter_results=[
            _Result(**reported_fields(result.error), matching_acls=await sliced(_matched, result.acls, time_slice))
            for result in response.results
        ]
    )


def _matched(entry: pb.AclEntry) -> _Matched:
    return _Matched(
        error_message=None,
        resource_type=entry.resource_type,
        resource_name=entry.name,
        pattern_type=entry.pattern_type,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _lacks(acls: list[Acl], image: ClusterImage) -> bool:
    known = dict.fromkeys(image.acls.values())
    return not any(acl in known for acl in acls)


API: Final = control(
    DeleteAclsRequest,
    (1, 3),
    handle,
    needs=ALTER_CLUSTER,
    errors=error_codes.Errors(
        "DeleteAclsResponse; AclApis; AclControlManager",
        error_codes.ACLS | error_codes.CONTROLLER,
        instead=error_codes.LOST_CONTROLLER,
    ),
    forwards=Controller.DELETE_ACLS,
)
