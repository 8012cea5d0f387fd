"""A place for a whole stack among this machine's ports."""

from __future__ import annotations

import random
import socket
from typing import Final

_SPAN: Final = 200  # all ports of a stack lie within it, but for those of the Kafka protocol
_KAFKA: Final = range(-508, -468)  # from the base: in a gap of another span, where no other stack has a port
_LOWEST, _HIGHEST = 20_000, 30_000  # below the kernel's ephemeral range, so that no client takes one meanwhile


def free_port_base() -> int:
    """A port base whose ports are free now. Chosen at random, so that two concurrent callers differ."""
    for _ in range(100):
        base = random.randrange(_LOWEST, _HIGHEST, _SPAN)  # noqa: S311 - spreads, hides nothing
        if all(is_free(port) for port in (*range(base, base + _SPAN), *(base + offset for offset in _KAFKA))):
            return base
    raise OSError(f"no {_SPAN} free ports in a row between {_LOWEST} and {_HIGHEST}")


def hold(port: int) -> socket.socket:
    """Keep a port of loopback for a server that is down, until the result is closed: else the kernel may give it to
    the local end of any connection. Connections to it are refused, and the server may bind it. Raises OSError."""
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
    except OSError:
        held.close()
        raise
    return held


def is_free(port: int) -> bool:
    """Whether nothing on loopback holds the port now."""
    try:
        hold(port).close()
    except OSError:
        return False
    return True
