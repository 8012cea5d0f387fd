"""Says what a certificate is for: a service of a role, a Kafka listener, or a Kafka client."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from ottla.errors import config_error
from ottla_core.security.service_identity import NAME, Role, ServiceIdentity, identity_of

LISTENER: Final = "listener"
CLIENT: Final = "client"
KINDS: Final = (*Role, LISTENER, CLIENT)
LOCAL_HOSTS: Final = ("localhost", "127.0.0.1", "::1")

_WITHOUT_HOSTS: Final = (Role.ADMIN, CLIENT)
"""They serve nothing, so nobody connects to a host of theirs."""
_MAX_COMMON_NAME: Final = 64
"""This is X.509's limit."""
_USER: Final = re.compile(r"[A-Za-z0-9._@-]{1,64}")
_HOST: Final = re.compile(r"(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_-]{1,63}")


class Subject(NamedTuple):
    """The kind (a role, "listener" or "client"), the name, and the hosts at which others connect to it."""

    kind: str
    name: str
    hosts: tuple[str, ...] = ()

    @property
    def file_name(self) -> str:
        return f"{self.kind}-{self.name}"

    @property
    def common_name(self) -> str:
        """For a client, this is the name of its user. For a service, only people read it: services read the URI."""
        return self.name if self.identity is None else self.file_name[:_MAX_COMMON_NAME]

    @property
    def identity(self) -> ServiceIdentity | None:
        """This is the service's identity, or None for Kafka's side."""
        return ServiceIdentity(Role(self.kind), self.name) if self.kind in list(Role) else None

    @property
    def serves(self) -> bool:
        return self.kind not in _WITHOUT_HOSTS

    @property
    def connects(self) -> bool:
        return self.kind != LISTENER

    @property
    def alternative_names(self) -> list[x509.GeneralName]:
        names: list[x509.GeneralName] = [_host_name(host) for host in self.hosts]
        if self.identity is not None:
            names.append(x509.UniformResourceIdentifier(self.identity.uri))
        return names


def subject(kind: str, name: str, hosts: Sequence[str] = ()) -> Subject:
    """Return the subject of a new certificate. Raises ConfigError for a kind, a name or a host that can't be."""
    if kind not in KINDS:
        raise config_error(f"{kind!r} is nothing that has a certificate", hint=f"give one of {', '.join(KINDS)}")
    allowed = _USER if kind == CLIENT else NAME
    if not allowed.fullmatch(name):
        raise config_error(
            f"the name {name[:80]!r} can't be in a certificate",
            hint=f"use up to 64 letters, digits, '.', '_'{', @' if kind == CLIENT else ''} and '-'",
        )
    if kind in _WITHOUT_HOSTS:
        if hosts:
            raise config_error(f"a certificate for {kind} names no hosts", hint="leave --host out")
        return Subject(kind, name)
    for host in hosts:
        _host_name(host)
    return Subject(kind, name, tuple(hosts) or LOCAL_HOSTS)


def subject_of(certificate: x509.Certificate) -> Subject | None:
    """Return whom a certificate of `ottla ca` is for, or None if it is another's."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not names:
        return None
    try:
        alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return Subject(CLIENT, str(names[0].value))
    hosts = [
        *alternative.get_values_for_type(x509.DNSName),
        *map(str, alternative.get_values_for_type(x509.IPAddress)),
    ]
    identity = identity_of(alternative.get_values_for_type(x509.UniformResourceIdentifier))
    if identity is not None:
        return Subject(identity.role, identity.name, tuple(hosts))
    return Subject(LISTENER, str(names[0].value), tuple(hosts))


def _host_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host):
            raise config_error(
                f"{host[:80]!r} is no host", hint="give a DNS name or an IP address, without a port"
            ) from None
        return x509.DNSName(host)
