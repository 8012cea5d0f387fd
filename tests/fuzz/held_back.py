"""Connections that announce long frames and hold them back, as long as others are fuzzing: nobody else may notice."""

from __future__ import annotations

import asyncio
import struct
from typing import Final, Self

_FIRST: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""ApiVersions: who has asked for nothing yet may begin no long frame."""
_STARTS: Final = (
    *(struct.pack(">ihhih", (100 << 20) - 1, 0, 9, 1, -1) + bytes(size) for size in (0, 0, 0, 1, 100, 10_000)),
    *(struct.pack(">ihhih", (16 << 20) - 1, key, 1, 1, -1) + bytes(100) for key in (1, 2, 3, 9, 19)),
)


class HeldBack:
    def __init__(self) -> None:
        self._writers: Final[list[asyncio.StreamWriter]] = []

    @classmethod
    async def begin(cls, port: int) -> Self:
        held = cls()
        for start in _STARTS:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            held._writers.append(writer)
            writer.write(_FIRST)
            await reader.readexactly(struct.unpack(">i", await reader.readexactly(4))[0])
            writer.write(start)
        return held

    def end(self) -> None:
        for writer in self._writers:
            writer.close()
