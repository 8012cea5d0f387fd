"""How the lines of one client are protected: by TLS, by a login, by both or by neither."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from ottla.client.kafka.sasl.conversation import Conversation
from ottla.client.kafka.sockets.wire import PlainWire, Wire

if TYPE_CHECKING:
    from ssl import SSLContext


class Login(Protocol):
    """A way to log in."""

    def conversation(self) -> Conversation:
        """Begin one login. It may block, and it may raise anything."""
        ...


class Protection(NamedTuple):
    """None means that there is no TLS, or no login."""

    tls: SSLContext | None = None
    login: Login | None = None

    def wire(self, connection: socket.socket, host: str) -> Wire:
        """Return what lies between a connection and its socket. Raises ValueError if TLS can't use the host name."""
        if self.tls is None:
            return PlainWire(connection)
        from ottla.client.kafka.sockets.tls_wire import TlsWire  # here, because `ssl` takes 10 ms to import

        return TlsWire(connection, self.tls, host)


OPEN: Final = Protection()
