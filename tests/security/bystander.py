"""Logs in and produces from an address of its own, and measures the time of each request."""

from __future__ import annotations

import secrets
import socket
import ssl
import struct
import time
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.faults.hostile import wire
from tests.security.port_fuzz import frame

from ottla.client.kafka.sasl.scram import ScramConversation
from ottla_core.records.twins import new_builder

ADDRESS: Final = "127.0.0.3"
_BROKER: Final = "127.0.0.1"
_LIMIT_S: Final = 20.0
_MECHANISM: Final = "SCRAM-SHA-256"
_BATCH_BYTES: Final = 1_000


class Bystander:
    """A connection with TLS that has logged in by SCRAM. Raises OSError if the login fails."""

    def __init__(self, port: int, ca: Path, user: str, password: str) -> None:
        context = ssl.create_default_context(cafile=ca)
        plain = socket.create_connection((_BROKER, port), _LIMIT_S, (ADDRESS, 0))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._socket: Final = context.wrap_socket(plain, server_hostname=_BROKER)
            self._log_in(user, password)
        except BaseException:
            plain.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def latencies(self, topic: str, seconds: float, each_s: float) -> list[float]:
        """Produce with acks=all at a steady pace, and return how long each request took, in seconds."""
        builder = new_builder(1_000_000)
        builder.append(1, None, bytes(_BATCH_BYTES))
        request = wire.produce(topic, 0, builder.seal())
        taken, due = [], time.monotonic()
        until = due + seconds
        while due < until:
            begun = time.monotonic()
            if code := wire.read_produced(self._ask(request)):
                raise OSError(f"a produce failed with error {code}")
            taken.append(time.monotonic() - begun)
            due = max(due + each_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
        return taken

    def _log_in(self, user: str, password: str) -> None:
        conversation = ScramConversation(_MECHANISM, user, password, secrets.token_urlsafe(24))
        self._ask(frame(17, 1, wire.string(_MECHANISM)))
        message: bytes | None = conversation.first()
        while message is not None:
            response = self._ask(frame(36, 0, struct.pack(">i", len(message)) + message))
            code, text_bytes = struct.unpack_from(">hh", response, 4)
            if code:
                raise OSError(f"the login failed with error {code}")
            message = conversation.answer(response[8 + max(0, text_bytes) + 4 :])

    def _ask(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the broker has ended the connection")
            data += more
        return data
