"""What clients can make a Kafka listener hold, over real sockets: a stand-in answers, the listener is the real one."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from streams import Stream, Streams
from waiting import LIMIT_S, until

from ottla_broker.kafka.dispatch import Dispatcher
from ottla_broker.kafka.network.connection import HandlerResult, KafkaConnection
from ottla_broker.kafka.network.limits import ConnectionLimits
from ottla_broker.kafka.network.listener import Listener
from ottla_broker.kafka.wire.frames import Caller, Head, Parts
from ottla_broker.listener_settings import ONLY_LISTENER, KafkaListener
from ottla_core.host_port import HostPort
from ottla_core.rpc.server import PortInUseError
from ottla_core.telemetry import Metrics

ANSWER_BYTES = 1_000_000
FETCH, CONTROL = 1, 3
REQUEST = struct.pack(">ihhih", 10, FETCH, 1, 1, -1)
WAIT = struct.pack(">ihhih", 10, FETCH, 2, 1, -1)
SMALL = struct.pack(">ihhih", 10, CONTROL, 3, 1, -1)
SMALL_BYTES = 100
MIB = 1 << 20


class Answers:
    """Answers every request with a megabyte, one of version 2 when `may_end` is set, one of version 3 with little."""

    def __init__(self) -> None:
        self.begun = 0
        self.listeners: list[str] = []
        self.cancelled = 0
        self.may_end = asyncio.Event()

    def may_overlap(self, key: int) -> bool:
        return False

    def handle(self, head: Head, frame: memoryview, caller: Caller) -> HandlerResult:
        self.begun += 1
        self.listeners.append(caller.listener)
        if head.version == 3:
            return [bytes(SMALL_BYTES)]
        return self._later() if head.version == 2 else [bytes(ANSWER_BYTES)]

    async def _later(self) -> Parts | None:
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return [bytes(8)]


def loopback(port: int, name: str = ONLY_LISTENER) -> KafkaListener:
    return KafkaListener(name, HostPort("127.0.0.1", port))


class Listening(Listener):
    """With the connections that a test has made to it, which end when it does."""

    def __init__(self, at: Sequence[KafkaListener], answers: Answers, **limits: Any) -> None:
        self.configured = ConnectionLimits(**limits)
        super().__init__(at, cast(Dispatcher, answers), Metrics(), limits=self.configured, configured=self._current)
        self.clients = Streams()

    def _current(self, limits: ConnectionLimits) -> ConnectionLimits:
        return self.configured


@asynccontextmanager
async def listening(answers: Answers, *at: KafkaListener, **limits: Any) -> AsyncIterator[Listening]:
    listener = Listening(at or [loopback(0)], answers, **limits)
    await listener.start()
    try:
        async with listener.clients:
            yield listener
    finally:
        await listener.kill()


async def connect(listener: Listening, name: str = ONLY_LISTENER, **options: Any) -> Stream:
    return await listener.clients.connect(listener.ports[name], **options)


async def connect_known(listener: Listening) -> Stream:
    """A connection whose first request is done."""
    reader, writer = await connect(listener)
    await small(reader, writer)
    return reader, writer


async def small(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A small request, which is answered at once whatever others do."""
    writer.write(SMALL)
    async with asyncio.timeout(LIMIT_S):
        await reader.readexactly(SMALL_BYTES)


async def at_rest(answers: Answers) -> int:
    """How many have begun once the kernel takes no more of them."""
    begun = -1
    while begun != answers.begun:
        begun = answers.begun
        await asyncio.sleep(0.1)
    return begun


async def test_who_announces_much_and_sends_nothing_is_in_nobody_s_way() -> None:
    """1. A hundred connections announce 100 MiB each. 2. Old and new connections are answered as ever."""
    answers = Answers()
    async with listening(answers) as listener:
        old = await connect_known(listener)
        hostile = [await connect_known(listener) for _ in range(100)]
        for _, writer in hostile:
            writer.write(struct.pack(">ihh", 100 * MIB, 0, 9))
        await until(lambda: listener.budget.held_bytes == 100 * 8)
        begun = answers.begun
        await small(*old)
        await connect_known(listener)
        old[1].write(REQUEST)
        await old[0].readexactly(ANSWER_BYTES)
        assert answers.begun == begun + 3


async def test_a_stranger_s_frame_is_short(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(Answers()) as listener:
        reader, writer = await connect(listener)
        writer.write(struct.pack(">ihh", MIB, 0, 9))
        assert await reader.read() == b""
        assert "from 127.0.0.1: a frame of 1048576 bytes for API 0" in caplog.text
        assert "10 to 524288 bytes are allowed before the first request is done" in caplog.text


async def test_who_does_not_read_its_answers_holds_up_neither_small_requests_nor_other_addresses() -> None:
    """1. Sixty connections ask for a megabyte each, again and again, and read nothing. 2. They get so much and no more:
    small requests are answered, and what is asked for from elsewhere is too."""
    answers = Answers()
    async with listening(answers, max_held=16 * MIB) as listener:
        old = await connect_known(listener)
        stalled = []
        for _ in range(60):
            reader, writer = await connect_known(listener)
            writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            writer.write(REQUEST * 20)
            stalled.append((reader, writer))
        await until(lambda: listener.budget.held_bytes > 11 * MIB)
        for _ in range(20):
            await small(*old)
            assert listener.budget.held_bytes < 14 * MIB, "an eighth is kept back, and shares leave some of the rest"
        elsewhere = await connect(listener, local_addr=("127.0.0.2", 0))
        elsewhere[1].write(REQUEST)
        async with asyncio.timeout(LIMIT_S):
            assert len(await elsewhere[0].readexactly(ANSWER_BYTES)) == ANSWER_BYTES


async def test_few_large_answers_begin_in_one_turn_of_the_loop() -> None:
    """Forty connections ask at the same time, after the loop has slept: others have their turn in between."""
    answers = Answers()
    async with listening(answers) as listener:
        clients = [await connect_known(listener) for _ in range(40)]
        begun_before, begun = answers.begun, []
        for _, writer in clients:
            writer.write(WAIT)
        time.sleep(0.05)
        while answers.begun < begun_before + 40:
            before = answers.begun
            await asyncio.sleep(0)
            begun.append(answers.begun - before)
        assert max(begun) == 8
        answers.may_end.set()
        for reader, _ in clients:
            await reader.readexactly(8)


async def test_frames_that_fill_the_budget_together_all_end() -> None:
    """1. Forty frames of a megabyte come at the same time, a piece of each, where sixteen have room. 2. All are
    answered: those that have come furthest may end."""
    answers = Answers()
    async with listening(answers, max_held=16 * MIB, room_s=60) as listener:
        producers = [await connect_known(listener) for _ in range(40)]
        frame = struct.pack(">ihhih", 10 + MIB, CONTROL, 3, 1, -1) + bytes(MIB)
        begun = answers.begun
        for at in range(0, len(frame), MIB // 8):
            for _, writer in producers:
                writer.write(frame[at : at + MIB // 8])
            await asyncio.sleep(0.02)
            assert listener.budget.held_bytes < 16 * MIB
        async with asyncio.timeout(LIMIT_S):
            for reader, _ in producers:
                await reader.readexactly(SMALL_BYTES)
        assert answers.begun == begun + 40


async def test_a_frame_of_the_greatest_length_has_room_where_nobody_else_wants_it() -> None:
    answers = Answers()
    async with listening(answers) as listener:
        reader, writer = await connect_known(listener)
        writer.write(
            struct.pack(">ihhih", ConnectionLimits().max_produce, 0, 3, 1, -1)
            + bytes(ConnectionLimits().max_produce - 10)
        )
        async with asyncio.timeout(LIMIT_S):
            await reader.readexactly(SMALL_BYTES)
        assert answers.begun == 2


async def test_a_reader_that_stops_reading_holds_a_few_answers_and_no_more() -> None:
    answers = Answers()
    async with listening(answers) as listener:
        reader, writer = await connect(listener)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
        writer.write(REQUEST * 100)
        await until(lambda: listener.budget.held_bytes > 0)
        begun = await at_rest(answers)
        other_reader, other_writer = await connect(listener)
        for _ in range(20):
            other_writer.write(REQUEST)
            await other_reader.readexactly(ANSWER_BYTES)
        assert answers.begun == begun + 20, "nothing is begun for who does not read"
        assert listener.budget.held_bytes < 4 * ANSWER_BYTES
        writer.transport.resume_reading()  # type: ignore[attr-defined]  # a socket's transport has it
        await reader.readexactly(100 * ANSWER_BYTES)
        await until(lambda: listener.budget.held_bytes == 0)


async def test_a_reader_that_never_reads_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    async with listening(Answers(), write_s=1) as listener:
        _, writer = await connect(listener)
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # a socket's transport has it
        writer.write(REQUEST * 20)
        await until(lambda: "the client did not take a response within 1 s" in caplog.text)
        await until(lambda: listener.budget.held_bytes == 0)
        assert len(caplog.records) == 1, "it was cut once, and nobody else"


async def test_a_frame_that_stops_coming_is_given_up() -> None:
    async with listening(Answers(), frame_s=2) as listener:
        reader, writer = await connect_known(listener)
        writer.write(struct.pack(">ihh", 50_000_000, 0, 9) + bytes(1_000))
        await until(lambda: listener.budget.held_bytes == 1_008)
        assert await reader.read() == b""
        assert listener.budget.held_bytes == 0


@pytest.mark.parametrize(("key", "limit"), [(0, ConnectionLimits().max_produce), (3, ConnectionLimits().max_control)])
async def test_a_frame_may_be_so_long_and_no_longer(key: int, limit: int) -> None:
    """The longest is waited for, and a longer one is refused before anything is kept for it."""
    async with listening(Answers()) as listener:
        _, writer = await connect_known(listener)
        writer.write(struct.pack(">ihh", limit, key, 9))
        await until(lambda: listener.budget.held_bytes == 8)
        other_reader, other_writer = await connect_known(listener)
        other_writer.write(struct.pack(">ihh", limit + 1, key, 9))
        assert await other_reader.read() == b""
        assert listener.budget.held_bytes == 8


async def test_idle_connections_are_closed_and_too_many_are_refused() -> None:
    async with listening(Answers(), max_connections=3, idle_s=0.5) as listener:
        kept = [await connect(listener) for _ in range(3)]
        try:
            refused, _ = await connect(listener)
            assert await refused.read() == b""
        except ConnectionResetError:
            pass
        for reader, _ in kept:
            assert await reader.read() == b""
        again, writer = await connect(listener)
        writer.write(REQUEST)
        await again.readexactly(ANSWER_BYTES)


async def is_refused(listener: Listening, host: str = "127.0.0.1") -> bool:
    """Whether a new connection from this address ends at once."""
    try:
        reader, _ = await connect(listener, local_addr=(host, 0))
        async with asyncio.timeout(0.5):
            return await reader.read() == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


async def test_an_address_has_no_more_connections_than_allowed() -> None:
    async with listening(Answers(), max_of_host=2, max_of_hosts={"127.0.0.3": 1}) as listener:
        _, writer = await connect(listener)
        await connect(listener)
        assert await is_refused(listener)
        assert not await is_refused(listener, "127.0.0.3")
        assert await is_refused(listener, "127.0.0.3")
        writer.close()
        await until(lambda: listener.connections == 2)
        assert not await is_refused(listener)


async def test_limits_change_while_connections_are_open() -> None:
    async with listening(Answers()) as listener:
        kept = [await connect_known(listener) for _ in range(3)]
        listener.configured = ConnectionLimits(max_of_host=1)
        await until(lambda: listener.limits.max_of_host == 1)
        assert await is_refused(listener)
        for reader, writer in kept:
            await small(reader, writer)
        listener.configured = ConnectionLimits(idle_s=0.1)
        for reader, _ in kept:
            async with asyncio.timeout(LIMIT_S):
                assert await reader.read() == b""


async def test_silent_clients_give_their_places_to_clients_of_another_address() -> None:
    async with listening(Answers(), max_connections=3) as listener:
        known, writer = await connect_known(listener)
        silent = [await connect(listener, local_addr=("127.0.0.2", 0)) for _ in range(2)]
        await until(lambda: listener.connections == 3)
        assert await is_refused(listener, "127.0.0.2")
        assert not await is_refused(listener, "127.0.0.3")
        oldest, _ = silent[0]
        assert await oldest.read() == b""
        await small(known, writer)
        assert listener.connections == 3


@pytest.mark.story("frame-of-no-bytes-stays-open")
@pytest.mark.parametrize("sent", [bytes(4), struct.pack(">i", 9), struct.pack(">i", -1), struct.pack(">i", 2**31 - 1)])
async def test_a_frame_of_an_impossible_size_ends_the_connection_as_soon_as_the_size_is_there(sent: bytes) -> None:
    async with listening(Answers(), frame_s=1000) as listener:
        reader, writer = await connect_known(listener)
        writer.write(sent)
        async with asyncio.timeout(LIMIT_S):
            assert await reader.read() == b""


@pytest.mark.parametrize("how", [Listener.kill, Listener.stop])
async def test_a_connection_that_comes_as_the_listener_closes_is_cut(
    how: Callable[[Listener], Awaitable[None]],
) -> None:
    """Nothing else would end it: all that were open have been cut."""
    async with listening(Answers()) as listener:
        await how(listener)
        assert not listener.on_open(KafkaConnection(listener, "late"), "client's host")


@pytest.mark.story("one-connections-bug-ends-all-limits")
async def test_a_connection_whose_tick_fails_is_cut_and_the_others_keep_their_limits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tick, failed = KafkaConnection.on_tick, list[KafkaConnection]()

    def fails_once(connection: KafkaConnection, now: float) -> None:
        if not failed:
            failed.append(connection)
            raise RuntimeError("a bug")
        tick(connection, now)

    monkeypatch.setattr(KafkaConnection, "on_tick", fails_once)
    async with listening(Answers(), idle_s=0.5) as listener:
        async with asyncio.timeout(LIMIT_S):
            for reader, _ in [await connect(listener) for _ in range(2)]:
                assert await reader.read() == b""


async def test_a_listener_whose_ticks_have_ended_still_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = asyncio.Event()

    def fail() -> None:
        failed.set()
        raise RuntimeError("a bug")

    async with listening(Answers()) as listener:
        monkeypatch.setattr(listener.budget, "on_tick", fail)
        await asyncio.wait_for(failed.wait(), LIMIT_S)
        await listener.stop()
        with pytest.raises(ConnectionRefusedError):
            await connect(listener)


async def test_what_a_client_has_begun_ends_with_its_connection() -> None:
    answers = Answers()
    async with listening(answers) as listener:
        _, writer = await connect(listener)
        writer.write(WAIT)
        await until(lambda: answers.begun == 1)
        await asyncio.sleep(0)
        writer.close()
        await until(lambda: answers.cancelled == 1)


async def test_a_stop_answers_what_is_open_and_takes_nobody_new() -> None:
    answers = Answers()
    async with listening(answers) as listener:
        reader, writer = await connect(listener)
        writer.write(WAIT)
        await until(lambda: answers.begun == 1)
        stopping = asyncio.create_task(listener.stop())
        await asyncio.sleep(0)
        writer.write(REQUEST)
        answers.may_end.set()
        assert len(await reader.read()) == 8
        await stopping
        with pytest.raises(ConnectionRefusedError):
            await connect(listener)
        assert answers.begun == 1


async def test_a_port_that_is_taken_is_named_and_the_others_are_let_go() -> None:
    async with listening(Answers()) as listener:
        taken = listener.ports[ONLY_LISTENER]
        second = Listening([loopback(0, "FREE"), loopback(taken)], Answers())
        with pytest.raises(PortInUseError, match=str(taken)):
            await second.start()
        with pytest.raises(ConnectionRefusedError):
            await connect(second, "FREE")


async def test_the_listeners_of_a_broker_share_its_limits_and_their_clients_are_told_apart() -> None:
    answers = Answers()
    both = [loopback(0, "INTERNAL"), loopback(0, "EXTERNAL")]
    async with listening(answers, *both, max_connections=2) as listener:
        open_ones = [await connect(listener, name) for name in ("INTERNAL", "EXTERNAL")]
        for reader, writer in open_ones:
            writer.write(REQUEST)
            await reader.readexactly(ANSWER_BYTES)
        assert answers.listeners == ["INTERNAL", "EXTERNAL"]
        try:
            refused, _ = await connect(listener, "INTERNAL")
            assert await refused.read() == b"", "two are open, one by each listener"
        except ConnectionResetError:
            pass


@pytest.mark.story("client-gone-behind-what-is-not-read")
async def test_a_client_that_goes_behind_what_is_not_read_ends_what_it_left() -> None:
    """1. A request waits for long, and more is sent behind it than is read. 2. The client ends its connection, which no
    read tells. 3. What waits is cancelled all the same."""
    answers = Answers()
    async with listening(answers, max_waiting=1000) as listener:
        _, writer = await connect_known(listener)
        writer.write(WAIT + SMALL * 1000)
        await until(lambda: answers.begun == 2)
        writer.close()
        await until(lambda: answers.cancelled == 1)
