"""Tells whether a connection's client has ended it, which a transport that does not read at the moment can't see."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

_CLOSED_STATES: Final = (7, 8)
"""TCP_CLOSE and TCP_CLOSE_WAIT of Linux, in the first byte of tcp_info."""


def has_ended(transport: asyncio.BaseTransport) -> bool:
    """Return whether the client has ended the connection, or False if the system does not tell."""
    end: Any = transport.get_extra_info("socket")
    if end is None or not hasattr(socket, "TCP_INFO"):
        return False
    try:
        state: int = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    except OSError:  # it is being closed
        return False
    return state in _CLOSED_STATES
