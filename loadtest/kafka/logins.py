"""What a client notices of 200 others that log in at once: the p99 of its requests with them, and without them.

The logins are by PLAIN over TLS, the costliest for a broker: each makes a handshake, and derives a key from a password.
They come in a burst every second, from a process of their own. The client beside them asks for metadata every two
milliseconds.
"""

from __future__ import annotations

import asyncio
import ssl
import statistics
import struct
import time
from collections.abc import Sequence
from multiprocessing import Process
from pathlib import Path
from typing import Final

from loadtest.kafka.comparison import Figure, Goal, Pair
from ottla_core.host_port import HostPort
from ottla_stack.running import RunningStack
from ottla_stack.secure_files import ADMIN

FIGURES: Final = (
    Figure("logins_p99", "p99 of a client beside 200 logins at once", Goal(most=2.0), "p99_ms", "ms"),
    Figure("logins_of_broker", "p99 of a client beside as many at another broker", field="elsewhere_ms", unit="ms"),
)
"""Logins keep the machine's processors busy at whichever broker they are. The second figure shows how much of the first
comes from that alone."""
_LOGINS: Final = 200
_SECONDS: Final = 3.0
_EVERY_S: Final = 0.002
_LIMIT_S: Final = 60.0
_METADATA: Final = struct.pack(">ihhihi", 14, 3, 1, 7, -1, 0)
"""Metadata, version 1, of no topic."""


def measure(directory: Path, pairs: int) -> list[Pair]:
    with RunningStack(directory / "logins", brokers=2, group_coordinators=1, secure=True) as stack:
        files = stack.plan.secure
        assert files is not None, "it is secured"
        ca, password = files.ca / "ca.pem", files.password.read_text().strip()
        clients = [_Client(address, ca, password) for address in stack.bootstrap.split(",")]
        _p99_ms(clients[0], clients[0], 0)
        return [_pair(*clients) for _ in range(pairs)]


def _pair(client: _Client, at_other_broker: _Client) -> Pair:
    beside_logins = {
        "p99_ms": _p99_ms(client, client, _LOGINS),
        "elsewhere_ms": _p99_ms(client, at_other_broker, _LOGINS),
    }
    return beside_logins, dict.fromkeys(beside_logins, _p99_ms(client, client, 0))


def _p99_ms(client: _Client, others: _Client, logins: int) -> float:
    """Return the p99 of a client's requests, while so many others log in each second."""
    process = Process(target=others.log_in_each_second, args=(logins,), daemon=True)
    process.start()
    try:
        return _p99(client.asked()) * 1000
    finally:
        process.kill()  # it may swallow what a handler of SIGTERM raises
        process.join()


class _Client:
    def __init__(self, address: str, ca: Path, password: str) -> None:
        self._port: Final = HostPort.parse(address).port
        self._context: Final = ssl.create_default_context(cafile=ca)
        self._message: Final = f"\0{ADMIN}\0{password}".encode()

    def asked(self) -> list[float]:
        """Return how long each request took, in seconds."""
        return asyncio.run(self._asked())

    def log_in_each_second(self, logins: int) -> None:
        asyncio.run(self._log_in_each_second(logins))

    async def _asked(self) -> list[float]:
        async with asyncio.timeout(_LIMIT_S):
            reader, writer = await self._logged_in()
            try:
                return await self._ask(reader, writer)
            finally:
                writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[float]:
        taken, until = [], time.monotonic() + _SECONDS
        while (begun := time.monotonic()) < until:
            writer.write(_METADATA)
            await _response(reader)
            taken.append(time.monotonic() - begun)
            await asyncio.sleep(_EVERY_S)
        return taken

    async def _log_in_each_second(self, logins: int) -> None:
        while True:
            begun = time.monotonic()
            for _, writer in await asyncio.gather(*(self._logged_in() for _ in range(logins))):
                writer.close()
            await asyncio.sleep(max(0.0, begun + 1 - time.monotonic()))

    async def _logged_in(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=self._context, server_hostname="localhost"
        )
        size = struct.pack(">i", len(self._message))
        for key, body in ((17, struct.pack(">h", 5) + b"PLAIN"), (36, size + self._message)):
            writer.write(struct.pack(">ihhih", 10 + len(body), key, 1, 1, -1) + body)
            (code,) = struct.unpack_from(">h", await _response(reader), 4)
            if code:
                raise ConnectionError(f"the login failed with error {code}")
        return reader, writer


async def _response(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


def _p99(taken: Sequence[float]) -> float:
    return statistics.quantiles(taken, n=100)[-1]
