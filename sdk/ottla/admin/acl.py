"""This module has ACLs as users write them: an ACL, the resources that it is for, and a filter of ACLs."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Literal, Self, TypeVar, get_args

from ottla.errors import ConfigError, config_error, did_you_mean
from ottla_core.errors import OttlaError
from ottla_core.security import acl, acl_filter, resource
from ottla_proto.operation import Operation as Code

Permission = Literal["allow", "deny", "unknown"]
ResourceType = Literal["topic", "group", "cluster", "transactional_id", "delegation_token", "user", "unknown"]
PatternType = Literal["literal", "prefixed", "match", "unknown"]
Operation = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "cluster_action",
    "describe_configs",
    "alter_configs",
    "idempotent_write",
    "create_tokens",
    "describe_tokens",
    "two_phase_commit",
    "unknown",
]
"""Kafka's operations. "unknown" stands for one that a newer broker has and this client does not know."""

Choice = TypeVar("Choice", bound=str)
Number = TypeVar("Number", bound=IntEnum)

_PERMISSIONS: Final[tuple[Permission, ...]] = get_args(Permission)
_RESOURCE_TYPES: Final[tuple[ResourceType, ...]] = get_args(ResourceType)
_PATTERN_TYPES: Final[tuple[PatternType, ...]] = get_args(PatternType)
_OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)


@dataclass(frozen=True, slots=True)
class Resource:
    """The resources that an ACL is for: one by its name, all of a type by the name "*", or all whose names begin with a
    prefix.

        Resource.topic("orders")
        Resource.group("*")
        Resource.topic("orders-", prefixed=True)
        Resource.cluster()
    """

    type: ResourceType
    name: str
    prefixed: bool = False

    def __post_init__(self) -> None:
        _check("type", self.type, _RESOURCE_TYPES)

    @classmethod
    def topic(cls, name: str, *, prefixed: bool = False) -> Self:
        """Return the topic of that name, or the topics whose names begin with it."""
        return cls("topic", name, prefixed)

    @classmethod
    def group(cls, name: str, *, prefixed: bool = False) -> Self:
        """Return the consumer group of that name, or the groups whose names begin with it."""
        return cls("group", name, prefixed)

    @classmethod
    def transactional_id(cls, name: str, *, prefixed: bool = False) -> Self:
        """Return the transactional id, or the transactional ids that begin with it."""
        return cls("transactional_id", name, prefixed)

    @classmethod
    def cluster(cls) -> Self:
        """Return the cluster itself, which creates topics, and has brokers, ACLs and users."""
        return cls("cluster", resource.CLUSTER_NAME)

    def __str__(self) -> str:
        if self.type == "cluster" and self.name == resource.CLUSTER_NAME:
            return "the cluster"
        type_ = self.type.replace("_", " ")
        if self.prefixed:
            return f"every {type_} that begins with {self.name}"
        return f"every {type_}" if self.name == resource.ANY_NAME else f"{type_} {self.name}"


@dataclass(frozen=True, slots=True)
class Acl:
    """An ACL allows or denies a principal one operation on resources. A "deny" has precedence over every "allow".

        Acl.allow("User:alice", "write", Resource.topic("orders"))
        Acl.deny("User:*", "all", Resource.topic("salaries"), host="10.1.0.0/16")

    The principal has Kafka's form "User:<name>"; "User:*" is everyone. The host is an address, a range of addresses in
    CIDR notation, or "*" for every host. Reading, writing, deleting or altering includes "describe", and altering
    configs includes describing them. Raises ConfigError for an unknown word.
    """

    permission: Permission
    principal: str
    operation: Operation
    resource: Resource
    host: str = "*"

    def __post_init__(self) -> None:
        _check("permission", self.permission, _PERMISSIONS)
        _check("operation", self.operation, _OPERATIONS)

    @classmethod
    def allow(cls, principal: str, operation: Operation, resource: Resource, *, host: str = "*") -> Self:
        """Return an ACL that allows the principal the operation."""
        return cls("allow", principal, operation, resource, host)

    @classmethod
    def deny(cls, principal: str, operation: Operation, resource: Resource, *, host: str = "*") -> Self:
        """Return an ACL that denies the principal the operation, whatever other ACLs allow."""
        return cls("deny", principal, operation, resource, host)

    def __str__(self) -> str:
        verb = {"allow": "may", "deny": "may not"}.get(self.permission, self.permission)
        host = "" if self.host == "*" else f" from {self.host}"
        principal = "everyone" if self.principal == acl.EVERYONE else self.principal
        operation = "do everything with" if self.operation == "all" else self.operation.replace("_", " ")
        return f"{principal} {verb} {operation} {self.resource}{host}"


@dataclass(frozen=True, slots=True)
class AclFilter:
    """A filter of ACLs. None matches everything, and any other value matches only itself.

    With `pattern="match"`, the ACLs of every resource are found that apply to the resource `name`: those of its own
    name, those of its prefixes, and those of "*". Raises ConfigError for an unknown word.
    """

    resource_type: ResourceType | None = None
    name: str | None = None
    pattern: PatternType | None = None
    principal: str | None = None
    host: str | None = None
    operation: Operation | None = None
    permission: Permission | None = None

    def __post_init__(self) -> None:
        _check("resource_type", self.resource_type, _RESOURCE_TYPES)
        _check("pattern", self.pattern, _PATTERN_TYPES)
        _check("operation", self.operation, _OPERATIONS)
        _check("permission", self.permission, _PERMISSIONS)

    @classmethod
    def of(cls, acl: Acl) -> Self:
        """Return the filter that matches exactly this ACL."""
        pattern: PatternType = "prefixed" if acl.resource.prefixed else "literal"
        return cls(
            acl.resource.type, acl.resource.name, pattern, acl.principal, acl.host, acl.operation, acl.permission
        )


def core_acl(written: Acl) -> acl.Acl:
    """Return the ACL in core's terms."""
    pattern_type = resource.PatternType.PREFIXED if written.resource.prefixed else resource.PatternType.LITERAL
    return acl.Acl(
        _code(resource.ResourceType, written.resource.type),
        written.resource.name,
        pattern_type,
        written.principal,
        written.host,
        _code(Code, written.operation),
        _code(acl.Permission, written.permission),
    )


def new_acl(written: Acl) -> acl.Acl:
    """Return an ACL that is to be created in core's terms. Raises ConfigError if no cluster takes it."""
    converted = core_acl(written)
    try:
        converted.check()
    except OttlaError as error:
        raise ConfigError(error.code, error.message, hint=error.hint) from None
    return converted


def core_filter(written: AclFilter) -> acl_filter.AclFilter:
    """Return the filter in core's terms."""
    return acl_filter.AclFilter(
        _code(resource.ResourceType, written.resource_type),
        written.name,
        _code(resource.PatternType, written.pattern),
        written.principal,
        written.host,
        _code(Code, written.operation),
        _code(acl.Permission, written.permission),
    )


def acl_of(found: acl.Acl) -> Acl:
    """Return the ACL in users' terms. A pattern type that this release does not know is taken for a literal one."""
    return Acl(
        _word(found.permission, _PERMISSIONS),
        found.principal,
        _word(found.operation, _OPERATIONS),
        Resource(
            _word(found.resource_type, _RESOURCE_TYPES),
            found.name,
            found.pattern_type is resource.PatternType.PREFIXED,
        ),
        found.host,
    )


def _check(argument: str, word: str | None, words: tuple[str, ...]) -> None:
    if word is not None and word not in words:
        known = [each for each in words if each != "unknown"]
        raise config_error(
            f"{argument} is {word!r}", hint=did_you_mean(str(word), known, f"use one of {', '.join(known)}")
        )


def _code(codes: type[Number], word: str | None) -> Number:
    return codes["ANY" if word is None else word.upper()]


def _word(code: IntEnum, words: tuple[Choice, ...]) -> Choice:
    return next((word for word in words if word == code.name.lower()), words[-1])
