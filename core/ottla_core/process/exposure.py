"""Decides where a service may listen without protection: on loopback, or where the setting `insecure` allows it.

Whoever reaches an unprotected address can do whatever the service can, and read what others send to it. On loopback,
only programs of the same host reach it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.host_port import HostPort


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
        if endpoint.danger and not insecure and not HostPort(endpoint.host, 0).is_loopback:
            trust = "set insecure=true (--insecure) if you trust every host that reaches this address"
            raise OttlaError(
                ErrorCode.INVALID_CONFIG,
                f"{endpoint.name} would listen on {endpoint.host or 'every address'}, which is not loopback, and "
                f"{endpoint.danger}",
                hint=", ".join(filter(None, (endpoint.remedy, "listen on 127.0.0.1", f"or {trust}"))),
            )
