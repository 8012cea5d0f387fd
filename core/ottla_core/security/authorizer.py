"""The one place that decides whether a principal may do what it requests, as Kafka's StandardAuthorizer does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Final

from ottla_core.security.acl import EVERYONE, Acl, Permission
from ottla_core.security.decision import Decision, Reason
from ottla_core.security.hosts import ANY_HOST, HostRanges, address_of, canonical_host
from ottla_core.security.prefixes import Prefixes
from ottla_core.security.resource import ANY_NAME, SUPPORTED_OPERATIONS, PatternType, ResourceType
from ottla_core.security.rules import Rules
from ottla_proto.operation import Operation

_SAMPLE: Final = "hardcode"
"""The name that Kafka's authorizeByResourceType tries before it looks at patterns. It has to be the same one, because
an ACL with this name can change the decision."""

_Whom = tuple[ResourceType, str, str]
"""A type of resource, and the principal and the host of ACLs for it."""

_SUPER_USER: Final = Decision(True, Reason.SUPER_USER)
_NO_ACL_MATCHES: Final = Decision(False, Reason.NO_ACL_MATCHES)


class Authorizer:
    """The decisions that follow from the ACLs of one `revision`, which never change.

    It is complete once it is made, which takes a microsecond for each ACL. So no decision has to wait for it.

    An ACL is found for a resource if its pattern matches the resource, whoever the ACL is for. Only if none is found,
    `allow_everyone_if_no_acl_found` decides.
    """

    def __init__(
        self,
        acls: Mapping[bytes, Acl],
        *,
        revision: int,
        super_users: Set[str] = frozenset(),
        allow_everyone_if_no_acl_found: bool = False,
    ) -> None:
        self.revision: Final = revision
        self._super_users: Final = super_users
        self._no_acl_found: Final = Decision(allow_everyone_if_no_acl_found, Reason.NO_ACL_FOUND)
        by_whom: dict[_Whom, Rules] = {}
        ranges: dict[tuple[ResourceType, str], dict[str, None]] = {}
        literal: dict[ResourceType, dict[str, None]] = {}
        prefixed: dict[ResourceType, dict[str, str]] = {}
        hosts = {host: canonical_host(host) for host in dict.fromkeys(acl.host for acl in acls.values())}
        for acl in acls.values():
            host = hosts[acl.host]
            whom = (acl.resource_type, acl.principal, host)
            if (rules := by_whom.get(whom)) is None:
                rules = by_whom[whom] = Rules()
                if "/" in host:
                    ranges.setdefault(whom[:2], {})[host] = None
            rules.add(acl)
            if acl.pattern_type is PatternType.PREFIXED:
                prefixed.setdefault(acl.resource_type, {})[acl.name] = acl.name
            else:
                literal.setdefault(acl.resource_type, {})[acl.name] = None
        self._rules: Final = by_whom
        self._ranges: Final = {whom: HostRanges(hosts) for whom, hosts in ranges.items()}
        self._literal: Final = literal
        self._prefixed: Final = {resource_type: Prefixes(names) for resource_type, names in prefixed.items()}

    @property
    def allows_unlisted(self) -> bool:
        """It tells whether resources for which no ACL is found are open to everyone."""
        return self._no_acl_found.is_allowed

    def decide(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> Decision:
        """Decide one operation on one resource. DENY beats ALLOW, whichever pattern is narrower."""
        if principal in self._super_users:
            return _SUPER_USER
        prefixes = self._prefixes_of(resource_type, name)
        allowed = None
        for rules in self._rules_for(principal, host, resource_type):
            for acl in rules.of(name, prefixes, operation):
                if acl.permission is Permission.DENY:
                    return Decision(False, acl)
                allowed = allowed or acl
        if allowed is not None:
            return Decision(True, allowed)
        return _NO_ACL_MATCHES if prefixes or self._is_named(resource_type, name) else self._no_acl_found

    def decide_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> Decision:
        """Decide whether the operation is allowed on at least one resource of the type, existing or not (KIP-679).

        This is Kafka's authorizeByResourceType. Except for a first look at one resource, operations imply nothing here.
        """
        sample = self.decide(principal, host, operation, resource_type, _SAMPLE)
        if sample.is_allowed:
            return sample
        found = list(self._rules_for(principal, host, resource_type))
        denied = {
            (acl.pattern_type, acl.name): acl for rules in found for acl in rules.that(Permission.DENY, operation)
        }
        if (everything := denied.get((PatternType.LITERAL, ANY_NAME))) is not None:
            return Decision(False, everything)
        decision = _NO_ACL_MATCHES
        for acl in (acl for rules in found for acl in rules.that(Permission.ALLOW, operation)):
            stronger = _stronger(acl, denied)
            if stronger is None:
                return Decision(True, acl)
            decision = Decision(False, stronger)
        return decision

    def operations_of(self, principal: str, host: str, resource_type: ResourceType, name: str) -> int:
        """Return the bit field of what the principal may do with the resource, for Kafka's authorized operations."""
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[resource_type]
            if self.decide(principal, host, operation, resource_type, name).is_allowed
        )

    def _rules_for(self, principal: str, host: str, resource_type: ResourceType) -> Iterator[Rules]:
        """Yield the rules for the principal and for everyone, from the host and from everywhere."""
        address = address_of(host)
        exact = host if address is None else str(address)
        for whom in (principal, EVERYONE) if principal != EVERYONE else (EVERYONE,):
            ranges = self._ranges.get((resource_type, whom))
            within = () if address is None or ranges is None else ranges.containing(address)
            for pattern in (exact, *within, ANY_HOST):
                if (rules := self._rules.get((resource_type, whom, pattern))) is not None:
                    yield rules

    def _prefixes_of(self, resource_type: ResourceType, name: str) -> tuple[str, ...]:
        """Return the prefixes of the name that any ACL has, the longest first."""
        prefixed = self._prefixed.get(resource_type)
        return () if prefixed is None else tuple(prefixed.of(name))

    def _is_named(self, resource_type: ResourceType, name: str) -> bool:
        literal = self._literal.get(resource_type, {})
        return name in literal or ANY_NAME in literal


def _stronger(allowing: Acl, denied: Mapping[tuple[PatternType, str], Acl]) -> Acl | None:
    """Return an ACL that denies all that the other allows, or None.

    An ALLOW for every resource is never denied as a whole, because only a DENY for every resource could do that.
    """
    name = allowing.name
    if allowing.pattern_type is PatternType.LITERAL:
        if name == ANY_NAME:
            return None
        if (same := denied.get((PatternType.LITERAL, name))) is not None:
            return same
    prefixes = (denied.get((PatternType.PREFIXED, name[:length])) for length in range(1, len(name) + 1))
    return next((acl for acl in prefixes if acl is not None), None)
