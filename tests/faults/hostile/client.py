"""`python -m tests.faults.hostile.client`: so many hostile connections to one broker, for so long.

Each does one thing, and begins again when it is cut. In the end the history tells how often each was done.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

from tests.faults.history import HistoryWriter, client_parser
from tests.faults.hostile import wire

REPEATS: Final = 10_000
_ANNOUNCED: Final = 100 * wire.MIB - 1
_FETCHED: Final = 4 * wire.MIB
_AGAIN_S: Final = 1.0
_BETWEEN_REPEATS_S: Final = 10.0
_SMALL_WINDOW: Final = 4096


class Hostile:
    """`data` is the partition that is read, such as topic-0."""

    def __init__(self, address: str, topic: str, data: str) -> None:
        host, _, port = address.rpartition(":")
        self.did: Final[Counter[str]] = Counter()
        self._host, self._port = host, int(port)
        data_topic, _, partition = data.rpartition("-")
        self._topic, self._data_topic, self._data_partition = topic, data_topic, int(partition)
        self._ways: Final[tuple[Callable[[], Awaitable[None]], ...]] = (
            self._announce,
            self._announce_unknown,
            self._trickle,
            self._stop_reading,
            self._repeat,
        )

    async def run(self, connections: int, seconds: float) -> None:
        ways = [self._ways[n % len(self._ways)] for n in range(connections)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*map(self._again_and_again, ways))

    async def _again_and_again(self, way: Callable[[], Awaitable[None]]) -> None:
        while True:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await way()
            self.did["cut"] += 1
            await asyncio.sleep(_AGAIN_S)

    async def _announce(self) -> None:
        """A long frame, of which nothing comes."""
        reader, writer = await self._connect()
        await self._ask(reader, writer, wire.api_versions())
        writer.write(wire.announced(_ANNOUNCED))
        self.did["announced"] += 1
        await _until_cut(reader, writer)

    async def _announce_unknown(self) -> None:
        """The same, from who has asked for nothing yet."""
        reader, writer = await self._connect()
        writer.write(wire.announced(_ANNOUNCED))
        self.did["announced first"] += 1
        await _until_cut(reader, writer)

    async def _trickle(self) -> None:
        """A long frame that comes at a rate which is just worth waiting for."""
        reader, writer = await self._connect()
        await self._ask(reader, writer, wire.api_versions())
        writer.write(wire.announced(_ANNOUNCED))
        self.did["trickled"] += 1
        try:
            while not reader.at_eof():
                writer.write(bytes(40_000))
                async with asyncio.timeout(30):
                    await writer.drain()
                await asyncio.sleep(1)
        finally:
            writer.transport.abort()

    async def _stop_reading(self) -> None:
        """Much is asked for, and nothing of it read."""
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL_WINDOW)
            sock.setblocking(False)
            await loop.sock_connect(sock, (self._host, self._port))
            await loop.sock_sendall(
                sock, b"".join(wire.fetch(self._data_topic, self._data_partition, _FETCHED) for _ in range(4))
            )
            self.did["not read"] += 1
            ended = select.poll()
            ended.register(sock, 0)  # its end is told whatever is asked for
            while not ended.poll(0):
                await asyncio.sleep(1)

    async def _repeat(self) -> None:
        """One element, ten thousand times in a request."""
        reader, writer = await self._connect()
        try:
            while True:
                for asked in (
                    wire.offsets_of(self._data_topic, self._data_partition, REPEATS),
                    wire.metadata_of(self._topic, REPEATS),
                ):
                    self.did["repeated"] += 1
                    await self._ask(reader, writer, asked)
                    await asyncio.sleep(_BETWEEN_REPEATS_S)
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.did["connected"] += 1
        return await asyncio.open_connection(self._host, self._port)

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> bytes:
        writer.write(asked)
        return await wire.read_answer(reader)


async def _until_cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await reader.read()
    finally:
        writer.transport.abort()


def main(arguments: list[str]) -> int:
    parser = client_parser("hostile.client", __doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--connections", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    given = parser.parse_args(arguments)
    hostile = Hostile(given.address, given.topic, given.data)
    asyncio.run(hostile.run(given.connections, given.seconds))
    history = HistoryWriter(given.history, given.process)
    history.add("ok", "hostile", did=dict(hostile.did))
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
