"""What the ACLs for one type of resource, one principal and one host say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ottla_core.security.acl import Acl, Permission
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
_DECIDING: Final[Mapping[tuple[Permission, Operation], frozenset[Operation]]] = MappingProxyType(
    {
        (permission, operation): frozenset(
            {
                operation,
                Operation.ALL,
                *(by for by, implied in _IMPLIED.items() if implied is operation and permission is Permission.ALLOW),
            }
        )
        for permission in (Permission.ALLOW, Permission.DENY)
        for operation in Operation
    }
)
"""The operations of those ACLs that allow, or deny, an operation."""


class Rules:
    """The ACLs that were added, by the names of the resources and by their operations.

    The cost of a look-up depends only on the ACLs that it finds. So the first look-up is as fast as later ones, even
    for a principal with 10,000 ACLs.
    """

    __slots__ = ("_by_operation", "_literal", "_prefixed")

    def __init__(self) -> None:
        self._literal: Final[dict[str, list[Acl]]] = {}
        self._prefixed: Final[dict[str, list[Acl]]] = {}
        self._by_operation: Final[dict[tuple[Permission, Operation], list[Acl]]] = {}

    def add(self, acl: Acl) -> None:
        named = self._prefixed if acl.pattern_type is PatternType.PREFIXED else self._literal
        if (same_name := named.get(acl.name)) is None:
            named[acl.name] = [acl]
        else:
            same_name.append(acl)
        if (same_operation := self._by_operation.get((acl.permission, acl.operation))) is None:
            self._by_operation[acl.permission, acl.operation] = [acl]
        else:
            same_operation.append(acl)

    def of(self, name: str, prefixes: Iterable[str], operation: Operation) -> Iterator[Acl]:
        """Yield the ACLs that decide an operation on a resource, those of the narrowest pattern first.

        `prefixes` has the prefixes of the name that any ACL has, the longest first.
        """
        for acl in self._about(name, prefixes):
            if acl.operation in _DECIDING[acl.permission, operation]:
                yield acl

    def that(self, permission: Permission, operation: Operation) -> Iterator[Acl]:
        """Yield the ACLs that allow, or deny, this operation by name, or all operations."""
        yield from self._by_operation.get((permission, operation), ())
        yield from self._by_operation.get((permission, Operation.ALL), ())

    def _about(self, name: str, prefixes: Iterable[str]) -> Iterator[Acl]:
        yield from self._literal.get(name, ())
        if self._prefixed:
            for prefix in prefixes:
                yield from self._prefixed.get(prefix, ())
        if name != ANY_NAME:
            yield from self._literal.get(ANY_NAME, ())
