"""TLS between a socket and a connection: any split of bytes, ends, damage, clients that take nothing, and limits."""

from __future__ import annotations

import asyncio
import gc
import ssl
import struct
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest
from listeners import CONTROL, LIMITS, PRODUCE, Around
from tls_peers import Certificates, Port, TlsClient
from waiting import until

from ottla_broker.kafka.network.budget import Budget
from ottla_broker.kafka.network.connection import KafkaConnection
from ottla_broker.kafka.network.tls_session import RECORD_BYTES
from ottla_broker.kafka.network.turns import Turns
from ottla_broker.kafka.wire.frames import Caller
from ottla_core.security.principal import NoPrincipalError

ROOMY = replace(LIMITS, max_connections=100, max_first=10_000_000, max_produce=10_000_000, max_held=100_000_000)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def around() -> Around:
    around = Around()
    around.limits, around.budget = ROOMY, Budget(ROOMY.max_held)
    around.scratch = memoryview(bytearray(256 * 1024))
    return around


@pytest.fixture
def port(certificates: Certificates) -> Port:
    return Port(certificates.server_context(), ROOMY)


@pytest.fixture
def dial(certificates: Certificates, around: Around, port: Port) -> Callable[[], TlsClient]:
    return lambda: TlsClient(port, certificates.client_context(), partial(KafkaConnection, around, "A", None))


async def opened(client: TlsClient) -> TlsClient:
    await client.talk()
    assert client.is_open
    return client


def frame(body: bytes, key: int = CONTROL) -> bytes:
    return struct.pack(">ihh", 4 + len(body), key, 0) + body


# ---- bytes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("piece_bytes", [1, 5, 1_000, RECORD_BYTES, 1 << 20])
async def test_requests_are_answered_however_their_bytes_come(
    dial: Callable[[], TlsClient], around: Around, piece_bytes: int
) -> None:
    client = dial()
    await client.talk(piece_bytes)
    bodies = [b"the first", b"x" * 700, b"the third"]
    for body in bodies:
        client.say(frame(body))
    await client.talk(piece_bytes)
    assert around.began == bodies
    assert bytes(client.received) == b"".join(around.began)


async def test_a_request_right_behind_the_handshake_is_answered(dial: Callable[[], TlsClient], around: Around) -> None:
    client = dial()
    client.give(client.step())
    await asyncio.sleep(0)
    finished = client.step()
    body = b"too early" * 30_000
    client.say(frame(body, PRODUCE))  # more than a handshake may have
    client.give(finished + client.step())
    assert not client.socket.reading  # until the handshake has its turn
    await client.talk()
    assert around.began == [body]


async def test_a_large_request_is_opened_as_it_was_sent(dial: Callable[[], TlsClient], around: Around) -> None:
    client = await opened(dial())
    body = bytes(range(256)) * 4_000
    client.say(frame(body, PRODUCE))
    await client.talk(60_001)
    assert around.began[0] == body


class OnlySmall:
    """The TLS of a client that takes at most 512 bytes in a record (max_fragment_length)."""

    def __init__(self, tls: ssl.SSLObject) -> None:
        self._tls = tls

    def write(self, data: Any) -> int:
        return self._tls.write(data[:512])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tls, name)


async def test_clients_that_take_only_small_records_get_all_of_a_response(
    dial: Callable[[], TlsClient], around: Around
) -> None:
    client = dial()
    session: Any = client.transport._session
    session._tls = OnlySmall(session._tls)
    await opened(client)
    client.say(frame(bytes(range(256)) * 300, PRODUCE))
    await client.talk()
    assert bytes(client.received) == around.began[0]


# ---- ends -----------------------------------------------------------------------------------------------------------


async def test_the_end_of_a_client_is_answered_with_the_brokers_own(dial: Callable[[], TlsClient]) -> None:
    client = await opened(dial())
    client.say_end()
    await client.talk()
    assert client.ended
    assert client.socket.closed
    assert not client.socket.aborted


async def test_a_response_reaches_a_client_that_has_ended_its_side(
    dial: Callable[[], TlsClient], around: Around
) -> None:
    client = await opened(dial())
    client.socket.full = True
    body = b"y" * 900_000
    client.say(frame(body, PRODUCE))
    client.give(client.step())
    assert client.transport.eof_received()
    assert not client.socket.closed
    client.socket.take_on()
    await client.talk()
    assert bytes(client.received) == around.began[0]
    assert client.ended
    assert client.socket.closed


@pytest.mark.parametrize("bytes_sent", [1, 100, 1_000_000])
async def test_a_client_that_stops_in_the_handshake_is_reported_and_forgotten(
    dial: Callable[[], TlsClient], port: Port, around: Around, bytes_sent: int
) -> None:
    client = dial()
    client.give(client.step()[:bytes_sent])
    await asyncio.sleep(0)
    assert port.port.handshakes == 1
    assert client.transport.eof_received() is False
    client.lose()
    assert port.port.handshakes == 0
    assert around.open == 0
    assert port.refused == ["the client has ended the connection in the TLS handshake"]


async def test_a_probe_of_the_port_that_sends_nothing_is_not_reported(
    dial: Callable[[], TlsClient], port: Port
) -> None:
    dial().lose()
    assert (port.refused, port.port.handshakes) == ([], 0)


async def test_nothing_happens_to_a_connection_that_is_lost_before_its_turn(
    dial: Callable[[], TlsClient], port: Port, around: Around
) -> None:
    client = dial()
    client.give(client.step())
    client.lose()
    await asyncio.sleep(0)
    assert client.socket.sent == b""
    assert around.open == 0


# ---- damage ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "first", [b"GET / HTTP/1.1\r\n\r\n", frame(b"plaintext"), b"\0" * 50, b"\x15\x03\x03\0\x02\x02\x28"]
)
async def test_a_client_without_tls_is_told_by_an_alert(
    dial: Callable[[], TlsClient], port: Port, first: bytes
) -> None:
    client = dial()
    client.give(first)
    await asyncio.sleep(0)
    assert client.socket.sent[:2] == b"\x15\x03"
    assert client.socket.closed
    assert "the client does not speak TLS" in port.refused[0]
    client.lose()
    assert len(port.refused) == 1


async def test_a_damaged_record_ends_its_own_connection(dial: Callable[[], TlsClient], port: Port) -> None:
    client, beside = await opened(dial()), await opened(dial())
    client.say(frame(b"damaged"))
    damaged = bytearray(client.step())
    damaged[-1] ^= 1
    client.give(bytes(damaged))
    assert client.socket.closed
    assert "what the client has sent is damaged (TLS: " in port.refused[0]
    beside.say(frame(b"beside"))
    await beside.talk()
    assert beside.received.endswith(b"beside")


async def test_a_damaged_handshake_is_refused(dial: Callable[[], TlsClient], port: Port) -> None:
    client = dial()
    hello = bytearray(client.step())
    hello[5] ^= 0xFF
    client.give(bytes(hello))
    await asyncio.sleep(0)
    assert client.socket.closed
    assert len(port.refused) == 1


# ---- clients that are slow ------------------------------------------------------------------------------------------


async def test_a_response_is_sealed_only_as_it_is_taken(dial: Callable[[], TlsClient], around: Around) -> None:
    client = await opened(dial())
    client.socket.full = True
    body = bytes(range(256)) * 20_000
    client.say(frame(body, PRODUCE))
    await client.talk()  # on a busy machine the request takes more than one turn
    written = client.transport.get_write_buffer_size()
    assert len(body) < written < len(body) + 1_000
    assert client.socket.largest_kept < 5 * RECORD_BYTES
    assert around.budget.held_bytes >= len(body)
    for _ in range(1_000):
        client.socket.take_on()
        client.socket.full = True
        await client.talk()
        if len(client.received) == len(around.began[0]):
            break
    assert client.socket.largest_kept < 5 * RECORD_BYTES
    assert bytes(client.received) == around.began[0]
    client.socket.take_on()
    assert around.budget.held_bytes == 0


async def test_nothing_is_read_while_the_connection_does_not_read(
    dial: Callable[[], TlsClient], around: Around
) -> None:
    client = await opened(dial())
    client.say(frame(b"wait for it"))
    bodies = [b"number %03d" % number for number in range(100)]
    for body in bodies:
        client.say(frame(body))
    client.give(client.step())
    await asyncio.sleep(0)
    assert not client.socket.reading
    assert len(around.began) == 1
    around.waits[around.began[0]].set_result(None)
    await client.talk()
    assert around.began[1:] == bodies
    assert client.socket.reading


class Reader(asyncio.BufferedProtocol):
    """A connection that stops reading after each of its buffers."""

    def __init__(self, principal: str) -> None:
        self.transport: asyncio.Transport
        self.read = bytearray()
        self._buffer = bytearray(100)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.read += self._buffer[:nbytes]
        self.transport.pause_reading()


async def test_a_connection_gets_nothing_while_it_does_not_read(certificates: Certificates, port: Port) -> None:
    readers: list[Reader] = []

    def new(principal: str) -> Reader:
        readers.append(Reader(principal))
        return readers[-1]

    client = await opened(TlsClient(port, certificates.client_context(), cast(Any, new)))
    (reader,) = readers
    data = bytes(range(250))
    client.say(data)
    client.say(data)
    client.give(client.step())
    for count in (100, 200, 300, 400, 500):
        await asyncio.sleep(0)
        assert bytes(reader.read) == (data + data)[:count]
        assert not client.socket.reading
        reader.transport.resume_reading()
        assert len(reader.read) == count  # the connection is in the middle of its own call
    await until(lambda: client.socket.reading)
    reader.transport.pause_reading()
    assert not client.socket.reading


async def test_a_lost_client_leaves_nothing_behind(dial: Callable[[], TlsClient], around: Around) -> None:
    client = await opened(dial())
    client.socket.full = True
    client.say(frame(b"x" * 500_000, PRODUCE))
    client.give(client.step())
    client.lose()
    client.socket.kept.clear()
    assert client.transport.get_write_buffer_size() == 0
    assert (around.open, around.budget.held_bytes) == (0, 0)


async def test_a_lost_client_is_forgotten_without_a_collection_of_garbage(
    dial: Callable[[], TlsClient], around: Around
) -> None:
    """Its TLS session stayed in a cycle of references, and a process with long collections never frees such a cycle."""
    client = await opened(dial())
    client.say(frame(b"x" * 50_000)[:10_000])
    client.give(client.step())
    session = weakref.ref(client.transport._session)
    gc.collect()
    gc.disable()
    try:
        client.lose()
        del client.socket.protocol, client
        assert session() is None
    finally:
        gc.enable()


async def test_little_is_read_while_there_is_little_room(dial: Callable[[], TlsClient], around: Around) -> None:
    """Bytes that TLS has not opened count nowhere, so 64 KB for each of 10,000 clients would be 640 MB."""
    client = await opened(dial())
    assert len(client.transport.get_buffer(-1)) == 64 * 1024
    around.budget.account("10.0.0.3", cast(Any, None)).change(ROOMY.max_held)
    assert len(client.transport.get_buffer(-1)) == 4096


async def test_memory_for_a_frame_counts_before_tls_has_bytes_for_it(
    dial: Callable[[], TlsClient], around: Around
) -> None:
    """Hundreds of clients with a part of a record each took 640 MB at once, of a budget of 128 MB."""
    client = await opened(dial())
    data = frame(b"x" * 500_000, PRODUCE)
    for part in (data[:20_000], data[20_000:40_000]):
        assert around.budget.held_bytes < 500_000
        client.say(part)
        client.give(client.step())
    assert around.budget.held_bytes > 500_000


async def test_a_large_response_takes_turns_with_other_work(dial: Callable[[], TlsClient], port: Port) -> None:
    client = await opened(dial())
    body = b"z" * 2_000_000
    client.say(frame(body, PRODUCE))
    client.give(client.step())
    first = len(client.socket.sent)
    assert 0 < first < 400_000
    await client.talk()
    assert bytes(client.received) == body


async def test_handshakes_and_ends_that_come_together_leave_other_clients_their_turns(
    certificates: Certificates, around: Around
) -> None:
    each_takes_a_turn = Turns(slice_s=-1.0)
    port = Port(certificates.server_context(), ROOMY, newcomers=each_takes_a_turn)
    new = partial(KafkaConnection, around, "A", None)
    clients = [TlsClient(port, certificates.client_context(), new) for _ in range(3)]
    for client in clients:
        client.give(client.step())
    for answered in range(4):
        assert sum(bool(client.socket.sent) for client in clients) == answered
        await asyncio.sleep(0)
    for client in clients:
        await opened(client)
    for client in clients:
        client.say_end()
        client.give(client.step())
    for ended in range(4):
        assert sum(client.socket.closed for client in clients) == ended
        await asyncio.sleep(0)


async def test_a_client_that_only_changes_its_keys_takes_turns_with_others(dial: Callable[[], TlsClient]) -> None:
    client, beside = await opened(dial()), await opened(dial())
    client.give(client.change_keys(60_000))  # it takes OpenSSL tens of milliseconds
    assert not client.socket.reading
    beside.say(frame(b"beside"))
    beside.give(beside.step())
    beside.step()
    assert beside.received == b"beside"
    await until(lambda: client.socket.reading)
    client.say(frame(b"at last"))
    await client.talk()
    assert client.received == b"at last"


async def test_answers_to_changes_of_keys_do_not_pile_up(dial: Callable[[], TlsClient], port: Port) -> None:
    client = await opened(dial())
    client.socket.full = True
    for _ in range(10):
        client.give(client.change_keys(60_000))
        await until(lambda: client.socket.reading or client.socket.closed)
        if client.socket.closed:
            break
    assert client.socket.aborted
    assert client.socket.largest_kept < 250_000
    assert port.refused == ["the client changes its TLS keys, and does not take the answers"]


# ---- limits ---------------------------------------------------------------------------------------------------------


async def test_the_oldest_handshake_without_an_answer_gives_way_to_new_ones(
    certificates: Certificates, around: Around
) -> None:
    port = Port(certificates.server_context(), replace(ROOMY, max_handshakes=3))
    new = partial(KafkaConnection, around, "A", None)
    clients = [TlsClient(port, certificates.client_context(), new) for _ in range(5)]
    assert [client.socket.closed for client in clients] == [True, True, False, False, False]
    assert port.port.handshakes == 3
    assert port.refused == ["more than 3 TLS handshakes are open, and most of them from its address"] * 2
    for client in clients[2:]:
        await opened(client)
    assert port.port.handshakes == 0


async def test_a_handshake_whose_client_stops_gives_way_to_new_ones(certificates: Certificates, around: Around) -> None:
    port = Port(certificates.server_context(), replace(ROOMY, max_handshakes=2))
    new = partial(KafkaConnection, around, "A", None)
    stopped = [TlsClient(port, certificates.client_context(), new) for _ in range(2)]
    for client in stopped:
        client.give(client.step())
    await until(lambda: all(client.socket.sent for client in stopped))
    early = TlsClient(port, certificates.client_context(), new)
    assert [client.socket.closed for client in (*stopped, early)] == [False, False, True]
    port.time = 1.5
    late = TlsClient(port, certificates.client_context(), new)
    assert [client.socket.closed for client in (*stopped, late)] == [True, False, False]
    await opened(late)


@pytest.mark.story("handshakes-end-before-their-turn")
async def test_handshakes_are_done_even_if_more_begin_than_the_broker_can_do(
    certificates: Certificates, around: Around
) -> None:
    """If the oldest handshake gave way, each would end before it is done."""
    port = Port(certificates.server_context(), replace(ROOMY, max_handshakes=8), newcomers=Turns(slice_s=-1.0))
    new = partial(KafkaConnection, around, "A", None)
    context, clients = certificates.client_context(), list[TlsClient]()
    for _ in range(60):
        clients = [client for client in clients if not client.socket.closed]
        clients += [TlsClient(port, context, new) for _ in range(2)]
        for client in clients:
            if not client.socket.closed:
                client.give(client.step())
        await asyncio.sleep(0)
    assert around.open > 20
    assert port.port.handshakes <= 8
    assert len(port.refused) > 20


async def test_a_handshake_has_to_end_in_time(dial: Callable[[], TlsClient], port: Port) -> None:
    done, stuck = await opened(dial()), dial()
    stuck.give(stuck.step())
    port.time = ROOMY.handshake_s + 1
    late = dial()
    port.port.on_tick(port.time)
    assert [client.socket.closed for client in (done, stuck, late)] == [False, True, False]
    assert port.refused == [f"the TLS handshake was not done within {ROOMY.handshake_s} s"]


async def test_a_handshake_has_few_bytes(certificates: Certificates, around: Around) -> None:
    port = Port(certificates.server_context(), replace(ROOMY, max_handshake_bytes=100))
    client = TlsClient(port, certificates.client_context(), partial(KafkaConnection, around, "A", None))
    client.give(client.step())
    await asyncio.sleep(0)
    assert client.socket.closed
    assert "the TLS handshake is not done" in port.refused[0]


async def test_work_is_done_in_its_order_and_others_have_their_turn() -> None:
    done: list[str] = []

    def later(name: str) -> Callable[[], None]:
        return lambda: done.append(name)

    def failing() -> None:
        raise RuntimeError("a bug")

    turns, first, second, dropped = Turns(slice_s=-1.0), later("first"), later("second"), later("dropped")
    for work in (first, failing, first, dropped, second):
        turns.take("one", work)
    turns.drop("one", dropped)
    seen = []
    for _ in range(5):
        await asyncio.sleep(0)
        seen.append(len(done))
    assert done == ["first", "second"]
    assert seen[0] == 1


async def test_work_that_is_left_waits_for_a_pause_and_other_work_does_not() -> None:
    done: list[str] = []
    turns = Turns(slice_s=-1.0, pause_s=60.0)
    for name in ("first", "second", "left"):
        turns.take("one", partial(done.append, name))
        for _ in range(5 if name == "first" else 0):
            await asyncio.sleep(0)
    assert done == ["first"]
    for _ in range(5):
        await asyncio.sleep(0)
    assert done == ["first", "second"]


# ---- who the client is ----------------------------------------------------------------------------------------------


def named(certificate: bytes | None) -> str:
    return "User:c" if certificate else "User:ANONYMOUS"


async def connect(
    certificates: Certificates,
    around: Around,
    verify: ssl.VerifyMode,
    *,
    shows: bool,
    principal: Callable[[bytes | None], str] = named,
) -> tuple[Port, set[Caller]]:
    port = Port(certificates.server_context(verify), ROOMY, principal)
    context = certificates.client_context(certificates.client if shows else None)
    client = TlsClient(port, context, partial(KafkaConnection, around, "A", None))
    with suppress(ssl.SSLError):  # an alert of the broker
        await client.talk()
        client.say(frame(b"who am i"))
        await client.talk()
    return port, around.callers


@pytest.mark.parametrize("verify", [ssl.CERT_OPTIONAL, ssl.CERT_REQUIRED])
async def test_a_certificate_says_who_the_client_is(
    certificates: Certificates, around: Around, verify: ssl.VerifyMode
) -> None:
    _, callers = await connect(certificates, around, verify, shows=True)
    assert [caller.principal for caller in callers] == ["User:c"]


async def test_a_client_without_a_requested_certificate_is_anonymous(
    certificates: Certificates, around: Around
) -> None:
    _, callers = await connect(certificates, around, ssl.CERT_OPTIONAL, shows=False)
    assert [caller.principal for caller in callers] == ["User:ANONYMOUS"]


async def test_a_client_without_a_required_certificate_is_refused(certificates: Certificates, around: Around) -> None:
    port, callers = await connect(certificates, around, ssl.CERT_REQUIRED, shows=False)
    assert not callers
    assert "the client has shown no certificate" in port.refused[0]


async def test_a_client_whose_certificate_names_no_principal_is_refused(
    certificates: Certificates, around: Around
) -> None:
    def nobody(certificate: bytes | None) -> str:
        raise NoPrincipalError("the reason")

    port, callers = await connect(certificates, around, ssl.CERT_REQUIRED, shows=True, principal=nobody)
    assert not callers
    assert port.refused == ["the reason"]
