"""What the ACLs for one type of resource, one principal and one host say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla_core.security.acl import Acl, Permission
from ottla_core.security.decision import Decision
from ottla_core.security.prefixes import Prefixes
from ottla_core.security.resource import ANY_NAME, PatternType
from ottla_proto.operation import Operation

_IMPLIED: Final[Mapping[Operation, Operation]] = MappingProxyType(
    {
        Operation.READ: Operation.DESCRIBE,
        Operation.WRITE: Operation.DESCRIBE,
        Operation.DELETE: Operation.DESCRIBE,
        Operation.ALTER: Operation.DESCRIBE,
        Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
    }
)
"""The operation that is allowed to whoever is allowed the other. Denying the other does not deny it."""
_ALL: Final = sum(1 << operation for operation in Operation)


class Rule(NamedTuple):
    """One ACL as it is applied: a bit field of the requested operations that it decides, and its decision."""

    operations: int
    decision: Decision


class Rules:
    """The rules of some ACLs, by the names of the resources."""

    def __init__(self, acls: Iterable[Acl]) -> None:
        self.acls: Final = tuple(acls)
        literal: dict[str, list[Rule]] = {}
        prefixed: dict[str, list[Rule]] = {}
        for acl in self.acls:
            named = prefixed if acl.pattern_type is PatternType.PREFIXED else literal
            named.setdefault(acl.name, []).append(_rule(acl))
        self._literal: Final = literal
        self._prefixed: Final = Prefixes(prefixed)

    def of(self, name: str) -> Iterator[Rule]:
        """Yield the rules that are about a resource, those of the narrowest pattern first."""
        yield from self._literal.get(name, ())
        for rules in self._prefixed.of(name):
            yield from rules
        if name != ANY_NAME:
            yield from self._literal.get(ANY_NAME, ())


def _rule(acl: Acl) -> Rule:
    is_allowed = acl.permission is Permission.ALLOW
    if acl.operation is Operation.ALL:
        operations = _ALL
    else:
        operations = 1 << acl.operation
        if is_allowed and (implied := _IMPLIED.get(acl.operation)) is not None:
            operations |= 1 << implied
    return Rule(operations, Decision(is_allowed, acl))
