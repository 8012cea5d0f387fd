"""The responses of a connection on their way out. Small ones leave together, and it is known what a client does not
take."""

from __future__ import annotations

import asyncio
from typing import Final

from ottla_broker.kafka.network.pace import ConnectionPace
from ottla_broker.kafka.wire.frames import Parts

_GATHERED_BYTES: Final = 4096
"""Smaller responses are sent together: a write costs as much as all other work for a small response."""


class Outbound:
    """`held_bytes` counts the responses that are not wholly taken. A response's memory is free only when all of it is
    taken."""

    def __init__(self, transport: asyncio.Transport, pace: ConnectionPace) -> None:
        self.held_bytes = 0
        self.is_taken = True
        self._transport: Final = transport
        self._pace: Final = pace
        self._gathered: Parts | None = None  # the small responses of a turn, or None outside of a turn
        self._written_bytes = 0
        self._taken_bytes = 0

    def cork(self) -> None:
        self._gathered = []

    def uncork(self) -> None:
        self._send_gathered()
        self._gathered = None

    def write(self, parts: Parts) -> int:
        """Write a response, and return its size. In a turn a small one may leave at the turn's end."""
        size_bytes = sum(map(len, parts))
        if self._gathered is not None and size_bytes <= _GATHERED_BYTES:
            self._gathered += parts
        else:
            self._send_gathered()
            self._send(parts, size_bytes)
        return size_bytes

    def on_pause(self) -> None:
        self.is_taken = False
        self._pace.restart()
        self._taken_bytes = self._written_bytes - self._transport.get_write_buffer_size()

    def on_resume(self) -> None:
        self.is_taken = True
        self.held_bytes = 0

    def is_too_slow(self) -> bool:
        """Return whether the client takes too little of what is there for it. To be called in each tick."""
        if self.is_taken:
            return False
        taken_bytes = self._written_bytes - self._transport.get_write_buffer_size()
        self._pace.move(taken_bytes - self._taken_bytes)
        self._taken_bytes = taken_bytes
        return self._pace.is_too_slow()

    def _send_gathered(self) -> None:
        if self._gathered:
            parts, self._gathered = self._gathered, []
            self._send(parts, sum(map(len, parts)))

    def _send(self, parts: Parts, size_bytes: int) -> None:
        if self._transport.is_closing():
            return
        self._written_bytes += size_bytes
        self._transport.writelines(parts)  # it may call `on_pause`
        if not self.is_taken:
            self.held_bytes += size_bytes
