"""ACLs and their filters, as brokers and the controller send them to each other."""

from __future__ import annotations

from ottla_core.security.acl import Acl, Permission
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto.operation import Operation


def entry_of(acl: Acl) -> pb.AclEntry:
    return pb.AclEntry(
        resource_type=acl.resource_type,
        name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
    )


def acl_of(entry: pb.AclEntry) -> Acl:
    return Acl(
        ResourceType(entry.resource_type),
        entry.name,
        PatternType(entry.pattern_type),
        entry.principal,
        entry.host,
        Operation(entry.operation),
        Permission(entry.permission),
    )


def entry_of_filter(wanted: AclFilter) -> pb.AclEntryFilter:
    return pb.AclEntryFilter(
        resource_type=wanted.resource_type,
        name=wanted.name,
        pattern_type=wanted.pattern_type,
        principal=wanted.principal,
        host=wanted.host,
        operation=wanted.operation,
        permission=wanted.permission,
    )


def filter_of(entry: pb.AclEntryFilter) -> AclFilter:
    return AclFilter(
        ResourceType(entry.resource_type),
        entry.name if entry.HasField("name") else None,
        PatternType(entry.pattern_type),
        entry.principal if entry.HasField("principal") else None,
        entry.host if entry.HasField("host") else None,
        Operation(entry.operation),
        Permission(entry.permission),
    )
