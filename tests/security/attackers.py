"""`python -m tests.security.attackers PORT SECONDS`: sends TLS hellos and guesses passwords, all from one address.

The load is bounded in time and in open connections. The process has the lowest priority, because the broker's work is
measured, and not that of its attackers.

All hellos have the same bytes. The broker has to make a signature for each, and the attacker does nearly nothing. A
guess takes a whole handshake.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import secrets
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from typing import Final

from tests.security.port_fuzz import client_hello, frame

from ottla_core.errors import ErrorCode

ADDRESS: Final = "127.0.0.2"
HELLOS_PER_S: Final = 302
GUESSERS: Final = 60
USER: Final = "alice"
_BROKER: Final = "127.0.0.1"
_MOST_OPEN: Final = 1_200
"""More handshakes than a port keeps, so that the broker has to choose which of them end."""
_LIMIT_S: Final = 20.0
_AGAIN_S: Final = 0.1
_LOWEST_PRIORITY: Final = 19
_BEGUN: Final = "begun\n"
_NONCE: Final = b"attacker"


@dataclass
class Done:
    """What the attackers did. `guessers` counts those who got an answer, and `let_in` the guesses that the broker
    accepted."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0
    hellos: int = 0
    hellos_answered: int = 0
    guesses: int = 0
    guessers: int = 0
    let_in: int = 0
    cut: int = 0
    """Connections of guessers that ended without an answer."""

    @property
    def hellos_per_s(self) -> float:
        return self.hellos / self.seconds

    @property
    def guesses_per_s(self) -> float:
        return self.guesses / self.seconds

    @property
    def processors(self) -> float:
        """Number of processors that the attackers used themselves."""
        return self.cpu_seconds / self.seconds


class Hellos:
    """Sends the hellos of each second at once, and keeps their connections open as long as possible."""

    def __init__(self, port: int, done: Done) -> None:
        self._port: Final = port
        self._done: Final = done
        self._hello: Final = client_hello()
        self._open: Final[deque[socket.socket]] = deque()

    def run(self, until: float) -> None:
        due = time.monotonic()
        while due < until:
            for _ in range(HELLOS_PER_S):
                self._send()
            due += 1
            time.sleep(max(0.0, min(due, until) - time.monotonic()))
        while self._open:
            self._close_oldest()

    def _send(self) -> None:
        if len(self._open) >= _MOST_OPEN:
            self._close_oldest()
        with suppress(OSError):
            connection = socket.create_connection((_BROKER, self._port), _LIMIT_S, (ADDRESS, 0))
            self._open.append(connection)
            connection.sendall(self._hello)
            self._done.hellos += 1

    def _close_oldest(self) -> None:
        with self._open.popleft() as connection, suppress(OSError):
            connection.setblocking(False)
            self._done.hellos_answered += bool(connection.recv(1))


class Guessers:
    """Guessers, who each try one password after the other. Half of them use PLAIN, and half use SCRAM."""

    def __init__(self, port: int, done: Done) -> None:
        self._port: Final = port
        self._done: Final = done
        self._context: Final = ssl.create_default_context()
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    async def run(self, until: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(until - time.monotonic()):
                await asyncio.gather(*(self._guess_on(number) for number in range(GUESSERS)))

    async def _guess_on(self, number: int) -> None:
        guess, is_answered = (self._by_plain if number % 2 else self._by_scram), False
        while True:
            try:
                async with asyncio.timeout(_LIMIT_S):
                    reader, writer = await asyncio.open_connection(
                        _BROKER, self._port, ssl=self._context, local_addr=(ADDRESS, 0)
                    )
                    try:
                        code = await guess(reader, writer)
                    finally:
                        writer.transport.abort()
            except (OSError, EOFError):
                self._done.cut += 1
                await asyncio.sleep(_AGAIN_S)
                continue
            self._done.guesses += 1
            self._done.guessers += not is_answered
            self._done.let_in += code != ErrorCode.SASL_AUTHENTICATION_FAILED
            is_answered = True

    async def _by_plain(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        await _choose(reader, writer, b"PLAIN")
        code, _ = await _say(reader, writer, f"\0{USER}\0{secrets.token_hex(8)}".encode())
        return code

    async def _by_scram(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
        await _choose(reader, writer, b"SCRAM-SHA-256")
        _, challenge = await _say(reader, writer, b"n,,n=%b,r=%b" % (USER.encode(), _NONCE))
        nonce = challenge.split(b",")[0].removeprefix(b"r=")
        # A real guesser derives the proof from a password. A random proof is as wrong, and costs the broker as much.
        proof = base64.b64encode(secrets.token_bytes(32))
        code, _ = await _say(reader, writer, b"c=biws,r=%b,p=%b" % (nonce, proof))
        return code


async def _choose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, mechanism: bytes) -> None:
    writer.write(frame(17, 1, struct.pack(">h", len(mechanism)) + mechanism))
    await _response(reader)


async def _say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, message: bytes) -> tuple[int, bytes]:
    """Send a message of a login, and return the error code and the broker's message."""
    writer.write(frame(36, 0, struct.pack(">i", len(message)) + message))
    response = await _response(reader)
    code, text_bytes = struct.unpack_from(">hh", response, 4)
    return code, response[8 + max(0, text_bytes) + 4 :]


async def _response(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)


@contextmanager
def attack(port: int, seconds: float) -> Iterator[Done]:
    """Have a port attacked for `seconds` from the start of the block on. The result is complete after the block."""
    command = [sys.executable, "-m", "tests.security.attackers", str(port), str(seconds)]
    path = os.pathsep.join(filter(None, sys.path))
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path})
    assert process.stdout is not None
    done = Done()
    try:
        if process.stdout.readline() != _BEGUN:
            raise RuntimeError("the attackers have not begun")
        yield done
        vars(done).update(json.loads(process.communicate(timeout=seconds + _LIMIT_S)[0]))
    finally:
        process.kill()
        process.wait()


def main(port: int, seconds: float) -> None:
    os.setpriority(os.PRIO_PROCESS, 0, _LOWEST_PRIORITY)
    done = Done(seconds)
    hellos, guessers = Hellos(port, done), Guessers(port, done)
    print(_BEGUN, end="", flush=True)
    used_s, until = time.process_time(), time.monotonic() + seconds
    thread = threading.Thread(target=hellos.run, args=(until,))
    thread.start()
    asyncio.run(guessers.run(until))
    thread.join()
    done.cpu_seconds = time.process_time() - used_s
    print(json.dumps(asdict(done)), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
