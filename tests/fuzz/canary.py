"""A client that does nothing wrong, on a connection of its own, while others are fuzzing: nothing may happen to it."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any, Final

from tests.fuzz import batches
from tests.fuzz.cases import simple_fetch, simple_produce
from tests.fuzz.messages import Draft
from tests.fuzz.world import CANARY

LIMIT_S: Final = 10.0
_PAUSE_S: Final = 0.02
_PRODUCE_VERSION, _FETCH_VERSION = 8, 11
_MAX_WAIT_MS: Final = 1_000
_BASE_OFFSET: Final = struct.Struct(">q")


class Canary:
    """Produces a record, fetches it, over and over. `round_trips`, `slowest_s`, and `fault`: what went wrong first."""

    def __init__(self, port: int) -> None:
        self._port: Final = port
        self._correlation_id = 0
        self.round_trips = 0
        self.slowest_s = 0.0
        self.fault = ""

    async def sing(self) -> None:
        """Until it is cancelled, or something is wrong."""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            try:
                while not self.fault:
                    begun = time.monotonic()
                    async with asyncio.timeout(LIMIT_S):
                        self.fault = await self._round_trip(reader, writer)
                    self.round_trips += not self.fault
                    self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
                    await asyncio.sleep(_PAUSE_S)
            finally:
                writer.close()
        except TimeoutError:
            self.fault = f"no record came back within {LIMIT_S:g} s"
        except (OSError, asyncio.IncompleteReadError) as error:
            self.fault = f"its connection was cut: {error!r}"

    async def _round_trip(self, reader: Any, writer: Any) -> str:
        """What is wrong, "" for nothing."""
        value = b"canary %d" % self._correlation_id
        sent = batches.batch(batches.record(value=value))
        acknowledged = await self._ask(reader, writer, simple_produce(_PRODUCE_VERSION, CANARY, sent))
        # [topic, [partition, error, base offset …]]: one of each
        at = 4 + 4 + 2 + len(CANARY) + 4 + 4
        error, base_offset = struct.unpack_from(">hq", acknowledged, at)
        if error:
            return f"its produce was refused with error {error}"
        fetch = simple_fetch(_FETCH_VERSION, CANARY, base_offset, max_wait_ms=_MAX_WAIT_MS)
        fetched = await self._ask(reader, writer, fetch)
        # What is stored is what was sent, but for the offset and the leader's epoch in the first 16 bytes.
        whole = _BASE_OFFSET.pack(base_offset) + sent[8:12]
        if whole not in fetched or sent[16:] not in fetched:
            return f"its record at offset {base_offset} did not come back: {fetched[:200].hex()}"
        return ""

    async def _ask(self, reader: Any, writer: Any, draft: Draft) -> bytes:
        self._correlation_id += 1
        writer.write(draft.frame(self._correlation_id))
        (size_bytes,) = struct.unpack(">i", await reader.readexactly(4))
        answer = await reader.readexactly(size_bytes)
        if struct.unpack_from(">i", answer) != (self._correlation_id,):
            raise OSError("an answer that belongs to another request")
        return bytes(answer)
