"""TCP's keepalive finds connections whose other side is gone without a word, as after a power failure."""

from __future__ import annotations

import contextlib
import socket
from typing import Final, Protocol

IDLE_S: Final = 60
"""How long a connection is silent before the system probes it."""
INTERVAL_S: Final = 10
PROBES: Final = 3
"""So many probes without an answer end the connection."""
_OPTIONS: Final = (
    ("TCP_KEEPIDLE", IDLE_S),
    ("TCP_KEEPALIVE", IDLE_S),  # the name on macOS
    ("TCP_KEEPINTVL", INTERVAL_S),
    ("TCP_KEEPCNT", PROBES),
)


class HasOptions(Protocol):
    """A socket, or what an event loop shows of one."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None: ...


def keep_alive(connection: HasOptions) -> None:
    """Have the system probe a connection while it is silent. A platform without an option keeps its own value."""
    with contextlib.suppress(OSError):  # the connection has ended already
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS:
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
