"""ACLs are described from this broker's metadata, and the controller creates and deletes them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest
from images import image_of

from ottla_broker.kafka.authorization.access import EVERYTHING, Access
from ottla_broker.kafka.handlers import create_acls, delete_acls, describe_acls
from ottla_broker.kafka.wire.frames import Caller, KafkaContext
from ottla_core.cluster.acl_entries import acl_of, entry_of, filter_of
from ottla_core.cluster.image import ClusterImage
from ottla_core.errors import ErrorCode
from ottla_core.kafka.messages import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from ottla_core.kafka_formats.primitives import Reader
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto.common_pb2 import Error
from ottla_proto.operation import Operation


class Limited(Access):
    """The access of a client that may do some operations on the cluster."""

    is_limited = True

    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    def allows(self, operation: Operation, *resource: Any) -> bool:
        return operation in self._operations


def context(access: Access) -> KafkaContext:
    return KafkaContext(3, 1, "c", Reader(memoryview(b"")), Caller("127.0.0.1", "127.0.0.1"), access)


CONTEXT = context(Limited(Operation.DESCRIBE, Operation.ALTER))
READ = Acl(ResourceType.TOPIC, "t", PatternType.LITERAL, "User:alice", "*", Operation.READ, Permission.ALLOW)
WRITE = replace(READ, operation=Operation.WRITE)
OTHERS = replace(READ, name="o", pattern_type=PatternType.PREFIXED, principal="User:bob", host="10.0.0.0/8")
EVERY: dict[str, Any] = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1}
ANYONE: dict[str, Any] = {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}


class Cluster:
    """A backend of a cluster with these ACLs, whose controller gives this answer."""

    def __init__(self, *acls: Acl, answer: Any = None) -> None:
        by_id = {bytes([number] * 16): acl for number, acl in enumerate(acls)}
        self.image: ClusterImage = replace(image_of(1), acls=by_id)
        self.controller = self.metadata = self.replicas = self
        self.requests: list[Any] = []
        self._answer = answer

    async def call(self, method: object, request: Any, *, timeout: float, principal: str) -> Any:
        self.requests.append(request)
        return self._answer

    async def wait_for(self, condition: object, timeout: float) -> None:
        raise TimeoutError

    async def until(self, condition: Any, *, timeout: float) -> None:
        self.waits_for = condition


def creation(acl: Acl) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=acl.resource_type,
        resource_name=acl.name,
        resource_pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )


def acls_in(response: DescribeAclsResponse) -> list[Acl]:
    return [
        Acl(
            ResourceType(resource.resource_type),
            resource.resource_name,
            PatternType(resource.pattern_type),
            acl.principal,
            acl.host,
            Operation(acl.operation),
            Permission(acl.permission_type),
        )
        for resource in response.resources
        for acl in resource.acls
    ]


@pytest.mark.parametrize(
    ("changed", "matched"),
    [
        ({}, [READ, WRITE, OTHERS]),
        ({"resource_name_filter": "t"}, [READ, WRITE]),
        ({"resource_name_filter": "orders", "pattern_type_filter": 2}, [OTHERS]),
        ({"principal_filter": "User:bob"}, [OTHERS]),
        ({"operation": Operation.WRITE}, [WRITE]),
        ({"permission_type": Permission.DENY}, []),
    ],
)
async def test_acls_that_match_a_filter_are_described_by_their_resources(
    changed: dict[str, Any], matched: list[Acl]
) -> None:
    request = DescribeAclsRequest(**{**EVERY, **ANYONE, **changed})
    response = await describe_acls.handle(cast(Any, Cluster(READ, OTHERS, WRITE)), request, CONTEXT)
    assert (response.error_code, response.error_message) == (0, None)
    assert acls_in(response) == matched


async def test_a_filter_that_this_release_does_not_know_is_rejected() -> None:
    request = DescribeAclsRequest(**{**EVERY, **ANYONE, "operation": 99})
    response = await describe_acls.handle(cast(Any, Cluster(READ)), request, CONTEXT)
    assert (response.error_code, acls_in(response)) == (ErrorCode.INVALID_REQUEST, [])


async def test_acls_that_were_created_are_waited_for_and_a_rejection_is_reported() -> None:
    answer = pb.CreateAclsResponse(results=[Error(), Error(code=ErrorCode.INVALID_REQUEST, message="why")])
    cluster = Cluster(answer=answer)
    request = CreateAclsRequest(creations=[creation(READ), creation(replace(READ, name=""))])
    response = await create_acls.handle(cast(Any, cluster), request, CONTEXT)
    assert [acl_of(entry) for entry in cluster.requests[0].acls] == [READ, replace(READ, name="")]
    assert [(r.error_code, r.error_message) for r in response.results] == [
        (0, None),
        (ErrorCode.INVALID_REQUEST, "why"),
    ]
    assert not cluster.waits_for(cluster.image)
    assert cluster.waits_for(Cluster(READ).image)


async def test_a_deletion_reports_what_each_filter_has_matched() -> None:
    results = [pb.AclsDeleted(acls=[entry_of(OTHERS)]), pb.AclsDeleted(error=Error(code=42, message="why"))]
    cluster = Cluster(OTHERS, answer=pb.DeleteAclsResponse(results=results))
    wanted = DeleteAclsRequest.DeleteAclsFilter(**{**EVERY, **ANYONE, "principal_filter": "User:bob"})
    request = DeleteAclsRequest(filters=[wanted, DeleteAclsRequest.DeleteAclsFilter(**EVERY, **ANYONE)])
    response = await delete_acls.handle(cast(Any, cluster), request, CONTEXT)
    assert [filter_of(entry) for entry in cluster.requests[0].filters] == [AclFilter(principal="User:bob"), AclFilter()]
    (matched,), failed = response.filter_results[0].matching_acls, response.filter_results[1]
    assert (matched.principal, matched.pattern_type, matched.host) == ("User:bob", PatternType.PREFIXED, "10.0.0.0/8")
    assert (failed.error_code, failed.error_message) == (42, "why")
    assert not cluster.waits_for(cluster.image)
    assert cluster.waits_for(Cluster().image)


@pytest.mark.parametrize(
    ("access", "code"),
    [(EVERYTHING, ErrorCode.SECURITY_DISABLED), (Limited(), ErrorCode.CLUSTER_AUTHORIZATION_FAILED)],
    ids=["no authorizer", "not allowed"],
)
async def test_acls_are_for_clients_that_may_describe_or_alter_the_cluster(access: Access, code: ErrorCode) -> None:
    cluster: Any = Cluster(READ)
    described = await describe_acls.handle(cluster, DescribeAclsRequest(**EVERY, **ANYONE), context(access))
    created = await create_acls.handle(cluster, CreateAclsRequest(creations=[creation(READ)]), context(access))
    wanted = DeleteAclsRequest.DeleteAclsFilter(**EVERY, **ANYONE)
    deleted = await delete_acls.handle(cluster, DeleteAclsRequest(filters=[wanted]), context(access))
    codes = [described.error_code, created.results[0].error_code, deleted.filter_results[0].error_code]
    assert codes == [code] * 3
    assert not cluster.requests
