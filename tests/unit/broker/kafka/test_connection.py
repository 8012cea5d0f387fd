"""The order of answers, and what a connection holds: with a transport that only notes what is asked of it."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest
from waiting import until

from ottla_broker.kafka.connection import Answered, CloseConnectionError, Connection
from ottla_broker.kafka.frames import Caller, Head, Parts
from ottla_broker.kafka.limits import Budget, Limits

PRODUCE, CONTROL = 0, 3
LIMITS = Limits(max_produce=10_000, max_control=1_000, max_waiting=300, max_open=3, max_held=5_000, max_connections=1)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.writes = 0
        self.reading = True
        self.closed = False
        self.aborted = False
        self.unsent_bytes = 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("10.0.0.1", 9092) if name == "sockname" else ("10.0.0.2", 50_000)

    def writelines(self, parts: Any) -> None:
        self.writes += 1
        self.written += [bytes(part) for part in parts]

    def get_write_buffer_size(self) -> int:
        return self.unsent_bytes

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True


class Around:
    """A listener whose every request is answered with its own bytes, at once or when the test says so."""

    def __init__(self) -> None:
        self.limits = LIMITS
        self.budget = Budget(LIMITS.max_held)
        self.scratch = memoryview(bytearray(1_000))
        self.time = 0.0
        self.open = 0
        self.began: list[bytes] = []
        self.refused: list[str] = []
        self.waits: dict[bytes, asyncio.Future[None]] = {}
        self.callers: set[Caller] = set()

    def now(self) -> float:
        return self.time

    def on_open(self, connection: Connection) -> bool:
        self.open += 1
        return self.open <= self.limits.max_connections

    def on_lost(self, connection: Connection) -> None:
        self.open -= 1

    def on_refused(self, why: str, client_host: str) -> None:
        self.refused.append(why)

    def may_overlap(self, key: int) -> bool:
        return key == PRODUCE

    def handle(self, head: Head, frame: memoryview, caller: Caller) -> Answered:
        self.callers.add(caller)
        body = bytes(frame[8:])
        self.began.append(body)
        if body.startswith(b"silent"):
            return None
        if body.startswith(b"bad"):
            raise CloseConnectionError("bad")
        if body.startswith(b"wait"):
            self.waits[body] = asyncio.get_running_loop().create_future()
            return self._later(body)
        return [body]

    async def _later(self, body: bytes) -> Parts | None:
        await self.waits[body]
        if body.endswith(b"!"):
            raise CloseConnectionError("failed later")
        return [body]


class Client:
    def __init__(self, around: Around) -> None:
        self.around = around
        self.transport = Transport()
        self.connection = Connection(around)
        self.connection.connection_made(self.transport)

    def send(self, data: bytes, piece_bytes: int = 1_000) -> None:
        for at in range(0, len(data), piece_bytes):
            piece = data[at : at + piece_bytes]
            while piece:
                assert self.transport.reading, "nobody reads"
                view = self.connection.get_buffer(-1)
                taken = min(len(view), len(piece))
                view[:taken] = piece[:taken]
                self.connection.buffer_updated(taken)
                piece = piece[taken:]

    async def answered(self, *bodies: bytes) -> None:
        await until(lambda: self.transport.written == list(bodies))


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def client(around: Around) -> Client:
    return Client(around)


def frame(body: bytes, key: int = CONTROL, *, size_bytes: int | None = None) -> bytes:
    body = body.ljust(6, b".")
    return struct.pack(">ihh", len(body) + 4 if size_bytes is None else size_bytes, key, 0) + body


def body(text: bytes) -> bytes:
    return text.ljust(6, b".")


@pytest.mark.parametrize("piece_bytes", [1, 3, 7, 8, 9, 20, 1_000])
async def test_frames_however_they_are_cut(client: Client, piece_bytes: int) -> None:
    bodies = [b"one", b"two" * 300, b"three", b"four" * 20]
    client.send(b"".join(frame(b, PRODUCE) for b in bodies), piece_bytes)
    assert client.transport.written == [body(b) for b in bodies]
    assert client.around.budget.held_bytes == 0
    assert client.around.callers == {Caller("10.0.0.2", "10.0.0.1")}


@pytest.mark.rule(70)
async def test_a_request_waits_for_those_before_it(client: Client) -> None:
    client.send(frame(b"wait") + frame(b"quick") + frame(b"silent") + frame(b"last"))
    assert client.around.began == [body(b"wait")]
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(*map(body, (b"wait", b"quick", b"last")))
    assert client.around.budget.held_bytes == 0


@pytest.mark.rule(70)
async def test_produces_overlap_and_are_answered_in_order(client: Client) -> None:
    client.send(b"".join(frame(b, PRODUCE) for b in (b"wait-1", b"quick", b"wait-2", b"more")))
    assert client.around.began == [b"wait-1", body(b"quick"), b"wait-2"], "so many and no more"
    client.send(frame(b"other"))
    client.around.waits[b"wait-2"].set_result(None)
    await asyncio.sleep(0)
    assert client.transport.written == []
    client.around.waits[b"wait-1"].set_result(None)
    await client.answered(b"wait-1", body(b"quick"), b"wait-2", body(b"more"), body(b"other"))


async def test_the_answers_of_one_read_leave_together_but_for_large_ones(client: Client) -> None:
    client.send(frame(b"one") * 5)
    assert (client.transport.writes, client.transport.written) == (1, [body(b"one")] * 5)
    client.around.scratch = memoryview(bytearray(20_000))
    large = b"x" * 5_000
    client.send(frame(b"one") * 2 + frame(large, PRODUCE) + frame(b"one"), 20_000)
    assert client.transport.writes == 4
    assert client.transport.written[5:] == [body(b"one"), body(b"one"), large, body(b"one")]


async def test_what_was_answered_before_a_bad_request_still_leaves(client: Client) -> None:
    client.send(frame(b"one") + frame(b"bad"))
    assert client.transport.written == [body(b"one")]


async def test_another_request_does_not_overlap_produces(client: Client) -> None:
    client.send(frame(b"wait-1", PRODUCE) + frame(b"other") + frame(b"quick", PRODUCE))
    assert client.around.began == [b"wait-1"]
    client.around.waits[b"wait-1"].set_result(None)
    await client.answered(b"wait-1", body(b"other"), body(b"quick"))


async def test_a_produce_does_not_overlap_another_request(client: Client) -> None:
    client.send(frame(b"wait-1") + frame(b"quick", PRODUCE))
    assert client.around.began == [b"wait-1"]
    client.around.waits[b"wait-1"].set_result(None)
    await client.answered(b"wait-1", body(b"quick"))


async def test_reading_pauses_while_much_waits(client: Client) -> None:
    client.send(frame(b"wait"))
    client.send(frame(b"x" * 100) * 2)
    assert client.transport.reading
    client.send(frame(b"x" * 100))
    assert not client.transport.reading
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(body(b"wait"), *[b"x" * 100] * 3)
    assert client.transport.reading


async def test_nothing_begins_while_answers_are_not_taken(client: Client) -> None:
    client.transport.unsent_bytes = 700
    client.connection.pause_writing()
    assert client.around.budget.held_bytes == 700
    client.send(frame(b"next"))
    assert client.around.began == []
    client.connection.resume_writing()
    await client.answered(body(b"next"))
    assert client.around.budget.held_bytes == 0
    client.connection.pause_writing()
    client.around.time = LIMITS.write_s + 1
    client.connection.on_tick(client.around.time)
    assert client.transport.closed
    assert "not taken" in client.around.refused[0]


async def test_large_frames_wait_until_there_is_room_for_them(client: Client) -> None:
    client.around.budget.change(LIMITS.max_held)
    large = frame(b"x" * 500, PRODUCE)
    client.send(large[:200])
    assert not client.transport.reading
    client.around.budget.change(-1)
    assert client.transport.reading
    client.send(large[200:])
    await client.answered(b"x" * 500)
    assert client.around.budget.held_bytes == LIMITS.max_held - 1


async def test_what_may_be_answered_at_length_waits_for_room(client: Client) -> None:
    client.around.budget.change(LIMITS.max_held)
    client.send(frame(b"produce", PRODUCE) + frame(b"fetch"))
    assert client.around.began == [b"produce"]
    client.around.budget.change(-1)
    await client.answered(b"produce", body(b"fetch"))


async def test_what_is_cut_gives_back_what_it_held(client: Client) -> None:
    client.send(frame(b"wait", PRODUCE) + frame(b"x" * 500, PRODUCE)[:100])
    assert client.around.budget.held_bytes > 500
    await asyncio.sleep(0)  # it begins to wait
    client.connection.connection_lost(None)
    assert client.around.budget.held_bytes == 0
    await until(lambda: client.around.waits[body(b"wait")].cancelled())


BAD: dict[str, Callable[[Client], None]] = {
    "a frame that is too large": lambda c: c.send(frame(b"", PRODUCE, size_bytes=10_001)),
    "a control request that is too large": lambda c: c.send(frame(b"", size_bytes=1_001)),
    "a frame without a header": lambda c: c.send(frame(b"", size_bytes=9)),
    "a negative size": lambda c: c.send(frame(b"", size_bytes=-1)),
    "what its handler refuses": lambda c: c.send(frame(b"bad") + frame(b"next")),
}


@pytest.mark.parametrize("name", BAD)
async def test_what_ends_a_connection(client: Client, name: str) -> None:
    BAD[name](client)
    assert client.transport.closed
    assert len(client.around.refused) == 1
    assert body(b"next") not in client.around.began


async def test_a_failure_later_ends_the_connection(client: Client) -> None:
    client.send(frame(b"wait-!", PRODUCE) + frame(b"quick", PRODUCE))
    client.around.waits[b"wait-!"].set_result(None)
    await until(lambda: client.transport.closed)
    assert client.around.refused == ["failed later"]
    assert client.transport.written == []


@pytest.mark.parametrize("sent", [b"\0", frame(b"x" * 500)[:100]])
async def test_a_request_has_to_come_whole_in_time(client: Client, sent: bytes) -> None:
    client.send(sent)
    client.connection.on_tick(LIMITS.frame_s - 1)
    assert not client.transport.closed
    client.connection.on_tick(LIMITS.frame_s + 1)
    assert client.transport.closed


async def test_an_idle_connection_is_closed_and_one_that_waits_is_not(client: Client) -> None:
    client.send(frame(b"wait"))
    client.connection.on_tick(LIMITS.idle_s + 1)
    assert not client.transport.closed
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(body(b"wait"))
    client.connection.on_tick(LIMITS.idle_s + 1)
    assert client.transport.closed
    assert client.around.refused == []


async def test_a_drain_answers_what_is_open_and_begins_nothing(client: Client) -> None:
    client.send(frame(b"wait") + frame(b"next"))
    client.connection.drain()
    assert not client.transport.closed
    client.around.waits[body(b"wait")].set_result(None)
    await client.answered(body(b"wait"))
    await until(lambda: client.transport.closed)
    assert client.around.began == [body(b"wait")]


async def test_one_connection_too_many_is_cut(client: Client) -> None:
    assert Client(client.around).transport.aborted
    assert not client.transport.closed
