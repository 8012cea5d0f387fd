"""Gives clients in containers users of their own, and the ACLs that a load test needs.

docker-compose.secure.yml runs `python -m ottla_stack.container_users` before the first of these clients. The passwords
are those that `container_keys` has handed out, so a password that was changed by hand is set back.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

import ottla
from ottla.admin.acl import Acl, Operation, Resource
from ottla.client.security.profiles import load_profile
from ottla_core.files.secret_file import read_secret
from ottla_core.security.principal import of_user

LOAD: Final = "load"
SPARK: Final = "spark"
CLIENT: Final = "client"
"""This is the directory of the first user. LOAD and SPARK are names of users and of their directories."""
INSIDE: Final = "inside"
"""The profile of a client in a container."""
LOAD_PREFIX: Final = "load-"
"""The topics, groups and transactional ids of load tests begin with it."""

_HANDED_OUT: Final = Path("/run/ottla")
_LIMIT_S: Final = 60.0
_USAGE: Final = "usage: python -m ottla_stack.container_users"


def _allowed(user: str, rights: Mapping[Resource, Sequence[Operation]]) -> tuple[Acl, ...]:
    return tuple(Acl.allow(of_user(user), each, resource) for resource, each_of in rights.items() for each in each_of)


ACLS: Final[Mapping[str, tuple[Acl, ...]]] = MappingProxyType(
    {
        LOAD: _allowed(
            LOAD,
            {
                Resource.topic(LOAD_PREFIX, prefixed=True): ("create", "read", "write"),
                Resource.group(LOAD_PREFIX, prefixed=True): ("read",),
                Resource.transactional_id(LOAD_PREFIX, prefixed=True): ("write",),
            },
        ),
        SPARK: (),
    }
)
"""The ACLs of each user. Only the operator of a Spark job knows which topics it needs."""


def make_users(admin: ottla.Admin, handed_out: Path) -> None:
    """Set the passwords, and create the ACLs. Raises OttlaError."""
    for user, acls in ACLS.items():
        password = read_secret(f"the user {user}", handed_out / user / f"{user}.password")
        admin.users.set_password(user, password)
        if acls:
            admin.acls.create(*acls)


def main(words: Sequence[str]) -> int:
    if words:
        print(_USAGE, file=sys.stderr)
        return 2
    try:
        config = load_profile(INSIDE, _HANDED_OUT / CLIENT / "clients.toml").config()
        with ottla.Admin(config.pop("bootstrap.servers"), config=config, request_timeout=_LIMIT_S) as admin:
            make_users(admin, _HANDED_OUT)
    except ottla.OttlaError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return 1
    for acl in (acl for acls in ACLS.values() for acl in acls):
        print(acl)
    print(f"User:{SPARK} may do what you allow it: ottla acl add {SPARK} --help")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
