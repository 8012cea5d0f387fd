"""Says who a service is: a role and a name, which its certificate has as a URI, such as ottla://broker/1.

The URI is a subject alternative name of the certificate. A certificate of a Kafka client or listener has no such name,
so it opens no door between services, even if one authority has signed both.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, NamedTuple


class Role(StrEnum):
    """This is what a service does in its cluster. ADMIN is for programs that operators run against a service's gRPC
    port."""

    BROKER = "broker"
    CONTROLLER = "controller"
    GROUP_COORDINATOR = "group-coordinator"
    TXN_COORDINATOR = "txn-coordinator"
    MIRROR = "mirror"
    ADMIN = "admin"


AUTHORITY_KEY: Final = "ca.key"
"""`ottla ca` keeps the key of an authority in this file, beside the certificates that it has issued."""
SCHEME: Final = "ottla://"
NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_URI: Final = re.compile(rf"{SCHEME}({'|'.join(Role)})/({NAME.pattern})")


class ServiceIdentity(NamedTuple):
    """A service is known by its role, which decides what it may call, and its name, which logs show."""

    role: Role
    name: str

    @property
    def uri(self) -> str:
        return f"{SCHEME}{self.role}/{self.name}"

    @property
    def principal(self) -> str:
        """This is the principal of a call that the service makes for itself."""
        return f"Service:{self}"

    def __str__(self) -> str:
        return f"{self.role}/{self.name}"


def service_uris(uris: Iterable[str]) -> list[str]:
    """Return those of the URIs that are meant for calls between services, whether they name a known role or not."""
    return [uri for uri in uris if uri.lower().startswith(SCHEME)]


def identity_of(uris: Iterable[str]) -> ServiceIdentity | None:
    """Return the identity that a certificate with these URIs has, or None if it names no service, or several.

    URIs of other schemes have no meaning here, and neither have roles that this release does not know.
    """
    ours = service_uris(uris)
    match = _URI.fullmatch(ours[0]) if len(ours) == 1 else None
    return None if match is None else ServiceIdentity(Role(match[1]), match[2])
