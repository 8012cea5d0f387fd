"""What ACLs say, in the plainest way: each question looks at every ACL. Random ACLs and requests to ask about."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from ottla_core.security.acl import Acl, Permission
from ottla_core.security.resource import PatternType, ResourceType
from ottla_proto.operation import Operation

PRINCIPALS = ("User:alice", "User:bob", "Role:alice")
ACL_PRINCIPALS = (*PRINCIPALS, "User:*")
HOSTS = ("10.0.0.1", "10.0.0.2", "10.1.0.1", "192.168.0.1", "2001:db8:0:0:0:0:0:1", "2001:db8::2", "::ffff:10.0.0.1")
ACL_HOSTS = (
    *("*", "*", "*", "10.0.0.1", "10.0.0.2", "2001:db8:0:0:0:0:0:1", "somewhere", "10.0.0.1/32", "10.0.0.7/24"),
    *("10.0.0.0/8", "10.0.0.0/31", "0.0.0.0/0", "2001:db8::/32", "2001:db8::2/127", "::/0"),
)
OPERATIONS = tuple(operation for operation in Operation if operation > Operation.ANY)
COMMON = (Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALTER_CONFIGS, Operation.DESCRIBE_CONFIGS)
TYPES = (ResourceType.TOPIC, ResourceType.TOPIC, ResourceType.GROUP)
_IMPLIES = {
    Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
}
_FRESH = "~of no ACL"
"""A text that no name of an ACL contains."""


@dataclass(frozen=True)
class Request:
    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    name: str


@dataclass(frozen=True)
class NaiveAuthorizer:
    acls: Sequence[Acl]
    super_users: frozenset[str] = frozenset()
    allow_everyone: bool = False

    def is_allowed(self, request: Request) -> bool:
        if request.principal in self.super_users:
            return True
        found = [acl for acl in self.acls if matches_resource(acl, request)]
        return self._is_allowed(request, found, implied=True) if found else self.allow_everyone

    def is_allowed_on_any(self, request: Request) -> bool:
        """Try the name that Kafka tries, then each name that an ACL could mean, and ones that no other ACL means."""
        if self.is_allowed(_named(request, "hardcode")):
            return True
        names = [name for acl in self.acls for name in (acl.name, acl.name + _FRESH)]
        return any(
            self._is_allowed(tried, [acl for acl in self.acls if matches_resource(acl, tried)], implied=False)
            for tried in (_named(request, name) for name in [*names, _FRESH])
        )

    def _is_allowed(self, request: Request, found: Iterable[Acl], *, implied: bool) -> bool:
        said = {acl.permission for acl in found if _applies(acl, request, implied=implied)}
        return Permission.ALLOW in said and Permission.DENY not in said


def matches_resource(acl: Acl, request: Request) -> bool:
    if acl.resource_type is not request.resource_type:
        return False
    if acl.pattern_type is PatternType.PREFIXED:
        return request.name.startswith(acl.name)
    return acl.name in ("*", request.name)


def _applies(acl: Acl, request: Request, *, implied: bool) -> bool:
    operations = [request.operation, Operation.ALL]
    if implied and acl.permission is Permission.ALLOW:
        operations += _IMPLIES.get(request.operation, ())
    return (
        acl.principal in ("User:*", request.principal)
        and acl.operation in operations
        and _matches_host(acl.host, request.host)
    )


def _matches_host(pattern: str, host: str) -> bool:
    if "/" in pattern:
        return _address(host) in ip_network(pattern, strict=False)
    if pattern in ("*", host):
        return True
    try:
        return ip_address(pattern) == _address(host)
    except ValueError:
        return False


def _address(host: str) -> IPv4Address | IPv6Address:
    address = ip_address(host)
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def _named(request: Request, name: str) -> Request:
    return Request(request.principal, request.host, request.operation, request.resource_type, name)


# ---- random ones ----------------------------------------------------------------------------------------------------
def random_acls(chance: random.Random, most: int = 12) -> list[Acl]:
    return [random_acl(chance) for _ in range(chance.randrange(most + 1))]


def random_acl(chance: random.Random) -> Acl:
    return Acl(
        chance.choice(TYPES),
        "*" if chance.random() < 0.2 else random_name(chance),
        chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
        chance.choice(ACL_PRINCIPALS),
        chance.choice(ACL_HOSTS),
        chance.choice((Operation.ALL, *COMMON, chance.choice(OPERATIONS))),
        chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
    )


def random_request(chance: random.Random) -> Request:
    return Request(
        chance.choice(PRINCIPALS),
        chance.choice(HOSTS),
        chance.choice((*COMMON, chance.choice(OPERATIONS))),
        chance.choice(TYPES),
        random_name(chance),
    )


def random_name(chance: random.Random) -> str:
    """Return a short name, so that ACLs meet, or one that Kafka tries itself."""
    if chance.random() < 0.1:
        return "hardcode"[: chance.randrange(1, 9)]
    return "".join(chance.choices("aab*", k=chance.randrange(1, 5)))
