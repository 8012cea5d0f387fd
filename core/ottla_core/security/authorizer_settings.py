"""Kafka's settings of the authorizer: whether there is one, who its super users are, and what holds without ACLs."""

from __future__ import annotations

from typing import Final, NamedTuple

from ottla_core.errors import ErrorCode, OttlaError

_CLASS: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_NAMES: Final = (_CLASS, _CLASS.rpartition(".")[2])


class AuthorizerSettings(NamedTuple):
    """How the authorizer decides where no ACL does. `super_users` are principals that may do everything."""

    super_users: frozenset[str] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


def read_authorizer(
    class_name: str, super_users: str, *, allow_everyone_if_no_acl_found: bool
) -> AuthorizerSettings | None:
    """Return the settings of the authorizer, or None if there is none. Raises INVALID_CONFIG."""
    users = [user.strip() for user in super_users.split(";") if user.strip()]
    for user in users:
        if not all(user.partition(":")):
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"super_users names {user[:80]!r}, which is no principal",
                hint="write each principal with its type, and a semicolon between two: User:admin;User:ops",
            )
    if not class_name:
        return None
    if class_name not in _NAMES:
        raise OttlaError(
            ErrorCode.INVALID_CONFIG,
            f"authorizer_class_name is {class_name[:80]!r}, which is no authorizer of ottla",
            hint=f"set it to {_NAMES[1]}, or leave it empty for no authorizer",
        )
    return AuthorizerSettings(frozenset(users), allow_everyone_if_no_acl_found)
