"""`python -m tests.fuzz_client.server`: the hostile server.

It is a process of its own, so that its memory is not the client's. It prints the port for players. A player connects
there, and gets a port for its cases. For each case it sends two lines: the case before it begins, and "end" afterwards.
The response to the second says what the server has seen of the client. The process ends with its standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import struct
import sys
import traceback
from typing import Final

from tests.fuzz_client.case import CLIENT_PREFIX, Case, Level
from tests.fuzz_client.honest import HANDSHAKE, Broker, Request, read_request
from tests.fuzz_client.logins import HonestLogin
from tests.fuzz_client.misdeeds import MISDEEDS, End, Moment
from tests.fuzz_client.vocabulary import HOST

_MOST_REQUEST_BYTES: Final = 32 << 20
_CLOSED_WITHIN_S: Final = 4.0
"""How long a client has to close its connections once its case is over."""
_DIAGNOSIS: Final = b"GET "
"""What a client sends to a server that makes no sense, to find out what it is (client/diagnose.py)."""
_LINGER_NOTHING: Final = struct.pack("ii", 1, 0)


class Slot:
    """The place of one player: a port, and the case that is played there now."""

    def __init__(self) -> None:
        self.port = 0
        self._case: Case | None = None
        self._broker: Broker | None = None
        self._counts = [0, 0]
        self._is_done = False
        self._seen: list[tuple[int, int]] = []
        self._fault = ""
        self._open: Final[set[asyncio.StreamWriter]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a player until it leaves."""
        server = await asyncio.start_server(self._on_connection, HOST, 0, backlog=64)
        async with server:
            self.port = server.sockets[0].getsockname()[1]
            writer.write(f"{self.port}\n".encode())
            while line := await reader.readline():
                told = await self._seen_of_client() if line == b"end\n" else self._begin(line.decode())
                writer.write(json.dumps(told).encode() + b"\n")
        writer.close()

    def _begin(self, line: str) -> dict[str, object]:
        case = self._case = Case.from_json(line)
        serves_all = case.level in (Level.PRODUCER, Level.CONSUMER)
        self._broker = Broker(self.port, case.chance("broker"), serves_all=serves_all)
        self._counts, self._is_done, self._seen, self._fault = [0, 0], False, [], ""
        return {}

    async def _seen_of_client(self) -> dict[str, object]:
        """Return the requests that came, whether the misdeed was done, and how many connections were left open."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSED_WITHIN_S):
                while self._open:
                    await asyncio.sleep(0.002)
        left, self._case = len(self._open), None
        for writer in list(self._open):
            writer.transport.abort()
        return {"seen": self._seen, "done": self._is_done, "open": left, "fault": self._fault}

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        login = HonestLogin()
        try:
            while await self._answer(await _frame(reader), login, reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        except Exception:  # reported to the player, for whom it is a finding
            self._fault = traceback.format_exc()
        finally:
            self._open.discard(writer)
            writer.close()

    async def _answer(
        self, frame: bytes, login: HonestLogin, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer a request. Return whether the connection goes on."""
        case, broker = self._case, self._broker
        if case is None or broker is None:
            return False
        request = read_request(frame)
        if request.client_id != case.client_id and (request.client_id or "").startswith(CLIENT_PREFIX):
            return False  # a connection of the last case, of which the server did not know yet when that case was over
        self._seen.append((request.key, request.version))
        response = broker.response(request, login)
        if not self._is_point(case, request):
            if request.wait_s and case.level.is_whole_client:
                await asyncio.sleep(request.wait_s)
            if not _is_silent(request):
                writer.write(response)
                await writer.drain()
            return True
        self._is_done = True
        moment = Moment(request.key, request.version, request.correlation_id, response, self.port)
        for act in MISDEEDS[case.misdeed].acts(moment, case.chance("misdeed")):
            if isinstance(act, End):
                await _end(act, reader, writer)
                return False
            if isinstance(act, bytes):
                writer.write(act)
                await writer.drain()
            else:
                await writer.drain()
                await asyncio.sleep(act)
        return True

    def _is_point(self, case: Case, request: Request) -> bool:
        is_handshake = request.key in HANDSHAKE
        count, self._counts[is_handshake] = self._counts[is_handshake], self._counts[is_handshake] + 1
        if is_handshake is not case.in_handshake:
            return False
        return count == case.at or (count > case.at and MISDEEDS[case.misdeed].lasting)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    if head == _DIAGNOSIS:
        raise ConnectionAbortedError
    (size_bytes,) = struct.unpack(">i", head)
    assert 0 < size_bytes < _MOST_REQUEST_BYTES, f"the client has begun a frame with {head!r}"
    return await reader.readexactly(size_bytes)


async def _end(end: End, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    match end:
        case End.CLOSE:
            writer.close()
        case End.RESET:
            await writer.drain()
            connection: socket.socket = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOTHING)
            writer.transport.abort()
        case End.HOLD:
            while await reader.read(1 << 16):
                pass


def _is_silent(request: Request) -> bool:
    """Return whether the client waits for no response, as with acks=0."""
    return request.key == 0 and request.message.acks == 0


async def _main() -> None:
    async def on_player(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await Slot().serve(reader, writer)

    server = await asyncio.start_server(on_player, HOST, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # connections may be open, and nobody needs them any more


if __name__ == "__main__":
    asyncio.run(_main())
