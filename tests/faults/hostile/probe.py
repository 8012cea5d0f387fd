"""`python -m tests.faults.hostile.probe`: a client that does no harm, and tells how long each of its requests took.

It asks for ApiVersions by a connection that is kept and by new ones, and produces with acks=all, both at a steady pace:
what takes longer than the pace delays nothing that is due later, and counts with the time from when it was due.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Final

from tests.faults.history import HistoryWriter, client_parser
from tests.faults.hostile import wire

from ottla_core.records.twins import new_builder

LIMIT_S: Final = 20.0
_BATCH_BYTES: Final = 10_000
_LANES: Final = 4
"""Connections of each kind, so that one slow answer does not hide how slow the next would have been."""


class Probe:
    def __init__(self, address: str, topic: str, history: HistoryWriter) -> None:
        host, _, port = address.rpartition(":")
        self._host, self._port, self._history = host, int(port), history
        builder = new_builder(1_000_000)
        builder.append(1, None, os.urandom(_BATCH_BYTES))
        self._produce: Final = wire.produce(topic, 0, builder.seal())
        self._stopped: Final = asyncio.Event()

    async def run(self, each_s: float) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._stopped.set)
        lanes = [self._kept("api_versions", wire.api_versions(), each_s * 2 * _LANES, n) for n in range(_LANES)]
        lanes += [self._kept("produce", self._produce, each_s * 2 * _LANES, n) for n in range(_LANES)]
        tasks = [asyncio.create_task(lane) for lane in (*lanes, self._at_pace(self._new, each_s * 4, 0))]
        await self._stopped.wait()
        for task in tasks:
            task.cancel()

    async def _kept(self, kind: str, asked: bytes, each_s: float, lane: int) -> None:
        """By a connection that is kept; where it ends, that is a failure, and there is a new one."""
        streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

        async def ask(due_at: float) -> None:
            nonlocal streams
            try:
                async with asyncio.timeout(LIMIT_S):
                    if streams is None:
                        streams = await asyncio.open_connection(self._host, self._port)
                    streams[1].write(asked)
                    answer = await wire.read_answer(streams[0])
                self._tell(kind, due_at, wire.read_produced(answer) if kind == "produce" else 0)
            except (OSError, EOFError):
                streams = None
                self._tell(kind, due_at, -1)

        await self._at_pace(ask, each_s, lane)

    async def _new(self, due_at: float) -> None:
        """By a connection that is made for it."""
        code = 0
        try:
            async with asyncio.timeout(LIMIT_S):
                reader, writer = await asyncio.open_connection(self._host, self._port)
                writer.write(wire.api_versions())
                await wire.read_answer(reader)
                writer.close()
        except (OSError, EOFError):
            code = -1
        self._tell("api_versions", due_at, code)

    async def _at_pace(self, ask: Callable[[float], Awaitable[None]], each_s: float, lane: int) -> None:
        due_at = time.monotonic() + each_s * lane / _LANES
        while True:
            await asyncio.sleep(due_at - time.monotonic())
            await ask(due_at)
            due_at += each_s

    def _tell(self, kind: str, due_at: float, code: int) -> None:
        took_ms = (time.monotonic() - due_at) * 1000
        self._history.add("ok" if code == 0 else "fail", kind, due_s=due_at, ms=round(took_ms, 3), error=code)


def main(arguments: list[str]) -> int:
    parser = client_parser("hostile.probe", __doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--each", type=float, default=0.02, help="seconds from one request to the next")
    given = parser.parse_args(arguments)
    history = HistoryWriter(given.history, given.process)

    async def run() -> None:
        await Probe(given.address, given.topic, history).run(given.each)

    asyncio.run(run())
    history.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
