"""The adapter on real sockets: which thread writes, which one waits, which one reports, and how all of it ends."""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NoReturn, cast

import pytest
from interruptions import Interrupting, Interruption
from kafka_answers import AnsweringBroker, Request, framed
from waiting import LIMIT_S, wait_until

from ottla.admin.private_calls import lag
from ottla.client.kafka.apis import PRODUCE, WRITE_TXN_MARKERS
from ottla.client.kafka.call import Call
from ottla.client.kafka.connection import CONNECT_S
from ottla.client.kafka.exchange import Exchange, Outcome
from ottla.client.kafka.peer import KafkaPeer, KafkaStream
from ottla.client.kafka.sockets import line
from ottla.client.kafka.sockets.pending import Pending
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.metadata import metadata as metadata_of
from ottla.client.transaction_requests import end, initialization
from ottla.consumer.fetch import Fetched, FetchOptions
from ottla.consumer.fetch import exchange_of as fetch_of
from ottla.consumer.group import joining
from ottla.consumer.group.heartbeats import heartbeat
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.broker_session import NO_SESSION, BrokerSession
from ottla.machines.membership import MemberIdentity, MemberSettings
from ottla.machines.metadata import ClusterView
from ottla.machines.position import Fetch, FetchSession, Target
from ottla.producer.producer_id import new_producer_id
from ottla_core.host_port import HostPort
from ottla_core.kafka.message import Message
from ottla_core.kafka.messages import (
    EndTxnResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    InitProducerIdResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    SyncGroupRequest,
    SyncGroupResponse,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

Answer = Callable[[Request], Message | None]


class Server:
    """Accepts connections, and answers each request by `answer`. None means no answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.finalized: dict[str, int] = {}
        self.accepted: list[socket.socket] = []
        self.requests: list[Request] = []
        self.ended = 0
        self.reads = threading.Event()
        self.reads.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.accepted.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        broker = AnsweringBroker()
        try:
            while self.reads.wait(LIMIT_S) and (data := connection.recv(65536)):
                broker.read(data)
                while broker.requests:
                    self._answer(connection, broker, broker.requests.pop(0))
        except OSError:
            pass
        self.ended += 1
        connection.close()

    def _answer(self, connection: socket.socket, broker: AnsweringBroker, request: Request) -> None:
        if request.api.name == "ApiVersions":
            broker.finalized = self.finalized
            connection.sendall(broker.versions(request))
            return
        self.requests.append(request)
        if (response := self.answer(request)) is not None:
            connection.sendall(framed(request, response))

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self.accepted:
            connection.close()


def kind(request: Request) -> Message:
    match request.api.name:
        case "Metadata":
            return MetadataResponse(cluster_id="c")
        case "InitProducerId":
            return InitProducerIdResponse(producer_id=7)
        case _:
            return ProduceResponse()


@contextmanager
def serving(answer: Answer = kind) -> Iterator[tuple[Server, KafkaPeer]]:
    server = Server(answer)
    peer = KafkaTransport("me")(server.address)
    try:
        yield server, peer
    finally:
        peer.close()
        server.close()


def metadata(peer: KafkaPeer, timeout: float = LIMIT_S) -> ClusterView:
    return peer.exchange(metadata_of([], TopicNames()), timeout=timeout)


def a_produce(records: bytes | None = None, *, acks: int = 1) -> Exchange[ProduceResponse]:
    partition = ProduceRequest.PartitionProduceData(index=0, records=records)
    topics = (
        [] if records is None else [ProduceRequest.TopicProduceData(topic_id=bytes(16), partition_data=[partition])]
    )
    request = ProduceRequest(acks=acks, topic_data=topics)
    return Exchange(PRODUCE, lambda _: request, lambda response: response, size_bytes=len(records or b""))


def elsewhere(call: Callable[[], Any]) -> Any:
    """Make a call in a thread that is not the main one, and return its result."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join(LIMIT_S)
    return results[0]


def network_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ottla-network")]


class Told:
    """The callbacks of a stream."""

    def __init__(self) -> None:
        self.responses: list[int] = []
        self.errors: list[int] = []
        self.broken: list[tuple[OttlaError, list[int]]] = []
        self.threads: set[str] = set()

    def on_response(self, number: int, outcome: Outcome[Any]) -> None:
        assert self.broken == []
        self.threads.add(threading.current_thread().name)
        (self.errors if outcome.error is not None else self.responses).append(number)

    def on_broken(self, error: OttlaError, left: list[int]) -> None:
        self.threads.add(threading.current_thread().name)
        self.broken.append((error, left))


def test_a_call_from_the_main_thread_and_one_from_another_share_a_connection() -> None:
    with serving() as (server, peer):
        assert metadata(peer).cluster_id == "c"
        assert elsewhere(lambda: metadata(peer)).cluster_id == "c"
        assert peer.exchange(new_producer_id(), timeout=LIMIT_S) == 7
        assert len(server.accepted) == 1
        assert {request.client_id for request in server.requests} == {"me"}


def test_no_call_is_kept_after_its_outcome() -> None:
    """A call has its request, and its outcome has the response. Neither may wait for the garbage collector."""

    def kept() -> list[str]:
        return [each.api.name for each in gc.get_objects() if type(each) is Call and each not in before]

    gc.collect()
    before = [each for each in gc.get_objects() if type(each) is Call]
    told = Told()
    gc.disable()
    try:
        with serving() as (_, peer):
            metadata(peer)
            elsewhere(partial(metadata, peer))
            stream = peer.open_stream("a producer", told.on_response, told.on_broken)
            stream.send(a_produce(), timeout_ms=10_000)
            wait_until(lambda: len(told.responses) == 1)
            wait_until(lambda: kept() == [])
    finally:
        gc.enable()


def test_the_system_probes_a_silent_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[socket.socket] = []
    dial = line._dialled

    def noted(place: HostPort) -> socket.socket:
        made.append(dial(place))
        return made[-1]

    monkeypatch.setattr(line, "_dialled", noted)
    with serving() as (_, peer):
        metadata(peer)
        assert made[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        assert [made[0].getsockopt(socket.IPPROTO_TCP, option) for option in options] == [60, 10, 3]


def group_calls(request: Request) -> Message | None:
    """Answer every call of a group, but a JoinGroup only if the member has an id."""
    match request.message:
        case JoinGroupRequest(member_id=""):
            return None
        case JoinGroupRequest(member_id=member_id):
            return JoinGroupResponse(member_id=member_id, protocol_type="consumer", protocol_name="range")
        case SyncGroupRequest():
            return SyncGroupResponse(protocol_type="consumer", protocol_name="range")
        case HeartbeatRequest():
            return HeartbeatResponse()
        case _:
            return kind(request)


def join(peer: KafkaPeer, member_id: str, timeout: float = LIMIT_S) -> str:
    asked = joining.join("g", MemberIdentity(member_id), MemberSettings(), {"range": b""}, "")
    return peer.exchange(asked, timeout=timeout).member_id


def test_no_call_waits_behind_a_join_that_waits_for_others() -> None:
    with serving(group_calls) as (server, peer):
        waiting = threading.Thread(target=lambda: suppressed(lambda: join(peer, "")))
        waiting.start()
        wait_until(lambda: len(server.requests) == 1)
        peer.exchange(heartbeat("g", MemberIdentity()), timeout=LIMIT_S)
        assert join(peer, "m") == "m"
        assert waiting.is_alive()
        assert len(server.accepted) == 3
        peer.close()
        waiting.join(LIMIT_S)
        assert not waiting.is_alive()


def test_calls_that_wait_use_the_same_line_one_after_the_other() -> None:
    with serving(group_calls) as (server, peer):
        for n in range(3):
            assert join(peer, f"m{n}") == f"m{n}"
            peer.exchange(joining.sync("g", MemberIdentity(f"m{n}"), "range", {}), timeout=LIMIT_S)
        assert len(server.accepted) == 1


def test_only_one_line_for_calls_that_wait_is_kept() -> None:
    started, gate = threading.Barrier(3), threading.Event()

    def answer(request: Request) -> Message | None:
        started.wait(LIMIT_S)
        gate.wait(LIMIT_S)
        return group_calls(request)

    with serving(answer) as (server, peer):
        joining = [threading.Thread(target=partial(join, peer, f"m{n}")) for n in range(2)]
        for thread in joining:
            thread.start()
        started.wait(LIMIT_S)
        gate.set()
        for thread in joining:
            thread.join(LIMIT_S)
        wait_until(lambda: server.ended == 1)
        assert len(server.accepted) == 2


def test_a_call_that_has_waited_in_vain_takes_its_line_with_it() -> None:
    with serving(group_calls) as (server, peer):
        with pytest.raises(OttlaError) as raised:
            join(peer, "", timeout=0.2)
        assert raised.value.code == ErrorCode.REQUEST_TIMED_OUT
        wait_until(lambda: server.ended == 1)


def test_a_call_that_waits_and_is_given_up_takes_its_line_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(group_calls) as (server, peer):
        monkeypatch.setattr(Pending, "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            join(peer, "")
        monkeypatch.undo()
        wait_until(lambda: server.ended == len(server.accepted) == 1)
        assert join(peer, "m") == "m"  # at once, since no broker has ended a connection


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


def suppressed(call: Callable[[], Any]) -> None:
    with suppress(OttlaError):
        call()


PAUSE_S = 0.8


def asks_for_a_pause(request: Request) -> Message | None:
    """The first response on each connection asks for a pause."""
    response: Any = kind(request)
    response.throttle_time_ms = 0 if request.correlation_id > 2 else round(1000 * PAUSE_S)
    return response  # type: ignore[no-any-return]  # it is what `kind` returned


def test_a_line_pauses_if_a_response_asks_for_it_and_another_line_does_not() -> None:
    told = Told()
    with serving(asks_for_a_pause) as (server, peer):
        began_at = time.monotonic()
        metadata(peer)
        waiting = threading.Thread(target=partial(metadata, peer))
        waiting.start()
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        stream.send(a_produce(), timeout_ms=10_000)
        waiting.join(LIMIT_S)
        assert time.monotonic() - began_at >= PAUSE_S
        assert [request.api.name for request in server.requests] == ["Metadata", "Produce", "Metadata"]
        stream.close()


def test_a_stream_pauses_if_a_response_asks_for_it() -> None:
    told = Told()
    with serving(asks_for_a_pause) as (_, peer):
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        began_at = time.monotonic()
        for count in (1, 2):
            stream.send(a_produce(), timeout_ms=10_000)
            wait_until(lambda: len(told.responses) == count)  # noqa: B023
        assert time.monotonic() - began_at >= PAUSE_S
        stream.close()


def test_what_only_ottlas_brokers_have_is_an_error_at_others_and_says_so() -> None:
    with serving() as (_, peer), pytest.raises(OttlaError, match=r"this client can't call Group\.Lag") as caught:
        peer.exchange(lag("g", lambda: 0), timeout=LIMIT_S)
    assert caught.value.code == ErrorCode.UNSUPPORTED_VERSION
    assert caught.value.hint == "use a cluster of ottla: Apache Kafka has nothing like it"


@pytest.mark.parametrize(("level", "version"), [(2, 2), (1, 1), (0, 1)])
def test_a_producer_is_told_the_version_of_transactions_and_its_requests_keep_to_it(level: int, version: int) -> None:
    def answer(request: Request) -> Message:
        return EndTxnResponse(producer_id=7) if request.api.name == "EndTxn" else InitProducerIdResponse(producer_id=7)

    with serving(answer) as (server, peer):
        server.finalized = {"transaction.version": level}
        found = peer.exchange(initialization("tx", 60_000), timeout=LIMIT_S)
        peer.exchange(end("tx", found, committed=True), timeout=LIMIT_S)
    assert found.version == version
    assert [request.version for request in server.requests] == [5, 5 if version == 2 else 4]


def test_a_response_that_can_not_ask_for_a_pause_is_returned() -> None:
    """Brokers send such a request to each other, and administrators send it to brokers."""
    with serving(lambda _: WriteTxnMarkersResponse()) as (_, peer):
        asked = Exchange(WRITE_TXN_MARKERS, lambda _: WriteTxnMarkersRequest(), lambda response: response)
        assert peer.exchange(asked, timeout=LIMIT_S) == WriteTxnMarkersResponse()


def test_responses_of_a_stream_come_on_the_networks_thread_and_its_end_comes_last() -> None:
    told = Told()
    with serving() as (_, peer):
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        numbers = [stream.send(a_produce(), timeout_ms=10_000) for _ in range(50)]
        numbers += elsewhere(lambda: [stream.send(a_produce(), timeout_ms=10_000) for _ in range(50)])
        wait_until(lambda: len(told.responses) == 100)
        stream.close()
        assert told.responses == numbers
        assert [left for _, left in told.broken] == [[]]
        assert told.threads == {"ottla-network-me"}
        with pytest.raises(OttlaError, match="the connection was closed"):
            stream.send(a_produce(), timeout_ms=1000)


def test_what_is_open_when_a_stream_breaks_is_named_once() -> None:
    told = Told()
    with serving(lambda request: None) as (server, peer):
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        numbers = [stream.send(a_produce(), timeout_ms=10_000) for _ in range(5)]
        wait_until(lambda: len(server.requests) == 5)
        server.accepted[0].shutdown(socket.SHUT_RDWR)
        wait_until(lambda: bool(told.broken))
        assert [left for _, left in told.broken] == [numbers]
        assert told.broken[0][0].message.startswith(f"a producer at {server.address}: it closed the connection")


def test_a_close_waits_until_the_end_of_a_broken_stream_has_been_reported() -> None:
    reporting, has_closed = threading.Event(), threading.Event()
    reports: list[bool] = []

    def on_broken(_error: OttlaError, _left: list[int]) -> None:
        reporting.set()
        reports.append(has_closed.wait(0.2))

    with serving(lambda request: None) as (server, peer):
        stream = peer.open_stream("a producer", lambda number, response: None, on_broken)
        stream.send(a_produce(), timeout_ms=10_000)
        wait_until(lambda: len(server.requests) == 1)
        server.accepted[0].shutdown(socket.SHUT_RDWR)
        assert reporting.wait(LIMIT_S)
        peer.close()
        has_closed.set()
        assert reports == [False]


def test_a_request_that_fails_alone_is_answered_by_an_error_and_the_stream_goes_on() -> None:
    told = Told()
    with serving() as (_, peer):
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        failed = stream.send(a_produce(acks=2**15), timeout_ms=10_000)
        fine = stream.send(a_produce(), timeout_ms=10_000)
        wait_until(lambda: told.responses == [fine])
        assert told.errors == [failed]


def test_records_without_an_answer_are_taken_before_a_stream_ends() -> None:
    told = Told()
    records = bytes(200_000)
    with serving(lambda request: None) as (server, peer):
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        for _ in range(50):
            stream.send(a_produce(records, acks=0), timeout_ms=10_000, answered=False)
        stream.close(timeout=LIMIT_S)
        assert len(server.requests) == 50
        assert [left for _, left in told.broken] == [[]]


class Fetches:
    """Answers as a broker that has begun session 6. It holds every later fetch, and the first one until `begins`."""

    def __init__(self) -> None:
        self.begins = threading.Event()

    def __call__(self, request: Request) -> Message | None:
        match cast(FetchRequest, request.message).session_epoch:
            case 0 if self.begins.wait(LIMIT_S):
                return FetchResponse(session_id=6)
            case -1:
                return FetchResponse()
        return None


class Fetching:
    """A stream with a fetch session at a broker."""

    def __init__(self, server: Server, peer: KafkaPeer) -> None:
        self.told = Told()
        self.server, self.peer = server, peer
        self._session = BrokerSession()
        self.stream = self.open(self._session)
        self.stream.send(self.fetch(self._session, 1), timeout_ms=2 * int(LIMIT_S) * 1000)
        wait_until(lambda: len(server.requests) == 1)

    def open(self, session: BrokerSession) -> KafkaStream:
        return self.peer.open_stream("a consumer", self.told.on_response, self.told.on_broken, session)

    def fetch(self, session: BrokerSession, number: int, *, of: int = 1) -> Exchange[Fetched]:
        """Return a fetch of a session by its number. The session 0 is none."""
        fetch = Fetch(FetchSession(Target("b:1", False, False), of), 1 << 20, number=number)
        return fetch_of(fetch, session, FetchOptions(1, 1 << 20, 0.5, ""), TopicNames())

    def send_next(self) -> None:
        self.stream.send(self.fetch(self._session, 2), timeout_ms=10_000)

    def close(self) -> None:
        self.stream.close()
        self.peer.close()

    @property
    def sessions(self) -> list[tuple[int, int]]:
        """The id and the epoch of the session in each request that has come."""
        messages = [cast(FetchRequest, request.message) for request in self.server.requests]
        return [(message.session_id, message.session_epoch) for message in messages]


@contextmanager
def fetching(*, begins: bool = True) -> Iterator[tuple[Fetching, Fetches]]:
    answer = Fetches()
    with serving(answer) as (server, peer):
        client = Fetching(server, peer)
        if begins:
            answer.begins.set()
            wait_until(lambda: client.told.responses == [1])
        try:
            yield client, answer
        finally:
            answer.begins.set()


in_either_thread = pytest.mark.parametrize("run", [lambda call: call(), elsewhere], ids=["main", "other"])


@in_either_thread
@pytest.mark.parametrize("waits", [False, True])
def test_a_fetch_session_ends_with_its_stream_though_a_fetch_waits(run: Callable[[Any], Any], waits: bool) -> None:
    with fetching() as (client, _):
        if waits:
            client.send_next()
            wait_until(lambda: len(client.server.requests) == 2)
        run(client.close)
        wait_until(lambda: client.sessions[-1] == (6, -1))
        wait_until(lambda: [left for _, left in client.told.broken] == [[2] * waits])
        wait_until(lambda: not network_threads())


@in_either_thread
def test_a_fetch_session_that_is_beginning_ends_with_its_stream(
    run: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its id comes with the response, for which the close of a client waits. All its streams wait at once."""
    monkeypatch.setattr("ottla.client.kafka.peer._GOODBYE_S", LIMIT_S / 10)
    with fetching(begins=False) as (first, answer), fetching(begins=False) as (second, other_answer):
        first.stream.close()
        second.stream.close()
        answer.begins.set()
        other_answer.begins.set()
        run(first.peer.close)
        run(second.peer.close)
        wait_until(lambda: first.sessions == second.sessions == [(0, 0), (6, -1)])
        wait_until(lambda: [left for _, left in first.told.broken] == [[]])


@in_either_thread
def test_a_broker_that_does_not_answer_the_first_fetch_delays_a_close_for_a_moment_only(
    run: Callable[[Any], Any],
) -> None:
    with fetching(begins=False) as (client, _):
        run(client.stream.close)
        wait_until(lambda: [left for _, left in client.told.broken] == [[1]])
        run(client.peer.close)
        assert client.sessions == [(0, 0)]
        wait_until(lambda: not network_threads())


def test_a_stream_whose_fetches_stand_alone_sends_no_last_one() -> None:
    with fetching() as (client, _):
        session = BrokerSession()
        alone = client.open(session)
        alone.send(client.fetch(session, 1, of=NO_SESSION), timeout_ms=10_000)
        wait_until(lambda: len(client.told.responses) == 2)
        alone.close()
        assert client.sessions == [(0, 0), (0, -1)]


def test_values_that_make_no_sense_are_the_error_of_their_call() -> None:
    def fails(_: object) -> NoReturn:
        raise KeyError("unasked")

    told = Told()
    with serving() as (_, peer):
        with pytest.raises(OttlaError, match=r"Metadata at 127.*: the broker's response makes no sense") as caught:
            peer.exchange(metadata_of([], TopicNames()).then(fails), timeout=LIMIT_S)
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        stream.send(a_produce().then(fails), timeout_ms=10_000)
        wait_until(lambda: told.errors == [1])
        stream.close()
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION


class RecordingSocket:
    """Notes how much is read at a time."""

    def __init__(self, inner: Any, sizes_bytes: list[int]) -> None:
        self._inner = inner
        self._sizes_bytes = sizes_bytes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def recv(self, size_bytes: int) -> bytes:
        self._sizes_bytes.append(size_bytes)
        data: bytes = self._inner.recv(size_bytes)
        return data


def test_a_large_response_is_read_in_large_pieces_of_bounded_size() -> None:
    sizes_bytes: list[int] = []
    topics = [MetadataResponse.MetadataResponseTopic(name=f"{n:030000}") for n in range(50)]
    large = MetadataResponse(topics=topics)
    with serving(lambda _: large) as (_, peer):
        metadata(peer)
        line = cast(Any, peer._address)._shared
        assert line is not None
        line._socket = cast(Any, RecordingSocket(line._socket, sizes_bytes))
        assert len(metadata(peer).topics) == 50
    # The first response has shown how long the second may be.
    assert sizes_bytes[0] == max(sizes_bytes) == 1024 * 1024
    assert min(sizes_bytes) >= 64 * 1024


@pytest.mark.story("callback-that-raises-is-not-logged")
@pytest.mark.parametrize("raised", [ValueError, SystemExit, MemoryError])
def test_callbacks_that_raise_end_neither_the_thread_nor_other_calls(
    raised: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    class Raising(Told):
        def on_response(self, number: int, outcome: Outcome[Any]) -> None:
            super().on_response(number, outcome)
            raise raised(number)

        def on_broken(self, error: OttlaError, left: list[int]) -> None:
            super().on_broken(error, left)
            raise raised(error)

    told = Raising()
    with serving() as (_, peer):
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        numbers = [stream.send(a_produce(), timeout_ms=10_000) for _ in range(3)]
        wait_until(lambda: told.responses == numbers)
        stream.close()
        assert len(told.broken) == 1
        assert metadata(peer).cluster_id == "c"
    assert [record.message.split(": ")[1] for record in caplog.records] == [
        *["handling the outcome failed"] * 3,
        "handling the end of the line failed",
    ]


@pytest.mark.parametrize("main", [True, False])
def test_a_broker_that_reads_slowly_gets_all_of_it(main: bool) -> None:
    told = Told()
    with serving() as (server, peer):
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        first = stream.send(a_produce(), timeout_ms=60_000)
        wait_until(lambda: told.responses == [first])
        server.reads.clear()

        def send() -> list[int]:
            # One frame, so that no response comes before all of it was written.
            return [stream.send(a_produce(bytes(14_000_000)), timeout_ms=60_000)]

        numbers = send() if main else elsewhere(send)
        assert told.responses == [first]
        server.reads.set()
        wait_until(lambda: told.responses == [first, *numbers])


@pytest.mark.parametrize("main", [True, False])
def test_a_stream_that_has_no_room_says_so_at_once(main: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.client.kafka.calls.QUEUE_BYTES", 2_000_000)
    told = Told()
    with serving() as (server, peer):
        server.reads.clear()
        stream = peer.open_stream("a producer", told.on_response, told.on_broken)
        large = a_produce(bytes(1_000_000), acks=0)

        def send() -> str:
            try:
                for _ in range(1000):
                    stream.send(large, timeout_ms=60_000, answered=False)
                    time.sleep(0.001)
            except OttlaError as error:
                return error.message
            return "all of it was taken"

        assert "the broker reads too slowly" in (send() if main else elsewhere(send))
        server.reads.set()


def test_a_port_where_nobody_listens_is_an_error_at_once_and_the_next_call_waits_for_a_moment() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        peer = KafkaTransport("me")(f"127.0.0.1:{taken.getsockname()[1]}")
        for _ in range(2):
            with pytest.raises(OttlaError, match=r"(?i)connection refused") as caught:
                metadata(peer)
            assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
        peer.close()
    wait_until(lambda: not network_threads())


@pytest.mark.parametrize("port", ["0", "-1", "65536", "70000", "2147483647", "x"])
def test_a_number_that_is_no_port_is_not_taken_for_another_port(port: str) -> None:
    peer = KafkaTransport("me")(f"127.0.0.1:{port}")
    with pytest.raises(OttlaError, match=f"at 127.0.0.1:{port}: .*is not an address: ") as caught:
        metadata(peer)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
    peer.close()
    wait_until(lambda: not network_threads())


def test_a_broker_that_accepts_connections_and_ends_them_is_given_a_rest() -> None:
    class Closing(Server):
        def _serve(self, connection: socket.socket) -> None:
            connection.close()

    server = Closing(kind)
    peer = KafkaTransport("me")(server.address)
    for _ in range(500):
        with pytest.raises(OttlaError, match=r"closed|reset|Broken"):
            metadata(peer)
    assert len(server.accepted) < 50
    peer.close()
    server.close()


def test_what_a_server_said_before_it_hung_up_is_read_though_writing_fails() -> None:
    class Http(Server):
        def _serve(self, connection: socket.socket) -> None:
            connection.recv(4)
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            connection.close()

    server = Http(kind)
    peer = KafkaTransport("me")(server.address)
    for _ in range(20):
        with pytest.raises(OttlaError) as caught:
            metadata(peer)
        assert caught.value.message.endswith("it is an HTTP server")
    peer.close()
    server.close()


def test_a_name_that_can_not_be_looked_up_and_a_port_that_is_none_are_errors() -> None:
    for address, words in (("no-such-host.invalid:9092", "(?i)name"), ("localhost:port", "no port but 'port'")):
        peer = KafkaTransport("me")(address)
        with pytest.raises(OttlaError, match=words):
            metadata(peer)
        peer.close()


def test_after_a_connection_has_ended_another_one_is_made() -> None:
    with serving() as (server, peer):
        metadata(peer)
        server.accepted[0].shutdown(socket.SHUT_RDWR)
        wait_until(lambda: _succeeds(lambda: metadata(peer)))
        assert len(server.accepted) == 2


def _succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except OttlaError:
        return False
    return True


@pytest.mark.parametrize("main", [True, False])
def test_a_broker_that_falls_silent_is_given_up_at_the_deadline(main: bool) -> None:
    with serving() as (server, peer):
        metadata(peer)
        server.answer = lambda request: None

        def call() -> OttlaError:
            with pytest.raises(OttlaError, match="no response in time") as caught:
                metadata(peer, timeout=0.2)
            return caught.value

        assert (call() if main else elsewhere(call)).code == ErrorCode.REQUEST_TIMED_OUT
        wait_until(lambda: server.ended == 1)


@pytest.mark.parametrize("main", [True, False])
def test_a_close_ends_calls_that_wait(main: bool) -> None:
    with serving(lambda request: None) as (server, peer):
        errors: list[str] = []

        def wait() -> None:
            try:
                metadata(peer)
            except OttlaError as error:
                errors.append(error.message)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: len(server.requests) == 1)
        peer.close() if main else elsewhere(peer.close)
        thread.join(LIMIT_S)
        assert len(errors) == 1
        assert "the connection was closed" in errors[0]
        with pytest.raises(OttlaError, match="the connection was closed"):
            metadata(peer)


def test_the_thread_ends_with_the_last_connection_and_starts_again() -> None:
    server, transport = Server(kind), KafkaTransport("me")
    for _ in range(3):
        peer = transport(server.address)
        metadata(peer)
        assert network_threads() == ["ottla-network-me"]
        peer.close()
        wait_until(lambda: not network_threads())
    server.close()


def test_ctrl_c_ends_a_wait_and_the_next_call_is_made() -> None:
    with serving(lambda request: None) as (server, peer):

        def interrupt() -> None:
            wait_until(lambda: len(server.requests) == 1)
            signal.raise_signal(signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            metadata(peer)
        thread.join(LIMIT_S)
        with pytest.raises(OttlaError, match="no response in time"):
            metadata(peer, timeout=0.2)
        assert len(server.requests) == 2


def test_a_call_that_was_interrupted_before_it_was_written_is_taken_back() -> None:
    with serving() as (server, peer):
        server.reads.clear()

        def interrupt() -> None:
            wait_until(lambda: bool(server.accepted))
            signal.raise_signal(signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            metadata(peer)
        thread.join(LIMIT_S)
        server.reads.set()
        metadata(peer)
        assert len(server.requests) == 1


class Garbage(Server):
    """A broker whose responses make no sense."""

    def _answer(self, connection: socket.socket, broker: AnsweringBroker, request: Request) -> None:
        if request.api.name == "ApiVersions":
            super()._answer(connection, broker, request)
        else:
            connection.sendall(struct.pack(">ii", 7, request.correlation_id) + b"\xff\xff\xff")


def test_a_response_that_makes_no_sense_is_the_error_of_its_call() -> None:
    server, told = Garbage(kind), Told()
    peer = KafkaTransport("me")(server.address)
    with pytest.raises(OttlaError, match="the broker answered with garbage"):
        metadata(peer)
    stream = peer.open_stream("a producer", told.on_response, told.on_broken)
    numbers = [stream.send(a_produce(), timeout_ms=10_000) for _ in range(3)]
    wait_until(lambda: told.errors == numbers)
    peer.close()
    server.close()


def test_a_forked_child_keeps_no_connection_open_and_leaves_the_parents_alone() -> None:
    with serving() as (server, peer):
        metadata(peer)
        before = len(os.listdir("/proc/self/fd"))
        child = os.fork()
        if child == 0:
            # The socket, the selector, and the end that is kept here of the pair by which the thread is woken.
            os._exit(before - len(os.listdir("/proc/self/fd")))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
        assert metadata(peer).cluster_id == "c"
        assert len(server.accepted) == 1


@pytest.mark.parametrize("is_first", [True, False])
def test_a_signal_handler_may_raise_anywhere_in_a_call_and_the_next_call_is_answered(is_first: bool) -> None:
    server, transport = Server(kind), KafkaTransport("me")
    peer = transport(server.address)
    if not is_first:
        metadata(peer)
    places = 1
    while True:
        interruption = Interrupting(places)
        with suppress(Interruption), interruption:
            metadata(peer)
        assert metadata(peer).cluster_id == "c", interruption.hit
        if not interruption.hit:
            break
        places += 1
        if is_first:
            peer.close()
            peer = transport(server.address)
    peer.close()
    server.close()
    assert places > 30


@pytest.mark.parametrize("is_first", [True, False])
def test_a_signal_handler_may_make_a_call_anywhere_in_another(is_first: bool) -> None:
    server, transport = Server(kind), KafkaTransport("me")
    peer = transport(server.address)
    if not is_first:
        metadata(peer)
    places = 1
    answers: list[str] = []

    def call(peer: KafkaPeer) -> None:
        answers.append(metadata(peer).cluster_id)

    while True:
        interruption = Interrupting(places, partial(call, peer))
        with interruption:
            call(peer)
        if not interruption.hit:
            break
        places += 1
        if is_first:
            peer.close()
            peer = transport(server.address)
    assert answers == ["c"] * (2 * places - 1)
    peer.close()
    server.close()


@pytest.mark.story("first-address-that-drops-packets")
def test_an_address_that_drops_packets_leaves_time_for_the_hosts_other_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[tuple[Any, float]] = []

    class Dialled:
        def __init__(self, *_: Any) -> None:
            self._timeout_s = 0.0

        def settimeout(self, timeout: float) -> None:
            self._timeout_s = timeout

        def connect(self, address: Any) -> None:
            tried.append((address, self._timeout_s))
            if address[0] == "10.0.0.1":
                raise TimeoutError("timed out")

        def close(self) -> None:
            """Nothing is open."""

    found = [
        *[(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{n}", 9092)) for n in (1, 1)],
        (socket.AF_INET6, socket.SOCK_STREAM, 6, "", ("fe80::1", 9092, 0, 7)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    monkeypatch.setattr(socket, "socket", Dialled)
    assert isinstance(line._dialled(HostPort("kafka", 9092)), Dialled)
    (first, first_s), (second, _) = tried
    assert (first, second) == (("10.0.0.1", 9092), ("fe80::1", 9092, 0, 7)), "with the scope of a link's address"
    assert first_s == pytest.approx(CONNECT_S / 2, abs=0.5)
    found[:] = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("10.0.0.1", n)) for n in range(50)]
    tried.clear()
    with pytest.raises(OSError, match="timed out"):
        line._dialled(HostPort("kafka", 9092))
    assert min(timeout for _, timeout in tried) >= 2.0, "one lost packet is no failure"
    found.clear()
    with pytest.raises(OSError, match="kafka has no address"):
        line._dialled(HostPort("kafka", 9092))
