"""One access control list entry, and what Kafka's CreateAcls requires of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NoReturn

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.hosts import check_host
from ottla_core.security.resource import CLUSTER_NAME, PatternType, ResourceType
from ottla_proto.operation import Operation

EVERYONE: Final = "User:*"
"""The principal of an ACL that is for every principal."""


class Permission(IntEnum):
    """Kafka's permission types with their codes on the wire. ANY is only for filters."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3

    @classmethod
    def _missing_(cls, value: object) -> Permission | None:
        return cls.UNKNOWN if isinstance(value, int) else None


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL binding, in Kafka's words. It says who may or may not do what with resources, and from which hosts.

    A pattern names the resources.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def check(self) -> None:
        """Raise INVALID_REQUEST unless Kafka's CreateAcls takes the ACL.

        As in Kafka, the operation may be one that resources of this type don't know.
        """
        if self.resource_type is ResourceType.CLUSTER and self.name != CLUSTER_NAME:
            _reject(f"the cluster can't be named {self.name!r}", f"its only name is {CLUSTER_NAME}")
        if not self.name:
            _reject("the ACL's resource name is empty", "name a resource, or give * for every resource of the type")
        if self.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
            _reject(f"an ACL can't have the resource type {self.resource_type.name}", "give one type, such as TOPIC")
        if self.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
            _reject(f"an ACL can't have the pattern type {self.pattern_type.name}", "give LITERAL or PREFIXED")
        if self.operation in (Operation.UNKNOWN, Operation.ANY):
            _reject(f"an ACL can't have the operation {self.operation.name}", "give one operation, or ALL")
        if self.permission not in (Permission.DENY, Permission.ALLOW):
            _reject(f"an ACL can't have the permission type {self.permission.name}", "give ALLOW or DENY")
        if ":" not in self.principal:
            _reject(f"the principal {self.principal!r} has no type", "give the type before a colon, as in User:alice")
        check_host(self.host)

    def __str__(self) -> str:
        resources = f"{self.resource_type.name} {self.pattern_type.name} {self.name}"
        return f"{self.permission.name} {self.principal} {self.operation.name} on {resources} from host {self.host}"


def _reject(message: str, hint: str) -> NoReturn:
    raise OttlaError(ErrorCode.INVALID_REQUEST, message, hint=hint)
