"""The plan says which ACLs the target lacks, so that the users of a topic may read its copy (MirrorMaker 2's rules).

* Only ACLs of one topic by its name are copied, under the name of its copy. An ACL of a prefix, or of every topic by
  "*", may also be for topics that the flow does not copy.
* Only the mirror writes to a copy. So ALLOW WRITE is not copied, and ALLOW ALL becomes ALLOW READ.
* Nothing is deleted: the target's ACLs may be its operator's own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from ottla_core.errors import OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import ANY_NAME, PatternType, ResourceType
from ottla_mirror.machines.topic_names import TopicNames
from ottla_proto.operation import Operation


def plan_acls(names: TopicNames, existing: Iterable[Acl], copies: Collection[Acl]) -> list[Acl]:
    """Return the ACLs to create in the target. `existing` are the source's ACLs, and `copies` the target's."""
    planned = dict.fromkeys(acl for each in existing if (acl := _of_copy(names, each)) is not None)
    return [acl for acl in planned if acl not in copies]


def _of_copy(names: TopicNames, acl: Acl) -> Acl | None:
    """Return the ACL that a copy gets for an ACL of its topic, or None if it gets none."""
    if acl.resource_type is not ResourceType.TOPIC or acl.pattern_type is not PatternType.LITERAL:
        return None
    copy = names.target_of(acl.name)
    if copy is None or acl.name == ANY_NAME or not _is_valid(acl):
        return None
    if acl.permission is Permission.ALLOW:
        if acl.operation is Operation.WRITE:
            return None
        if acl.operation is Operation.ALL:
            return replace(acl, name=copy, operation=Operation.READ)
    return replace(acl, name=copy)


def _is_valid(acl: Acl) -> bool:
    """Return whether a cluster would accept the ACL.

    Another version of Kafka may have ACLs with an operation that this release does not know, or with a host that is not
    valid here. One of them in a request would keep all the others from being created.
    """
    try:
        acl.check()
    except OttlaError:
        return False
    return True
