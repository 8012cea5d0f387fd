"""A decision about one request, and the rule that it follows from."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ottla_core.security.acl import Acl


class Reason(Enum):
    """Why a request is allowed or denied if no ACL decides it. The value says it to the operator."""

    SUPER_USER = "the principal is a super user"
    NO_ACL_FOUND = "no ACL is found for the resource, so allow.everyone.if.no.acl.found decides"
    NO_ACL_MATCHES = "no ACL allows it"


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision says whether a request is allowed, and names the ACL or the reason that decides it."""

    is_allowed: bool
    rule: Acl | Reason

    def __str__(self) -> str:
        rule = self.rule.value if isinstance(self.rule, Reason) else self.rule
        return f"{'allowed' if self.is_allowed else 'denied'}: {rule}"
