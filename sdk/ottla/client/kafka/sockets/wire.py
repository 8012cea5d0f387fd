"""What lies between a connection and its socket: nothing, or TLS (`tls_wire.py`)."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Protocol


class Wire(Protocol):
    """It never blocks. A line calls it with its lock held."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        ...

    def opened(self, data: bytes) -> Iterable[bytes]:
        """Return the bytes of responses that are in the bytes of the socket. b"" says that the broker has closed.

        Raises OttlaError."""
        ...

    def send(self, pieces: list[memoryview | bytes]) -> int:
        """Take bytes of requests, and return how many. Raises BlockingIOError if the socket takes no more at the
        moment, and OSError if it is broken."""
        ...

    def flush(self) -> None:
        """Hand over to the socket what was taken. Raises like `send`."""
        ...

    def finish(self) -> None:
        """Tell the broker that no more requests come. Raises OSError."""
        ...


class PlainWire:
    """A socket without TLS."""

    is_open = True

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def opened(self, data: bytes) -> Iterable[bytes]:
        return (data,)

    def send(self, pieces: list[memoryview | bytes]) -> int:
        if len(pieces) == 1:
            return self._socket.send(pieces[0])
        if hasattr(self._socket, "sendmsg"):
            return self._socket.sendmsg(pieces)
        return self._socket.send(b"".join(pieces))  # on Windows

    def flush(self) -> None:
        pass

    def finish(self) -> None:
        self._socket.shutdown(socket.SHUT_WR)
