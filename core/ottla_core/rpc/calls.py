"""Bounds the memory that unary and gathered calls may hold together. Each holds its request until there is a response,
and then the response.

gRPC reads a message before it can be rejected, so a call beyond the limit is rejected as soon as it arrives. Small
calls have a part of their own: an election or a heartbeat must not be rejected because of what others send.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

MAX_CALLS: Final = 10_000
"""The most calls that are open at the same time. It is as many as a broker has Kafka connections, each of which may
wait for its group."""
MAX_BYTES: Final = 128 * 1024 * 1024
MAX_BYTES_OF_SMALL: Final = MAX_BYTES + 16 * 1024 * 1024
SMALL_BYTES: Final = 64 * 1024

_LOG_INTERVAL_S: Final = 1.0

_log = logging.getLogger(__name__)


class TooMuchError(Exception):
    """The server can't take another call now."""


class Calls:
    """The unary and gathered calls of one server."""

    def __init__(self) -> None:
        self.open = 0
        self.bytes = 0
        self._logged_at = 0.0
        self._rejected = 0

    @contextmanager
    def counted(self, request: bytes, peer: str) -> Iterator[OpenCall]:
        """Count a call while it is open. Raises TooMuchError if there is no room for it."""
        call = self.begin(request, peer)
        try:
            yield call
        finally:
            call.end()

    def begin(self, request: bytes, peer: str) -> OpenCall:
        """Count a call until its `end`. Raises TooMuchError if there is no room for it."""
        size_bytes = len(request)
        limit = MAX_BYTES_OF_SMALL if size_bytes <= SMALL_BYTES else MAX_BYTES
        if self.open >= MAX_CALLS or self.bytes + size_bytes > limit:
            self._reject(peer)
        call = OpenCall(self)
        self.open += 1
        call.holding(request)
        return call

    def _reject(self, peer: str) -> None:
        message = f"{self.open} calls are open and hold {self.bytes} bytes, and this server takes no more"
        self._rejected += 1
        if time.monotonic() - self._logged_at >= _LOG_INTERVAL_S:  # a rejected caller may try again at once
            _log.warning("rejected calls: %d; the last one came from %s: %s", self._rejected, peer, message)
            self._logged_at, self._rejected = time.monotonic(), 0
        raise TooMuchError(message)


class OpenCall:
    __slots__ = ("_calls", "bytes")

    def __init__(self, calls: Calls) -> None:
        self._calls: Final = calls
        self.bytes = 0

    def holding(self, data: bytes) -> bytes:
        """Return the data, which the call holds from now on."""
        self.bytes += len(data)
        self._calls.bytes += len(data)
        return data

    def end(self) -> None:
        self._calls.open -= 1
        self._calls.bytes -= self.bytes
