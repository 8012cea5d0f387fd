"""Bounds the memory that frames of a server may hold, in bytes: there is a budget for each stream, and one for all
streams of a method.

Each method has its own budget, so that no frame waits for one that can't be read: acks=all waits for the fetches of
followers, which must not wait for coordinators that read. A client that does not take its responses loses its stream
(streams.WRITE_LIMIT_S). So what is used up becomes free again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

MAX_FRAMES_IN_FLIGHT: Final = 32
MAX_BYTES_IN_FLIGHT: Final = 32 * 1024 * 1024
"""The limit for one stream."""

MAX_METHOD_BYTES_IN_FLIGHT: Final = 128 * 1024 * 1024
"""The limit for all streams of one method. Two things may exceed it: the frame that each stream is reading when the
limit is reached, and the responses to frames that have been read."""

_EXPECTED_FRAME_BYTES: Final = 1024 * 1024
_NEXT_LOOK_S: Final = 0.005


class MethodBudget:
    """The bytes in flight of all streams of a method, and the readers that wait for room, in the order of their coming.

    The size of a stream's next frame is unknown before it is read, and some streams bring nothing for long. So readers
    are let in a few at a time, as many as there is room for frames of the expected size, and more a moment later if
    room is left.
    """

    def __init__(self) -> None:
        self.bytes = 0
        self._readers: deque[asyncio.Future[None]] = deque()
        self._next_look: asyncio.Handle | None = None

    async def until_room(self) -> None:
        if self._room > 0 and not self._readers:
            return
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(admitted)
        await admitted

    def add(self, size_bytes: int) -> None:
        """Note that frames in flight hold this much more, or less if it is negative."""
        self.bytes += size_bytes
        if self._readers and self._next_look is None:
            self._let_in()

    @property
    def _room(self) -> int:
        return MAX_METHOD_BYTES_IN_FLIGHT - self.bytes

    def _let_in(self) -> None:
        self._next_look = None
        frames = -(-self._room // _EXPECTED_FRAME_BYTES)
        while self._readers and frames > 0:
            admitted = self._readers.popleft()
            if not admitted.done():  # otherwise its stream has ended
                admitted.set_result(None)
                frames -= 1
        if self._readers and self._room > 0:
            self._next_look = asyncio.get_running_loop().call_later(_NEXT_LOOK_S, self._let_in)


class StreamBudget:
    """The frames and bytes in flight of one stream. One reader waits, and many tasks give back."""

    def __init__(self, method: MethodBudget) -> None:
        self.frames = 0
        self.bytes = 0
        self._method = method
        self._room = asyncio.Event()
        self._room.set()

    async def until_room(self) -> None:
        await self._room.wait()
        await self._method.until_room()

    def take(self, size_bytes: int) -> FrameInFlight:
        self.change(1, size_bytes)
        return FrameInFlight(self, size_bytes)

    def change(self, frames: int, size_bytes: int) -> None:
        self.frames += frames
        self.bytes += size_bytes
        if self.frames < MAX_FRAMES_IN_FLIGHT and self.bytes < MAX_BYTES_IN_FLIGHT:
            self._room.set()
        else:
            self._room.clear()
        self._method.add(size_bytes)


class FrameInFlight:
    """The bytes that one frame holds, from being read until its response is sent."""

    __slots__ = ("_bytes", "_stream")

    def __init__(self, stream: StreamBudget, size_bytes: int) -> None:
        self._stream: Final = stream
        self._bytes = size_bytes

    def grow(self, size_bytes: int) -> None:
        """Count the response, which exists and is not written yet."""
        self._bytes += size_bytes
        self._stream.change(0, size_bytes)

    def end(self) -> None:
        self._stream.change(-1, -self._bytes)
