"""A client of the Kafka protocol that sends what it is told, byte by byte where need be."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self, TypeVar

from kafka.protocol.api_message import ApiMessage

from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import RequestHeader
from ottla_core.kafka.schema import schema_of

M = TypeVar("M", bound=Message)

LIMIT_S = 30.0
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 0, -1)


class KafkaWire:
    """One connection. Messages are kafka-python's; `ask` sends one and reads its answer."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=LIMIT_S)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def greet(self) -> Self:
        """Ask for something small: until then frames of more than 512 KiB are refused."""
        self.socket.sendall(_API_VERSIONS)
        self.frame()
        return self

    def send(self, request: Any, version: int) -> int:
        """The correlation id."""
        self._correlation_id += 1
        self.socket.sendall(framed(request, version, self._correlation_id))
        return self._correlation_id

    def ask(self, request: Any, version: int, answer_type: type[ApiMessage]) -> Any:
        sent = self.send(request, version)
        correlation_id, answer = self.answer(version, answer_type)
        assert correlation_id == sent
        return answer

    def ask_by_ours(self, request: Message, version: int, answer_type: type[M]) -> M:
        """The same for an API that only our own codec knows. Both messages are flexible, as all new ones are."""
        self._correlation_id += 1
        header = RequestHeader(
            request_api_key=schema_of(type(request).__name__).api_key,
            request_api_version=version,
            correlation_id=self._correlation_id,
            client_id="kafka-wire",
        )
        body = codec.encode(header, 2) + codec.encode(request, version)
        self.socket.sendall(struct.pack(">i", len(body)) + body)
        frame = self.frame()
        assert struct.unpack_from(">i", frame) == (self._correlation_id,)
        return codec.decode(answer_type, frame[5:], version)

    def answer(self, version: int, answer_type: Any) -> tuple[int, Any]:
        frame = self.frame()
        (correlation_id,) = struct.unpack_from(">i", frame)
        return correlation_id, answer_type.decode(frame, version=version, header=True)

    def frame(self) -> bytes:
        (size_bytes,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size_bytes)

    def is_closed(self) -> bool:
        """Whether the broker ends the connection; waits for it."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            piece = self.socket.recv(size_bytes - len(data))
            if not piece:
                raise ConnectionError(f"the broker has closed the connection after {len(data)} of {size_bytes} bytes")
            data += piece
        return bytes(data)


def framed(request: Any, version: int, correlation_id: int = 0, client_id: str = "kafka-wire") -> bytes:
    """The frame of a request."""
    request.API_VERSION = version
    request.with_header(correlation_id=correlation_id, client_id=client_id)
    return bytes(request.encode(version=version, header=True, framed=True))
