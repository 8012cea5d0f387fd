"""Reads the words of `ottla acl`: principals, operations and resources as users type them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, get_args

from ottla.admin.acl import Operation, Resource, ResourceType
from ottla.errors import config_error, did_you_mean
from ottla_core.security import resource
from ottla_core.security.principal import of_user

ROLES: Final[Mapping[str, Mapping[ResourceType, tuple[Operation, ...]]]] = {
    "produce": {
        "topic": ("write", "describe", "create"),
        "transactional_id": ("write", "describe"),
        "cluster": ("idempotent_write",),
    },
    "consume": {"topic": ("read", "describe"), "group": ("read",)},
}
"""Kafka's tool allows these operations to a producer and a consumer (kafka-acls --producer, --consumer)."""

_OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)[:-1]
_TYPES: Final[tuple[ResourceType, ...]] = get_args(ResourceType)[:-1]


def principal(text: str) -> str:
    """Return the principal in Kafka's form. A name without a type is a user's, and * is everyone."""
    return text if ":" in text else of_user(text)


def resource_type(text: str) -> ResourceType:
    """Return the type of resource with that name. Raises ConfigError."""
    spelled = _spelled(text)
    for known in _TYPES:
        if known == spelled:
            return known
    names = [known.replace("_", "-") for known in _TYPES]
    raise config_error(
        f"{text!r} is no type of resource", hint=did_you_mean(text, names, f"write one of {', '.join(names)}")
    )


def parse_resource(text: str, *, prefixed: bool = False) -> Resource:
    """Return the resource of a text such as topic:orders or cluster. Raises ConfigError."""
    type_text, colon, name = text.partition(":")
    type_ = resource_type(type_text)
    if type_ == "cluster":
        if prefixed or name not in ("", resource.CLUSTER_NAME):
            raise config_error(f"{text!r}: the cluster has no other name", hint="write cluster, without --prefixed")
        return Resource.cluster()
    if not colon or not name:
        raise config_error(f"{text!r} has no name", hint=f"write {text.rstrip(':')}:NAME, or {type_text}:* for all")
    if type_ == "topic" and name.endswith("*") and len(name) > 1:
        raise config_error(
            f"{text!r} is no pattern", hint=f"write --prefixed {text.rstrip('*')} for all that begin like this"
        )
    if prefixed and name == resource.ANY_NAME:
        raise config_error(f"{text!r} with --prefixed begins with a star", hint="leave --prefixed out for every name")
    return Resource(type_, name, prefixed)


def parse_operations(text: str, of: Resource) -> tuple[Operation, ...]:
    """Return the operations on the resource that a text such as read,write or a role stands for. Raises ConfigError."""
    if text in ROLES:
        if of.type not in ROLES[text]:
            types = " and ".join(f"a {type_}".replace("_", " ") for type_ in ROLES[text])
            raise config_error(f"{text} needs no operation on {of}", hint=f"{text} is for {types}")
        return ROLES[text][of.type]
    return tuple(dict.fromkeys(_supported(parse_operation(word), of) for word in text.split(",")))


def parse_operation(word: str) -> Operation:
    """Return one operation. Raises ConfigError."""
    spelled = _spelled(word)
    for known in _OPERATIONS:
        if known == spelled:
            return known
    names = [*(name.replace("_", "-") for name in _OPERATIONS), *ROLES]
    raise config_error(f"{word!r} is no operation", hint=did_you_mean(word, names, f"use one of {', '.join(names)}"))


def _supported(operation: Operation, of: Resource) -> Operation:
    supported = resource.SUPPORTED_OPERATIONS[resource.ResourceType[of.type.upper()]]
    names = [each.name.lower().replace("_", "-") for each in supported]
    if operation != "all" and operation.replace("_", "-") not in names:
        raise config_error(f"there is no {operation} on {of}", hint=f"use one of {', '.join(names)}, or all")
    return operation


def _spelled(word: str) -> str:
    return word.strip().lower().replace("-", "_")
