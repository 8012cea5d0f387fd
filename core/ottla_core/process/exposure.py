"""Decides where a service may listen without protection: on loopback, or where the setting `insecure` allows it.

Whoever reaches an unprotected address can do whatever the service can, and read what others send to it. On loopback,
only programs of the same host reach it.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple

from ottla_core.errors import ErrorCode, OttlaError


class Endpoint(NamedTuple):
    """An address on which a service listens. `danger` says what others could do there, and is empty if the address is
    protected. `remedy` says how to protect it."""

    name: str
    host: str
    danger: str
    remedy: str = ""


def check_exposure(endpoints: Iterable[Endpoint], *, insecure: bool) -> None:
    """Raise INVALID_CONFIG if an address that is not loopback is unprotected, unless `insecure` is set."""
    for endpoint in endpoints:
        if endpoint.danger and not insecure and not is_loopback(endpoint.host):
            trust = "set insecure=true (--insecure) if you trust every host that reaches this address"
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"{endpoint.name} would listen on {endpoint.host or 'every address'}, which is not loopback, and "
                f"{endpoint.danger}",
                hint=", ".join(filter(None, (endpoint.remedy, "listen on 127.0.0.1", f"or {trust}"))),
            )


def is_loopback(host: str) -> bool:
    """Return whether only this host reaches the address: it is in 127.0.0.0/8, or it is ::1 or localhost.

    No other name counts, because what a name resolves to may change.
    """
    if host.lower() == "localhost":
        return True
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped.is_loopback
    return address.is_loopback
