"""Kafka's frames: a length of four bytes, then a header with a correlation id, then a message."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

from ottla.client.kafka.apis import AnyApi
from ottla_core.kafka import codec
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import RequestHeader, ResponseHeader

_HEAD: Final = struct.Struct(">ii")
_LENGTH: Final = struct.Struct(">i")
LENGTH_BYTES: Final = 4
HEAD_BYTES: Final = 8
"""A length and a correlation id: whether a frame is welcome can be decided once these bytes are there."""


def request_frame(api: AnyApi, version: int, correlation_id: int, client_id: str, request: Message) -> list[bytes]:
    """Return the frame of a request in two pieces, so that records need not be copied into one. Raises
    UnencodableError."""
    header = codec.encode(
        RequestHeader(
            request_api_key=api.key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
        ),
        api.request_header(version),
    )
    body = codec.encode(request, version)
    return [_LENGTH.pack(len(header) + len(body)) + header, body]


def response_in(api: AnyApi, version: int, frame: bytes) -> Message:
    """Return the message in the frame of a response. Raises MalformedError."""
    _, at = codec.decode_at(ResponseHeader, frame, api.response_header(version), LENGTH_BYTES)
    message: Message = codec.decode_at(api.response, frame, version, at)[0]
    return message


class FrameReader:
    """Cuts the bytes of a connection into frames.

    Bytes are kept as they come and joined once, when their frame is complete. So a frame takes memory only for the
    bytes that have arrived, whatever length it announces.
    """

    def __init__(self, check: Callable[[int, int], None]) -> None:
        """`check` gets the length and the correlation id of each frame as soon as both are known. It may raise."""
        self._check: Final = check
        self._pieces: list[bytes] = []
        self._has_bytes = 0
        self._needs_bytes = HEAD_BYTES
        self._last_bytes = HEAD_BYTES

    @property
    def expected_bytes(self) -> int:
        """How many bytes the frame that has begun still needs. Before its head has come, it is taken to be as long as
        the last one."""
        whole_bytes = self._last_bytes if self._needs_bytes == HEAD_BYTES else self._needs_bytes
        return whole_bytes - self._has_bytes

    @property
    def unfinished(self) -> str:
        """A clause about the unfinished frame, or "" if there is none."""
        if not self._has_bytes:
            return ""
        if self._needs_bytes == HEAD_BYTES:
            return f"it sent {self._has_bytes} bytes of a response"
        return f"it sent {self._has_bytes} of the {self._needs_bytes} bytes of a response"

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Take in bytes, and yield the frames that are complete, each with its length."""
        self._pieces.append(data)
        self._has_bytes += len(data)
        while self._has_bytes >= self._needs_bytes:
            if self._needs_bytes == HEAD_BYTES:
                start = self._joined()
                length, correlation_id = _HEAD.unpack_from(start)
                self._check(length, correlation_id)
                self._needs_bytes = LENGTH_BYTES + length
                if self._has_bytes < self._needs_bytes:
                    return
            frame, end = self._joined(), self._needs_bytes
            self._last_bytes = end
            self._has_bytes -= end
            self._needs_bytes = HEAD_BYTES
            self._pieces = []
            if self._has_bytes:
                self._pieces = [frame[end:]]
                frame = frame[:end]
            yield frame

    def _joined(self) -> bytes:
        if len(self._pieces) > 1:
            self._pieces = [b"".join(self._pieces)]
        return self._pieces[0]
