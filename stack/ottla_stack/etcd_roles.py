"""Decides which users and roles etcd needs, so that each service may use the keys of its cluster and no others.

etcd takes the common name of a client's certificate for the name of its user, so these users have no passwords. Users
and roles that are not ottla's stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from ottla_proto import etcd_pb2 as pb

ROOT: Final = "root"
"""The name of the user who may do everything, and of that user's role. Both names are etcd's own."""
ROLE: Final = "ottla"
"""The role of the services."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """`services` may use the keys with this prefix. `others` may connect to etcd, and use no key."""

    prefix: str
    services: Sequence[str]
    others: Sequence[str] = ()

    @property
    def roles(self) -> dict[str, set[str]]:
        """Return the roles of each user."""
        return {ROOT: {ROOT}, **{name: {ROLE} for name in self.services}, **{name: set() for name in self.others}}

    @property
    def permission(self) -> pb.Permission:
        """Return what the services' role permits."""
        first = self.prefix.encode()
        after = first[:-1] + bytes([first[-1] + 1])
        return pb.Permission(permType=pb.Permission.READWRITE, key=first, range_end=after)


@dataclass(frozen=True, slots=True)
class Found:
    """What etcd has: the permissions of the services' role, or None if there is no such role, and the roles of each
    user."""

    permissions: Sequence[pb.Permission] | None
    roles: Mapping[str, Collection[str]]


def changes(wanted: Wanted, found: Found) -> Iterator[Message]:
    """Yield the requests that turn what was found into what is wanted."""
    if found.permissions is None:
        yield pb.AuthRoleAddRequest(name=ROLE)
    permissions = found.permissions or ()
    for permission in permissions:
        if permission != wanted.permission:
            yield pb.AuthRoleRevokePermissionRequest(role=ROLE, key=permission.key, range_end=permission.range_end)
    if wanted.permission not in permissions:
        yield pb.AuthRoleGrantPermissionRequest(name=ROLE, perm=wanted.permission)
    for user, roles in wanted.roles.items():
        if user not in found.roles:
            yield pb.AuthUserAddRequest(name=user, options=pb.UserAddOptions(no_password=True))
        has = set(found.roles.get(user, ()))
        yield from (pb.AuthUserGrantRoleRequest(user=user, role=role) for role in sorted(roles - has))
        yield from (pb.AuthUserRevokeRoleRequest(name=user, role=role) for role in sorted(has - roles))
    for user in sorted(found.roles.keys() - wanted.roles.keys()):
        if ROLE in found.roles[user]:  # a service that is no longer there
            yield pb.AuthUserRevokeRoleRequest(name=user, role=ROLE)
