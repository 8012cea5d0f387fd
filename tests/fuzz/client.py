"""One connection after another to the listener: sends cases in bundles, and says what became of each.

A bundle is pipelined, and ends in a request that is always answered: what is then still open was silently dropped.
Where a connection ends, the first case that may end one is taken for the reason. What came before it and had to be
answered is tried alone, and so is everything that is suspicious: the verdict on a case is never that of its neighbour.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Final

from tests.fuzz import answers
from tests.fuzz.cases import API_VERSIONS, Case, Expect

DEADLINE_S: Final = 10.0
_PARK_S: Final = 0.5
_ALONE: Final = (Expect.ANYTHING, Expect.END)
_PING_ID: Final = -77
_PING: Final = Case(
    "ping", API_VERSIONS, 0, struct.pack(">ihhih", 10, API_VERSIONS, 0, _PING_ID, -1), Expect.ANSWER, _PING_ID
)
_MOST_ANSWER_BYTES: Final = 256 << 20


class End(Enum):
    """What became of a case."""

    ANSWERED = "answered"
    SILENT = "silent"
    CLOSED = "closed"
    PARKED = "parked"
    FAULT = "fault"
    HANG = "hang"


Report = Callable[[Case, End, str], None]
"""Told once of each case, with words where it is a fault or a hang."""


class _ClosedError(Exception):
    """The broker has ended the connection."""


class _NoFrameError(Exception):
    """What came is no frame."""


class Client:
    """`slowest_s`: the longest that any answer took."""

    def __init__(self, port: int, report: Report) -> None:
        self._port: Final = port
        self._report: Final = report
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self.connections = 0
        self.slowest_s = 0.0

    async def play(self, bundle: Sequence[Case]) -> None:
        """Send them, and tell of each."""
        for case in bundle:
            if case.expect in _ALONE:
                await self._raw(case)
        waiting = deque([[case for case in bundle if case.expect not in _ALONE]])
        while waiting:
            if cases := waiting.popleft():
                waiting.extendleft(reversed(await self._bundle(cases)))

    async def close(self) -> None:
        writer, self._reader, self._writer = self._writer, None, None
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    # ---- whole frames ----------------------------------------------------------------------------------------------

    async def _bundle(self, cases: Sequence[Case]) -> list[list[Case]]:
        """What is still to be sent, in which bundles."""
        pending = deque([*cases, _PING])
        try:
            await self._send(b"".join(case.data for case in pending))
            while pending:
                self._on_frame(await self._frame_for(pending[0]), pending)
        except TimeoutError:
            return await self._on_silence(pending)
        except _ClosedError:
            await self.close()
            return self._on_closed(pending)
        except _NoFrameError as error:
            await self.close()
            self._report(pending.popleft(), End.FAULT, str(error))
            return [_without_ping(pending)]
        return []

    def _on_frame(self, frame: bytes, pending: deque[Case]) -> None:
        answered_id = answers.read_correlation_id(frame)
        silent = []
        while pending and pending[0].correlation_id != answered_id and pending[0].may_be_silent:
            silent.append(pending.popleft())
        if not pending or pending[0].correlation_id != answered_id:
            asked = [*silent, *pending]
            self._report(asked[0], End.FAULT, f"answered as {answered_id}, and {asked[0].correlation_id} was asked")
            pending.clear()
            raise _ClosedError
        for case in silent:
            self._report(case, End.SILENT, "")
        case = pending.popleft()
        fault = answers.fault_of(case, frame)
        if case is not _PING or fault:
            self._report(case, End.FAULT if fault else End.ANSWERED, fault)

    async def _on_silence(self, pending: deque[Case]) -> list[list[Case]]:
        """What may wait ends with our end of the connection. Nothing else may wait."""
        case = pending.popleft()
        closed = await self._hang_up()
        if not closed:
            self._report(case, End.HANG, f"the connection is still open {DEADLINE_S:g} s after our end")
        elif case.may_park:
            self._report(case, End.PARKED, "")
        elif case.may_be_silent and len(pending) > 1:
            return [[case], _without_ping(pending)]
        else:
            self._report(case, End.HANG, f"neither an answer nor an end within {DEADLINE_S:g} s")
        return [_without_ping(pending)]

    def _on_closed(self, pending: deque[Case]) -> list[list[Case]]:
        cases = _without_ping(pending)
        reason = next((n for n, case in enumerate(cases) if case.expect is Expect.EITHER), None)
        if reason is not None and (reason == 0 or not any(c.may_be_silent for c in cases[:reason])):
            self._report(cases[reason], End.CLOSED, "")
            return [*([case] for case in cases[:reason]), cases[reason + 1 :]]
        if len(cases) == 1:
            self._report(cases[0], End.FAULT, "the connection was closed, and an answer is due")
            return []
        return [[case] for case in cases]

    # ---- bytes that are no frame -----------------------------------------------------------------------------------

    async def _raw(self, case: Case) -> None:
        """On a connection of its own."""
        await self.close()
        try:
            await self._send(case.data)
            if case.resets:
                assert self._writer is not None, "it was sent"
                self._writer.transport.abort()
            elif case.expect is Expect.ANYTHING:
                await self._flush_and_end()
            while not case.resets:
                await self._frame(DEADLINE_S)
                if case.expect is Expect.END:
                    self._report(case, End.FAULT, "answered, where the connection has to end")
                    return
        except _ClosedError:
            pass
        except (TimeoutError, _NoFrameError) as error:
            hangs = isinstance(error, TimeoutError)
            words = f"the connection is still open after {DEADLINE_S:g} s" if hangs else str(error)
            self._report(case, End.HANG if hangs else End.FAULT, words)
            return
        finally:
            await self.close()
        self._report(case, End.CLOSED, "")

    # ---- the connection --------------------------------------------------------------------------------------------

    async def _send(self, data: bytes) -> None:
        try:
            if self._writer is None or self._writer.is_closing():
                self.connections += 1
                self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port, limit=1 << 20)
            self._writer.write(data)
        except OSError as error:
            raise _ClosedError from error

    async def _frame_for(self, case: Case) -> bytes:
        begun = time.monotonic()
        frame = await self._frame(_PARK_S if case.may_park else DEADLINE_S)
        self.slowest_s = max(self.slowest_s, time.monotonic() - begun)
        return frame

    async def _frame(self, limit_s: float) -> bytes:
        """Without its size. Raises TimeoutError, _ClosedError and _NoFrameError."""
        assert self._reader is not None, "something was sent"
        try:
            async with asyncio.timeout(limit_s):
                (size_bytes,) = struct.unpack(">i", await self._reader.readexactly(4))
            if not 4 <= size_bytes <= _MOST_ANSWER_BYTES:
                raise _NoFrameError(f"a frame of {size_bytes} bytes came")
            async with asyncio.timeout(DEADLINE_S):
                return await self._reader.readexactly(size_bytes)
        except (asyncio.IncompleteReadError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise _ClosedError from None

    async def _flush_and_end(self) -> None:
        assert self._writer is not None, "something was sent"
        with contextlib.suppress(OSError):
            self._writer.write_eof()

    async def _hang_up(self) -> bool:
        """End our side; whether the broker then ends its own in time."""
        try:
            await self._flush_and_end()
            while True:
                await self._frame(DEADLINE_S)
        except (_ClosedError, _NoFrameError):
            return True
        except TimeoutError:
            return False
        finally:
            await self.close()


def _without_ping(pending: Iterable[Case]) -> list[Case]:
    return [case for case in pending if case is not _PING]
