"""Kafka's wire by hand, for what no client offers: thousands of idle consumers in one process, and how long a broker
lets another connection wait."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections.abc import AsyncIterator, Sequence
from typing import Final

_API_VERSIONS, _FETCH, _METADATA = 18, 1, 3
_FETCH_VERSION: Final = 11
_PARKED_MS: Final = 30_000
"""fetch.max.wait.ms of the idle: what they cost is not their own requests."""
_END: Final = 1
"""Where their partitions end: creation has written one record."""
_AT_ONCE: Final = 200

Address = tuple[str, int]


def _frame(api: int, version: int, correlation: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", api, version, correlation, -1)
    return struct.pack(">i", len(header) + len(body)) + header + body


async def _call(streams: tuple[asyncio.StreamReader, asyncio.StreamWriter], frame: bytes) -> bytes:
    """The response after its correlation id."""
    reader, writer = streams
    writer.write(frame)
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return (await reader.readexactly(size))[4:]


def _fetch(topic: str, partition: int, session: int, epoch: int, max_wait_ms: int) -> bytes:
    name = topic.encode()
    wanted = struct.pack(">ih", 1, len(name)) + name + struct.pack(">iiiqqi", 1, partition, -1, _END, -1, 1 << 20)
    named = wanted if epoch <= 0 else struct.pack(">i", 0)
    head = struct.pack(">iiiibii", -1, max_wait_ms, 1, 1 << 20, 0, session, epoch)
    return _frame(_FETCH, _FETCH_VERSION, 1, head + named + struct.pack(">ih", 0, 0))


async def _idle(address: Address, topic: str, partition: int, parked: asyncio.Semaphore) -> None:
    """A consumer of one partition in which nothing is written: its first fetch makes a session, the next is parked."""
    streams = await asyncio.open_connection(*address)
    try:
        response = await _call(streams, _fetch(topic, partition, 0, 0, 0))
        _, code, session = struct.unpack_from(">ihi", response)
        assert code == 0, f"the broker answers with error {code}"
        parked.release()
        epoch = 0
        while True:
            epoch = epoch + 1 if session else -1  # there are sessions for some alone, as in Kafka
            await _call(streams, _fetch(topic, partition, session, epoch, _PARKED_MS))
    finally:
        streams[1].close()


@contextlib.asynccontextmanager
async def idle_consumers(
    topic: str, leaders: Sequence[tuple[int, Address]], count: int, limit_s: float
) -> AsyncIterator[None]:
    """So many consumers have fetched and wait, inside the block; `leaders`: the topic's partitions, and where."""
    parked, tasks = asyncio.Semaphore(0), []
    async with asyncio.timeout(limit_s):
        for first in range(0, count, _AT_ONCE):
            for n in range(first, min(count, first + _AT_ONCE)):
                partition, address = leaders[n % len(leaders)]
                tasks.append(asyncio.create_task(_idle(address, topic, partition, parked)))
            for _ in range(first, min(count, first + _AT_ONCE)):
                await parked.acquire()
    try:
        yield
        assert not any(task.done() for task in tasks), "an idle consumer has ended"
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def longest_wait_ms(address: Address) -> float:
    """The longest that a connection waits for what costs nothing, while another gets Metadata of all topics."""
    streams, other = await asyncio.open_connection(*address), await asyncio.open_connection(*address)
    try:
        all_topics = _frame(_METADATA, 1, 1, struct.pack(">i", -1))
        working, longest = asyncio.create_task(_call(other, all_topics)), 0.0
        while not working.done():
            began = time.perf_counter()
            await _call(streams, _frame(_API_VERSIONS, 0, 1, b""))
            longest = max(longest, time.perf_counter() - began)
        await working
        return 1000 * longest
    finally:
        streams[1].close()
        other[1].close()
