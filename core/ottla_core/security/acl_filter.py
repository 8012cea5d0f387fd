"""The filter of Kafka's DescribeAcls and DeleteAcls."""

from __future__ import annotations

from dataclasses import dataclass

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import ANY_NAME, PatternType, ResourceType
from ottla_proto.operation import Operation


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs: None and ANY match everything, any other value only itself.

    `*` is an ordinary name, principal part and host here. But a filter of pattern type MATCH also finds the patterns
    that match its name: the prefixes of the name, and `*`.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def check(self) -> None:
        """Raise INVALID_REQUEST if a field has a code that this release does not know."""
        for code in (self.resource_type, self.pattern_type, self.operation, self.permission):
            if code == 0:
                raise OttlaError(
                    ErrorCode.INVALID_REQUEST,
                    f"the filter's {type(code).__name__} is not known to this release",
                    hint="give one that this release knows, or ANY",
                )

    def matches(self, acl: Acl) -> bool:
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_pattern(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_pattern(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None or self.name == acl.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if acl.pattern_type is PatternType.LITERAL:
            return acl.name == ANY_NAME
        return self.name.startswith(acl.name)
