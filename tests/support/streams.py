"""Connections as asyncio has them, which end with their block: the finalizer of one that is dropped open complains."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final, Self

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Streams:
    def __init__(self) -> None:
        self._writers: Final[list[asyncio.StreamWriter]] = []

    async def connect(self, port: int, **options: Any) -> Stream:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, **options)
        self._writers.append(writer)
        return reader, writer

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.transport.abort()
        for writer in self._writers:
            with suppress(OSError):  # what it ended with was the test's matter
                await writer.wait_closed()
