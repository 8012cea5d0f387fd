"""Runs clients of a TlsTransport in memory: their TLS is real, and their sockets take and give what a test says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from certificates import Authority, Certificate
from key_updates import key_updates
from listeners import Transport

from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_broker.kafka.network.tls_port import TlsPort
from ottla_broker.kafka.network.tls_transport import TlsTransport
from ottla_broker.kafka.network.turns import Turns

CLIENT_HOST: Final = "10.0.0.2"
_QUIET_TURNS: Final = 3
_MOST_TURNS: Final = 10_000


class Certificates:
    """These are an authority, the broker's certificate and a client's."""

    def __init__(self, folder: Path) -> None:
        self.authority: Final = Authority(folder)
        self.broker: Final = self.authority.issue("broker", "IP:127.0.0.1", "DNS:localhost")
        self.client: Final = self.authority.issue("client")

    def server_context(self, verify: ssl.VerifyMode = ssl.CERT_NONE) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.broker.both)
        context.load_verify_locations(self.authority.certificate)
        context.verify_mode = verify
        context.num_tickets = 0
        return context

    def client_context(self, certificate: Certificate | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(self.authority.certificate)
        if certificate is not None:
            context.load_cert_chain(certificate.certificate, certificate.key)
        return context


class Identity:
    """It has the broker's certificate for a port, and names the port's clients."""

    def __init__(self, context: ssl.SSLContext, principal: Callable[[bytes | None], str]) -> None:
        self.current = context
        self.principal: Final = principal

    def context(self) -> ssl.SSLContext:
        return self.current


class FakeSocket(Transport):
    """This is the transport of a socket. While it is `full`, what is written stays."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: TlsTransport
        self.sent = bytearray()
        self.kept = bytearray()
        self.full = False
        self.largest_kept = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": (CLIENT_HOST, 50_000), "sockname": ("10.0.0.1", 9093)}.get(name, default)

    def get_write_buffer_size(self) -> int:
        return len(self.kept)

    def write(self, data: Any) -> None:
        if not self.full:
            self.sent += data
            return
        was_empty = not self.kept
        self.kept += data
        self.largest_kept = max(self.largest_kept, len(self.kept))
        if was_empty and data:
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def take_on(self) -> None:
        self.full = False
        if self.kept:
            self.sent += self.kept
            self.kept.clear()
            self.protocol.resume_writing()


class Port:
    """This is a TlsPort, with what it has reported."""

    def __init__(
        self,
        context: ssl.SSLContext,
        limits: ConnectionLimits,
        principal: Callable[[bytes | None], str] = lambda _: "User:ANONYMOUS",
        newcomers: Turns | None = None,
    ) -> None:
        self.time = 0.0
        self.refused: list[str] = []
        self.identity: Final = Identity(context, principal)
        turns, newcomers = Turns(), newcomers or Turns()
        self.port: Final = TlsPort(
            self.identity, lambda: limits, turns, newcomers, lambda: self.time, self._on_rejected
        )

    def _on_rejected(self, reason: str, client_host: str) -> None:
        assert client_host == CLIENT_HOST
        self.refused.append(reason)


class TlsClient:
    """This client has connected. `received` is what the broker has sent, and `ended` tells whether the broker has said
    that nothing follows (close_notify)."""

    def __init__(
        self, port: Port, context: ssl.SSLContext, new_connection: Callable[[str], asyncio.BufferedProtocol]
    ) -> None:
        self.socket: Final = FakeSocket()
        self.transport: Final = TlsTransport(port.port, new_connection)
        self.socket.protocol = self.transport
        self.received = bytearray()
        self.ended = False
        self.is_open = False
        self._arriving = bytearray()
        self._port: Final = port
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: Final = context.wrap_bio(self._in, self._out, server_hostname="localhost")
        self.transport.connection_made(self.socket)

    def say(self, data: bytes) -> None:
        """Seal data for the broker. It leaves with the next bytes of the handshake or of `talk`."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]  # one record

    def change_keys(self, size_bytes: int) -> bytes:
        """Return about this many bytes of changes of the keys."""
        return key_updates(self._tls, self._out, size_bytes)

    def say_end(self) -> None:
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            return

    def step(self) -> bytes:
        """Take what was received, and return what the client sends."""
        self._in.write(bytes(self.socket.sent))
        self.socket.sent.clear()
        try:
            if not self.is_open:
                self._tls.do_handshake()
                self.is_open = True
            while opened := self._tls.read(1 << 20):
                self.received += opened
            self.ended = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLZeroReturnError:
            self.ended = True
        return self._out.read()

    def give(self, data: bytes, piece_bytes: int = 1 << 20) -> None:
        """Let the bytes arrive in pieces. Those that the socket does not read now arrive with the next call."""
        self._arriving += data
        while self._arriving and self.socket.reading and not self.socket.closed:
            buffer = self.transport.get_buffer(-1)
            count = min(len(buffer), piece_bytes, len(self._arriving))
            buffer[:count] = self._arriving[:count]
            del self._arriving[:count]
            self.transport.buffer_updated(count)

    async def talk(self, piece_bytes: int = 1 << 20) -> None:
        """Carry bytes both ways until neither side has any."""
        quiet = 0
        for _ in range(_MOST_TURNS):
            data, before = self.step(), len(self._arriving)
            self.give(data, piece_bytes)
            is_moving = data or self.socket.sent or len(self._arriving) != before
            quiet = 0 if is_moving else quiet + 1
            if quiet > _QUIET_TURNS:
                return
            await asyncio.sleep(0)
        raise AssertionError("the two sides never come to rest")

    def lose(self) -> None:
        self.transport.connection_lost(None)
