"""Sends bytes that nobody should send to a port of a broker in its own process: TLS where there is none, SASL out of
order, lies.

A case is one connection. Its bytes are sent, and then no more. The broker may answer and has to close the connection
within a bound. An honest client has to go on all the time.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import struct
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, TypeAlias

from tests.security.exchange_fuzz import mutated

_AT_ONCE: Final = 40
_LIMIT_S: Final = 20.0
_TLS_RECORDS: Final = (20, 21, 22, 23, 24)
_MOST_ANSWER_BYTES: Final = 1 << 20

Draw: TypeAlias = Callable[[random.Random], bytes]


class Told(NamedTuple):
    """It says how many cases were tried, how many of each kind were answered, and what went wrong."""

    cases: int
    answered: Counter[str]
    wrong: list[str]


def frame(key: int, version: int, body: bytes, *, correlation_id: int = 1) -> bytes:
    """Return a request with a header of version 1."""
    return struct.pack(">ihhih", 10 + len(body), key, version, correlation_id, -1) + body


def client_hello() -> bytes:
    """Return the first flight of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    connection = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with suppress(ssl.SSLWantReadError):
        connection.do_handshake()
    return outgoing.read()


def _tls(chance: random.Random) -> bytes:
    """Return a TLS client's first flight, mostly mutated, or records of any type that claim any length."""
    if chance.random() < 0.5:
        hello = client_hello()
        return mutated(chance, hello) if chance.random() < 0.9 else hello
    size = chance.choice((0, 1, 5, 100, 16_384, 65_535))
    record = struct.pack(">BHH", chance.choice(_TLS_RECORDS), chance.choice((0x0300, 0x0301, 0x0303, 0x0304)), size)
    return record + chance.randbytes(min(size, chance.randint(0, 300)))


def _handshake(chance: random.Random) -> bytes:
    name = chance.choice((b"PLAIN", b"SCRAM-SHA-256", b"SCRAM-SHA-512", b"GSSAPI", b"", b"x" * 300, b"\xff\xfe"))
    return frame(17, chance.choice((0, 1, 1, 1, 2, -1)), struct.pack(">h", len(name)) + name)


def _authenticate(chance: random.Random) -> bytes:
    message = mutated(
        chance, chance.choice((b"\0alice\0not-hers", b"n,,n=alice,r=theirs", b"c=biws,r=theirs,p=AAAA", b""))
    )
    return frame(36, chance.choice((0, 1, 1, 3)), struct.pack(">i", len(message)) + message)


def _sasl(chance: random.Random) -> bytes:
    """Return requests of a login in any order, mostly with a few mutations."""
    parts = [chance.choice((_handshake, _authenticate))(chance) for _ in range(chance.randint(1, 4))]
    if chance.random() < 0.6:
        parts.insert(0, frame(17, 1, struct.pack(">h", 5) + b"PLAIN"))
    if chance.random() < 0.3:
        # After a SaslHandshake of version 0 a token is a frame without a header.
        token = chance.randbytes(chance.randint(0, 40))
        parts = [frame(17, 0, struct.pack(">h", 5) + b"PLAIN"), struct.pack(">i", len(token)) + token]
    data = b"".join(parts)
    return mutated(chance, data) if chance.random() < 0.7 else data


def _plaintext(chance: random.Random) -> bytes:
    """Return requests of Kafka's protocol, or something else that has no place in TLS."""
    known = frame(chance.choice((3, 18, 17, 0, 1)), chance.randint(0, 4), chance.randbytes(chance.randint(0, 60)))
    other = chance.choice((b"GET / HTTP/1.1\r\n\r\n", b"\x16", b"\x16\x03\x01", bytes(300), chance.randbytes(40)))
    data = chance.choice((known, other, known + other))
    return mutated(chance, data) if chance.random() < 0.5 else data


DRAWS: Final[Sequence[Sequence[Draw]]] = ((_tls,), (_sasl, _sasl, _tls), (_plaintext, _tls))
"""These make the bytes for a port without TLS, for one that expects a login, and for one with TLS."""


async def fuzz(port: int, seed: int, cases: int, draws: Sequence[Draw]) -> Told:
    """Try cases at a port, some at a time."""
    chance = random.Random(seed)
    told = Told(cases, Counter(), [])
    drawn = iter([(draw.__name__, draw(chance)) for draw in chance.choices(draws, k=cases)])

    async def work() -> None:
        for kind, data in drawn:
            try:
                async with asyncio.timeout(_LIMIT_S):
                    answer = await _answer(port, data)
            except TimeoutError:
                told.wrong.append(f"the connection was open {_LIMIT_S} s after {data[:100]!r} and its end")
            except OSError as error:
                told.wrong.append(f"no connection for {data[:100]!r}: {error}")
            else:
                told.answered[kind] += bool(answer)

    await asyncio.gather(*(work() for _ in range(_AT_ONCE)))
    return told


async def _answer(port: int, data: bytes) -> bytes:
    """Send the bytes and the connection's end. Return what came until the broker's end. A reset is an end, too."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answer = b""
    try:
        with suppress(ConnectionError):
            writer.write(data)
            writer.write_eof()
            while more := await reader.read(1 << 16):
                answer += more
                if len(answer) > _MOST_ANSWER_BYTES:
                    raise OSError(f"an answer of more than {_MOST_ANSWER_BYTES} bytes")
    finally:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    return answer
