"""Finds free ports of this machine for a whole stack."""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from typing import Final

from ottla_core.host_port import HostPort

LOOPBACK: Final = "127.0.0.1"
_SPAN: Final = 200  # all ports of a stack lie within it, except for those of the Kafka protocol
_KAFKA: Final = range(-508, -468)  # from the base: in a gap of another span, where no other stack has a port
_LOWEST, _HIGHEST = 20_000, 30_000  # below the kernel's ephemeral range, so that no client takes one in between
_CLAIM: Final = _SPAN - 1  # from the base: no stack uses that port, and binding it claims the span
_CLAIMS_KEPT: Final = 8  # in one process: the stack of an older claim has long bound its ports, or is over

_claims: Final[deque[int]] = deque()


def free_port_base() -> int:
    """Choose a port base whose ports are free now, and claim it so that no other process on this machine chooses it
    before a stack has bound them. Raises OSError when there is none."""
    for _ in range(100):
        base = random.randrange(_LOWEST, _HIGHEST, _SPAN)  # noqa: S311 - spreads, hides nothing
        if _claim(base):
            return base
    raise OSError(f"there are no {_SPAN} consecutive free ports between {_LOWEST} and {_HIGHEST}")


def _claim(base: int) -> bool:
    claim = socket.socket()
    try:
        # It is bound without SO_REUSEADDR: two sockets that both have it may share a port while neither listens.
        claim.bind((LOOPBACK, base + _CLAIM))
        others = (*range(base, base + _CLAIM), *(base + offset for offset in _KAFKA))
        if not all(is_free(HostPort(LOOPBACK, port)) for port in others):
            return False
        _claims.append(claim.detach())
    except OSError:
        return False
    finally:
        claim.close()
    if len(_claims) > _CLAIMS_KEPT:
        os.close(_claims.popleft())
    return True


def hold(address: HostPort) -> socket.socket:
    """Keep an address of loopback for a server that is down, until the result is closed. Otherwise the kernel may give
    the address to the local end of any connection. Connections to the address are refused, and the server may bind it.
    Raises OSError."""
    held = socket.socket(socket.AF_INET6 if address.is_ipv6 else socket.AF_INET)
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(address)
    except OSError:
        held.close()
        raise
    return held


def is_free(address: HostPort) -> bool:
    """Return whether nothing holds the address now."""
    try:
        hold(address).close()
    except OSError:
        return False
    return True
