"""A host and a port, and the one way to write them: host:port, with an IPv6 address in brackets, as in [::1]:9092."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address
from typing import Final, NamedTuple, Self

from ottla_core.errors import ErrorCode, OttlaError

_LAST_PORT: Final = 65_535
_DIGITS: Final = len(str(_LAST_PORT))
_EVERY_INTERFACE: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104 - recognized here, not bound
_NOT_IN_NAMES: Final = re.compile(r"[\s/@,\[\]]")


class _HostPort(NamedTuple):
    host: str
    port: int


class HostPort(_HostPort):
    """A host without brackets, and a port. Sockets take this tuple, and gRPC and people take its text."""

    __slots__ = ()

    def __new__(cls, host: str, port: int) -> Self:
        return super().__new__(cls, host.removeprefix("[").removesuffix("]"), port)

    @classmethod
    def parse(cls, text: str, *, listens: bool = False) -> Self:
        """Return the address that a text spells. Raises INVALID_CONFIG.

        With `listens`, an empty host stands for every interface, and port 0 for a free port. As in Kafka, an IPv6
        address may lack its brackets. The port follows the last colon.
        """
        host, colon, port = text.rpartition(":")
        if not colon or not port or port.endswith("]"):
            raise _invalid(text, "it has no port")
        if not (port.isascii() and port.isdigit() and len(port) <= _DIGITS and int(port) <= _LAST_PORT):
            raise _invalid(text, f"it has no port but {port!r}")
        if not (listens or int(port)):
            raise _invalid(text, "nothing can connect to port 0")
        if not (host or listens):
            raise _invalid(text, "it has no host")
        if not _is_host(host):
            raise _invalid(text, f"{host!r} is neither a name nor an IP address")
        return cls(host, int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.is_ipv6 else f"{self.host}:{self.port}"

    @property
    def is_ipv6(self) -> bool:
        return ":" in self.host

    @property
    def is_every_interface(self) -> bool:
        """Whether the host stands for every interface of its machine. Such an address can be bound, but not dialled."""
        return self.host in _EVERY_INTERFACE

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches the host: it is in 127.0.0.0/8, or it is ::1 or localhost.

        No other name counts, because what a name resolves to may change.
        """
        if self.host.lower() == "localhost":
            return True
        try:
            address = ip_address(self.host)
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
        return (mapped or address).is_loopback


def _is_host(host: str) -> bool:
    has_brackets = host.startswith("[") and host.endswith("]")
    if not has_brackets and ":" not in host:
        return _NOT_IN_NAMES.search(host) is None
    try:
        IPv6Address(host[1:-1] if has_brackets else host)
    except ValueError:
        return False
    return True


def _invalid(text: str, reason: str) -> OttlaError:
    return OttlaError(
        ErrorCode.INVALID_CONFIG,
        f"{text!r} is not an address: {reason}",
        hint="write host:port, such as localhost:9092 or [::1]:9092",
    )
