"""Clients that begin a frame and never end it: the broker gives them up, though later than any other case."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from typing import Final

from ottla_broker.kafka.network.limits import ConnectionLimits

_STARTS: Final = (
    b"\0",
    b"\0\0\0",
    struct.pack(">ihh", 100, 3, 12),
    struct.pack(">ihhih", 50_000_000, 0, 9, 1, -1) + bytes(1_000),
    struct.pack(">ihhih", 1_000, 1, 4, 1, 30_000),
)
_FIRST: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions: who has asked for nothing yet may begin no long frame."""
_LATE_S: Final = 8.0


class Endless:
    """`end` tells what is still open and should not be, where the run was long enough to say so."""

    def __init__(self) -> None:
        self._begun_at: Final = time.monotonic()
        self._open: Final[list[tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]]] = []

    @classmethod
    async def begin(cls, port: int) -> Endless:
        endless = cls()
        for start in _STARTS:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(_FIRST)
            await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
            writer.write(start)
            endless._open.append((start, reader, writer))
        return endless

    async def end(self) -> str:
        """Its words, "" for nothing."""
        waited_s = time.monotonic() - self._begun_at
        late = []
        for start, reader, writer in self._open:
            is_due = waited_s > ConnectionLimits().frame_s + _LATE_S
            if is_due and not await _is_closed(reader):
                late.append(f"half a frame is still waited for after {waited_s:.0f} s: {start[:16].hex()}")
            writer.close()
        return "; ".join(late)


async def _is_closed(reader: asyncio.StreamReader) -> bool:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(1):
            return await reader.read(1) == b""
    return False
