"""DescribeAcls (key 29), versions 1 to 3: the ACLs that match a filter (KIP-140, patterns by KIP-290).

Without an authorizer the response is that of such a Kafka, and MirrorMaker 2 leaves ACLs alone. Versions differ in
encoding only.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from typing import Final, TypeAlias

from ottla_broker.kafka import error_codes
from ottla_broker.kafka.authorization.access import Access
from ottla_broker.kafka.authorization.needs import DESCRIBE_CLUSTER
from ottla_broker.kafka.backend import Backend
from ottla_broker.kafka.forwarding.controller_calls import error_fields
from ottla_broker.kafka.handling import control
from ottla_broker.kafka.wire.frames import KafkaContext
from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.event_loop.slices import sliced
from ottla_core.kafka.messages import DeleteAclsRequest, DescribeAclsRequest, DescribeAclsResponse
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation

_Resource: TypeAlias = DescribeAclsResponse.DescribeAclsResource


async def handle(backend: Backend, request: DescribeAclsRequest, context: KafkaContext) -> DescribeAclsResponse:
    wanted = filter_of(request)
    try:
        check_enabled(context.access)
        context.access.check(Operation.DESCRIBE)
        wanted.check()
    except OttlaError as error:
        return DescribeAclsResponse(**error_fields(error), resources=[])
    acls = list(backend.image.acls.values())
    matched = compress(acls, await sliced(wanted.matches, acls))
    return DescribeAclsResponse(error_message=None, resources=_resources(matched))


def check_enabled(access: Access) -> None:
    """Raise SECURITY_DISABLED if requests are checked against no ACLs."""
    if not access.is_limited:
        raise OttlaError(
            ErrorCode.SECURITY_DISABLED,
            "this cluster has no ACLs: no authorizer is configured",
            hint="set authorizer_class_name in the settings of all brokers",
        )


def filter_of(wanted: DescribeAclsRequest | DeleteAclsRequest.DeleteAclsFilter) -> AclFilter:
    """Return the filter of a request. A code that this release does not know is UNKNOWN."""
    return AclFilter(
        ResourceType(wanted.resource_type_filter),
        wanted.resource_name_filter,
        PatternType(wanted.pattern_type_filter),
        wanted.principal_filter,
        wanted.host_filter,
        Operation(wanted.operation),
        Permission(wanted.permission_type),
    )


def _resources(acls: Iterable[Acl]) -> list[_Resource]:
    """Return the ACLs by the patterns of their resources."""
    by_pattern: dict[tuple[ResourceType, str, PatternType], list[DescribeAclsResponse.AclDescription]] = {}
    for acl in acls:
        described = DescribeAclsResponse.AclDescription(
            principal=acl.principal, host=acl.host, operation=acl.operation, permission_type=acl.permission
        )
        by_pattern.setdefault((acl.resource_type, acl.name, acl.pattern_type), []).append(described)
    return [
        _Resource(resource_type=resource_type, resource_name=name, pattern_type=pattern_type, acls=described)
        for (resource_type, name, pattern_type), described in by_pattern.items()
    ]


API: Final = control(
    DescribeAclsRequest,
    (1, 3),
    handle,
    needs=DESCRIBE_CLUSTER,
    errors=error_codes.Errors("DescribeAclsResponse; AclApis", error_codes.ACLS),
)
