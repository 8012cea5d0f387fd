"""admin.acls: create, list and delete access control lists.

They are Kafka's own requests, so they work with Apache Kafka, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any, Final, NamedTuple

from ottla.admin.acl import Acl, AclFilter, acl_of, core_filter, new_acl
from ottla.admin.controller_channel import ControllerChannel, Deadline
from ottla.admin.propagation import until_each
from ottla.client.kafka.apis import CREATE_ACLS, DELETE_ACLS, DESCRIBE_ACLS
from ottla.client.kafka.exchange import Exchange
from ottla.client.units import Duration
from ottla.errors import OttlaError, error_from_code
from ottla_core.kafka.messages import (
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
)
from ottla_core.plural import counted
from ottla_core.security import acl, acl_filter
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation

Found = list[Acl]

_EVERY: Final = AclFilter()
_MOST_IN_ONE: Final = 1000
"""How many ACLs or filters one request has. Kafka's controllers take at most 10,000 changes at once."""


class Acls:
    """The ACLs of a cluster. They count in clusters whose brokers have an authorizer (authorizer.class.name).

    `admin.acls.create(Acl.allow("User:alice", "write", Resource.topic("orders")))` lets alice write, and
    `admin.acls.list(AclFilter(principal="User:alice"))` returns all that she may do.

    Listing needs DESCRIBE on the cluster, and changes need ALTER on it. Every method raises AuthorizationError without
    these rights, and FatalError with SECURITY_DISABLED if the brokers have no authorizer.
    """

    def __init__(self, channel: ControllerChannel) -> None:
        self._channel = channel

    def create(self, *acls: Acl, timeout: Duration | None = None) -> None:
        """Create ACLs, and return once every reachable broker knows them. An ACL that exists already is left alone.

        Raises ConfigError for an ACL that is not valid. No ACL is created then.
        """
        deadline = self._channel.deadline(timeout)
        converted = list(dict.fromkeys(new_acl(each) for each in acls))
        for first in range(0, len(converted), _MOST_IN_ONE):
            self._channel.retried(partial(self._create, converted[first : first + _MOST_IN_ONE], deadline), deadline)
        if converted:
            self._until_each(converted, deadline, f"{counted(len(converted), 'ACL')} created", are_there=True)

    def list(self, matching: AclFilter = _EVERY, *, timeout: Duration | None = None) -> Found:
        """Return the ACLs that the filter matches; without a filter, all of them. They are sorted by resource."""
        deadline = self._channel.deadline(timeout)
        asked = description(core_filter(matching))
        cluster = self._channel.cluster
        found = self._channel.retried(lambda: cluster.exchange_any(asked, timeout=deadline.left()), deadline)
        return [acl_of(each) for each in sorted(found, key=_order)]

    def delete(self, *acls: Acl | AclFilter, timeout: Duration | None = None) -> Found:
        """Delete ACLs and all that filters match, and return once no reachable broker has them. AclFilter() matches
        every ACL.

        Returns the ACLs that were deleted. It is not an error if there are none.
        """
        deadline = self._channel.deadline(timeout)
        filters = [core_filter(AclFilter.of(each) if isinstance(each, Acl) else each) for each in acls]
        deleted: dict[acl.Acl, None] = {}
        for first in range(0, len(filters), _MOST_IN_ONE):
            delete = partial(self._delete, filters[first : first + _MOST_IN_ONE], deleted, deadline)
            self._channel.retried(delete, deadline)
        if deleted:
            self._until_each(list(deleted), deadline, f"{counted(len(deleted), 'ACL')} deleted", are_there=False)
        return [acl_of(each) for each in sorted(deleted, key=_order)]

    def _create(self, acls: Sequence[acl.Acl], deadline: Deadline) -> None:
        self._channel.cluster.exchange_any(creation(acls), timeout=deadline.left())

    def _delete(
        self, filters: Sequence[acl_filter.AclFilter], deleted: dict[acl.Acl, None], deadline: Deadline
    ) -> None:
        """Delete the ACLs that match, and add them to `deleted`. A request may be repeated after a lost response. Then
        the response has only those that the first one has left."""
        results = self._channel.cluster.exchange_any(deletion(filters), timeout=deadline.left())
        for result in results:
            deleted |= result.deleted
        for result in results:
            if result.error is not None:
                raise result.error

    def _until_each(self, acls: Sequence[acl.Acl], deadline: Deadline, done: str, *, are_there: bool) -> None:
        """Wait until each broker has all of the ACLs, or none of them."""
        cluster, asked = self._channel.cluster, description(_narrowest(acls))

        def knows(address: str, timeout: float) -> bool:
            found = cluster.exchange(address, asked, timeout=timeout)
            return found.keys() >= set(acls) if are_there else found.keys().isdisjoint(acls)

        until_each(self._channel, knows, deadline, done)


def _narrowest(acls: Sequence[acl.Acl]) -> acl_filter.AclFilter:
    """Return the narrowest filter that matches all of these ACLs."""
    first, *rest = acls
    common = {
        field.name: getattr(first, field.name)
        for field in fields(acl.Acl)
        if all(getattr(each, field.name) == getattr(first, field.name) for each in rest)
    }
    return acl_filter.AclFilter(**common)


def _order(found: acl.Acl) -> tuple[object, ...]:
    return found.resource_type, found.name, found.pattern_type, found.principal, found.permission, found.operation


# ---- Kafka's messages -----------------------------------------------------------------------------------------------
class Deletion(NamedTuple):
    """The ACLs that one filter has deleted, and its first error."""

    deleted: dict[acl.Acl, None]
    error: OttlaError | None


def creation(acls: Sequence[acl.Acl]) -> Exchange[None]:
    """Return the exchange that creates ACLs."""

    def check(response: CreateAclsResponse) -> None:
        for each, result in zip(acls, response.results, strict=True):
            if result.error_code:
                raise error_from_code(result.error_code, result.error_message or "", of=acl_of(each))

    request = CreateAclsRequest(creations=list(map(_creation, acls)))
    return Exchange(CREATE_ACLS, lambda _: request, check)


def deletion(filters: Sequence[acl_filter.AclFilter]) -> Exchange[Sequence[Deletion]]:
    """Return the exchange that deletes the ACLs that the filters match."""
    request = DeleteAclsRequest(filters=list(map(_deleting, filters)))
    return Exchange(DELETE_ACLS, lambda _: request, lambda response: list(map(_result, response.filter_results)))


def _result(result: DeleteAclsResponse.DeleteAclsFilterResult) -> Deletion:
    parts: list[Any] = [result, *result.matching_acls]
    failed = next((part for part in parts if part.error_code), None)
    error = None if failed is None else error_from_code(failed.error_code, failed.error_message or "")
    return Deletion({_deleted(each): None for each in result.matching_acls if not each.error_code}, error)


def description(wanted: acl_filter.AclFilter) -> Exchange[dict[acl.Acl, None]]:
    """Return the exchange that asks for the ACLs that the filter matches: a set in the order of the response."""
    request = DescribeAclsRequest(**_fields(wanted))
    return Exchange(DESCRIBE_ACLS, lambda _: request, _found)


def _deleting(wanted: acl_filter.AclFilter) -> DeleteAclsRequest.DeleteAclsFilter:
    return DeleteAclsRequest.DeleteAclsFilter(**_fields(wanted))


def _fields(wanted: acl_filter.AclFilter) -> dict[str, Any]:
    """Return the fields that both requests have for a filter."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission,
    }


def _creation(created: acl.Acl) -> CreateAclsRequest.AclCreation:
    return CreateAclsRequest.AclCreation(
        resource_type=created.resource_type,
        resource_name=created.name,
        resource_pattern_type=created.pattern_type,
        principal=created.principal,
        host=created.host,
        operation=created.operation,
        permission_type=created.permission,
    )


def _found(response: DescribeAclsResponse) -> dict[acl.Acl, None]:
    """Return the ACLs of a response as a set in its order."""
    return {
        acl.Acl(
            ResourceType(each.resource_type),
            each.resource_name,
            PatternType(each.pattern_type),
            rule.principal,
            rule.host,
            Operation(rule.operation),
            acl.Permission(rule.permission_type),
        ): None
        for each in response.resources
        for rule in each.acls
    }


def _deleted(found: DeleteAclsResponse.DeleteAclsMatchingAcl) -> acl.Acl:
    return acl.Acl(
        ResourceType(found.resource_type),
        found.resource_name,
        PatternType(found.pattern_type),
        found.principal,
        found.host,
        Operation(found.operation),
        acl.Permission(found.permission_type),
    )
