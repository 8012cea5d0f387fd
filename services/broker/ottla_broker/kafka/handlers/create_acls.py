"""CreateAcls (key 30), versions 1 to 3: each ACL has its own result (KIP-140, patterns by KIP-290).

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
from ottla_broker.kafka.handlers.describe_acls import check_enabled
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.cluster.acl_entries import entry_of
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import CreateAclsRequest, CreateAclsResponse
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto.contracts import Controller
from ottla_proto.operation import Operation

_Result: TypeAlias = CreateAclsResponse.AclCreationResult


async def handle(backend: Backend, request: CreateAclsRequest, context: KafkaContext) -> CreateAclsResponse:
    try:
        check_enabled(context.access)
        context.access.check(Operation.ALTER)
        acls = await sliced(_acl, request.creations)
        forwarded = pb.CreateAclsRequest()
        await sliced(lambda acl: forwarded.acls.append(entry_of(acl)), acls)
        response = await forward(
            backend, Controller.CREATE_ACLS, forwarded, principal=context.caller.principal, limit_s=UNTIMED_S
        )
    except OttlaError as error:
        fields = error_fields(error)
        return CreateAclsResponse(results=await sliced(lambda _: _Result(**fields), request.creations))
    created = [acl for acl, error in zip(acls, response.results, strict=True) if not error.code]
    await until_known(backend, partial(_has, created))
    results = await sliced(lambda error: _Result(**reported_fields(error)), response.results)
    return CreateAclsResponse(results=results)


def _acl(creation: CreateAclsRequest.AclCreation) -> Acl:
    return Acl(
        ResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )


def _has(acls: list[Acl], image: ClusterImage) -> bool:
    known = dict.fromkeys(image.acls.values())
    return all(acl in known for acl in acls)


API: Final = control(
    CreateAclsRequest,
    (1, 3),
    handle,
    needs=ALTER_CLUSTER,
    errors=error_codes.Errors(
        "CreateAclsResponse; AclApis; AclControlManager",
        error_codes.ACLS | error_codes.CONTROLLER | {ErrorCode.POLICY_VIOLATION},
        instead=error_codes.LOST_CONTROLLER,
    ),
    forwards=Controller.CREATE_ACLS,
)
