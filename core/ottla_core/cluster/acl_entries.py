"""ACLs and their filters are translated to and from messages: those in etcd, and those between brokers and the
controller."""

from __future__ import annotations

from typing import Any

from ottla_core.security.acl import Acl, Permission
from ottla_core.security.acl_filter import AclFilter
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto import controller_pb2 as pb
from ottla_proto import state_pb2
from ottla_proto.operation import Operation


def fields_of(acl: Acl | AclFilter) -> dict[str, Any]:
    """Return the fields of a message, by name."""
    return {
        "resource_type": acl.resource_type,
        "name": acl.name,
        "pattern_type": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permission": acl.permission,
    }


def entry_of(acl: Acl) -> pb.AclEntry:
    return pb.AclEntry(**fields_of(acl))


def acl_of(entry: pb.AclEntry | state_pb2.Acl) -> Acl:
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
    return pb.AclEntryFilter(**fields_of(wanted))


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
