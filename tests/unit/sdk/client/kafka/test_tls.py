"""TLS on real sockets: which brokers a client trusts, what it says to those that it does not, and hostile servers."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from certificates import Authority, encrypted
from kafka_answers import AnsweringBroker, framed
from waiting import LIMIT_S, wait_until

import ottla
from ottla.client.kafka import connection as connection_module
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.peer import KafkaPeer
from ottla.client.kafka.sockets import line as lines
from ottla.client.kafka.sockets import logins as login_threads
from ottla.client.kafka.sockets.tls_wire import TlsWire
from ottla.client.kafka.topic_names import TopicNames
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.metadata import metadata as metadata_of
from ottla.client.security.security import Security
from ottla.errors import ConfigError, ErrorCode, OttlaError
from ottla.producer.produce import ProduceResult
from ottla.producer.produce import exchange_of as produce_of
from ottla_core.host_port import HostPort
from ottla_core.kafka.messages import (
    InitProducerIdResponse,
    MetadataResponse,
    ProduceResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from ottla_core.model import PartitionId, TopicId
from ottla_core.transactions import TRANSACTIONS_V2

HOST = "127.0.0.1"
_NARROW_BYTES = 32 * 1024
Serve = Callable[[socket.socket], None]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("stranger"), "Strange CA")


@contextmanager
def listening(serve: Serve, *, narrow: bool = False) -> Iterator[str]:
    """The port of a server that serves each connection on a thread."""
    listener = socket.create_server((HOST, 0))
    if narrow:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _NARROW_BYTES)
    accepted: list[socket.socket] = []

    def run(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            serve(connection)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                accepted.append(connection)
                threading.Thread(target=run, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield str(listener.getsockname()[1])
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for connection in accepted:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class TlsBroker:
    """A broker with TLS, which logs everyone in. `received` has the numbers of bytes of records."""

    def __init__(self, certificate: Path, key: Path, *, client_ca: Path | None = None) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.names: list[str | None] = []
        self.context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self.versions: list[str | None] = []
        self.records: list[bytes] = []
        self.cluster_id = "c"
        self.reads = threading.Event()
        self.reads.set()
        if client_ca is not None:
            self.context.verify_mode = ssl.CERT_REQUIRED
            self.context.load_verify_locations(client_ca)

    def __call__(self, plain: socket.socket) -> None:
        with self.context.wrap_socket(plain, server_side=True) as connection:
            self.versions.append(connection.version())
            broker = AnsweringBroker()
            while data := connection.recv(65536):
                broker.read(data)
                while broker.requests:
                    request = broker.requests.pop(0)
                    match request.message:
                        case SaslHandshakeRequest():
                            connection.sendall(framed(request, SaslHandshakeResponse()))
                        case SaslAuthenticateRequest():
                            connection.sendall(framed(request, SaslAuthenticateResponse()))
                        case _ if request.api.name == "ApiVersions":
                            connection.sendall(broker.versions(request))
                            self.reads.wait(LIMIT_S)
                        case _ if request.api.name == "Metadata":
                            connection.sendall(framed(request, MetadataResponse(cluster_id=self.cluster_id)))
                        case _ if request.api.name == "InitProducerId":
                            connection.sendall(framed(request, InitProducerIdResponse(producer_id=7)))
                        case message:
                            records = message.topic_data[0].partition_data[0].records  # type: ignore[attr-defined]  # of a ProduceRequest
                            self.records.append(bytes(records))
                            if message.acks:  # type: ignore[attr-defined]  # as above
                                connection.sendall(framed(request, ProduceResponse()))


@contextmanager
def connected(port: str, tls: ottla.Tls, host: str = HOST, login: Any = None) -> Iterator[KafkaPeer]:
    peer = KafkaTransport("me", Security(login, tls))(f"{host}:{port}")
    try:
        yield peer
    finally:
        peer.close()


def metadata(peer: KafkaPeer, timeout: float = LIMIT_S) -> str:
    return peer.exchange(metadata_of([], TopicNames()), timeout=timeout).cluster_id


def a_produce(records: bytes, *, acks: int) -> Exchange[ProduceResult]:
    batches = [(PartitionId(TopicId(b"i" * 16), 0), records)]
    return produce_of(batches, TopicNames(), acks=acks, transactional_id=None, transaction_version=TRANSACTIONS_V2)


def refusal(serve: Serve, tls: ottla.Tls, host: str = HOST) -> OttlaError:
    """The error of a call, and of the next one, which does not connect again within the pause."""
    with listening(serve) as port, connected(port, tls, host) as peer:
        with pytest.raises(OttlaError) as caught:
            metadata(peer)
        with pytest.raises(OttlaError) as again:
            metadata(peer)
        assert again.value.code == caught.value.code
        return caught.value


def test_a_call_over_tls(authority: Authority) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}", "DNS:localhost")
    broker = TlsBroker(of_broker.certificate, of_broker.key)
    with listening(broker) as port:
        with connected(port, ottla.Tls(ca=authority.certificate)) as peer:
            assert metadata(peer) == "c"
        with connected(port, ottla.Tls(ca=authority.certificate), "localhost", ottla.Plain("u", "p")) as peer:
            assert metadata(peer) == "c"
    assert broker.names == [None, "localhost"]
    assert set(broker.versions) == {"TLSv1.3"}


def test_tls_1_2_is_the_oldest(authority: Authority) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)
    broker.context.maximum_version = ssl.TLSVersion.TLSv1_2
    with listening(broker) as port, connected(port, ottla.Tls(ca=authority.certificate)) as peer:
        assert metadata(peer) == "c"
    assert broker.versions == ["TLSv1.2"]
    assert ottla.Tls().context().minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize("size", [1, 16 * 1024, 1024 * 1024, 6 * 1024 * 1024])
def test_records_and_responses_of_any_size(authority: Authority, size: int) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)
    broker.cluster_id = "c" * min(size, 30_000)
    records = bytes(range(256)) * (size // 256 + 1)
    with listening(broker) as port, connected(port, ottla.Tls(ca=authority.certificate)) as peer:
        peer.exchange(a_produce(records, acks=1), timeout=LIMIT_S)
        assert metadata(peer) == broker.cluster_id
    assert broker.records == [records]


def test_what_was_sent_without_acknowledgement_arrives_before_the_end(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS has bytes for a socket that takes no more, when the connection has none any more and is to end."""
    dial = lines._dialled

    def narrow(place: HostPort) -> socket.socket:
        made = dial(place)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _NARROW_BYTES)
        return made

    monkeypatch.setattr(lines, "_dialled", narrow)
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)
    records = bytes(250_000)
    with (
        listening(broker, narrow=True) as port,
        connected(port, ottla.Tls(ca=authority.certificate)) as peer,
    ):
        broker.reads.clear()
        stream = peer.open_stream("a producer", lambda *_: None, lambda *_: None)
        stream.send(a_produce(records, acks=0), timeout_ms=30_000, answered=False)
        line: Any = stream._line
        wait_until(lambda: line._is_blocked and line._connection._calls.is_idle)
        closing = threading.Thread(target=lambda: stream.close(timeout=LIMIT_S))
        closing.start()
        wait_until(lambda: line._connection.half_closes)
        broker.reads.set()
        closing.join(LIMIT_S)
        wait_until(lambda: broker.records == [records])


# ---- who is trusted --------------------------------------------------------------------------------------------------


def test_brokers_that_are_not_trusted(authority: Authority, stranger: Authority) -> None:
    tls = ottla.Tls(ca=authority.certificate)
    foreign = stranger.issue("foreign", f"IP:{HOST}")
    expired = authority.issue("expired", f"IP:{HOST}", days=-1)
    elsewhere = authority.issue("elsewhere", "DNS:broker.example")
    for of_broker, words, hint in (
        (foreign, "is not trusted (unable to get local issuer certificate)", "set ca= in tls="),
        (expired, "has expired", "renewed"),
        (elsewhere, "is for another address than '127.0.0.1'", "connect by the host name"),
    ):
        error = refusal(TlsBroker(of_broker.certificate, of_broker.key), tls)
        assert (
            error.message
            == f"Metadata at {error.message.split(':')[0].removeprefix('Metadata at ')}:"
            + (error.message.split(":", 1)[1])
        )
        assert f"the broker's certificate {words}" in error.message
        assert hint in error.hint
        assert error.code == ErrorCode.TLS_HANDSHAKE_FAILED
        assert not error.retriable
    error = refusal(TlsBroker(elsewhere.certificate, elsewhere.key), tls, "localhost")
    assert "is for another host name than 'localhost'" in error.message
    unverified = ottla.Tls(ca=authority.certificate, verify_hostname=False)
    with (
        listening(TlsBroker(elsewhere.certificate, elsewhere.key)) as port,
        connected(port, unverified) as peer,
    ):
        assert metadata(peer) == "c"
    error = refusal(TlsBroker(foreign.certificate, foreign.key), unverified)
    assert "is not trusted" in error.message


def test_the_systems_authorities_are_the_default(authority: Authority) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}")
    assert "is not trusted" in refusal(TlsBroker(of_broker.certificate, of_broker.key), ottla.Tls()).message


def test_a_certificate_may_be_trusted_by_itself(authority: Authority) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}")
    with (
        listening(TlsBroker(of_broker.certificate, of_broker.key)) as port,
        connected(port, ottla.Tls(ca=of_broker.certificate)) as peer,
    ):
        assert metadata(peer) == "c"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_broker_that_wants_the_clients_certificate(
    authority: Authority, stranger: Authority, version: ssl.TLSVersion
) -> None:
    of_broker, of_client = authority.issue("broker", f"IP:{HOST}"), authority.issue("client")
    broker = TlsBroker(of_broker.certificate, of_broker.key, client_ca=authority.certificate)
    broker.context.maximum_version = version
    ca = authority.certificate
    locked = encrypted(of_client.key, "open sesame")
    for tls in (
        ottla.Tls(ca, of_client.certificate, of_client.key),
        ottla.Tls(ca, of_client.both),
        ottla.Tls(ca, of_client.certificate, locked, "open sesame"),
    ):
        with listening(broker) as port, connected(port, tls) as peer:
            assert metadata(peer) == "c"
    for tls in (ottla.Tls(ca), ottla.Tls(ca, stranger.issue("client").both)):
        error = refusal(broker, tls)
        assert "the broker ended TLS with '" in error.message
        assert "alert" in error.message
        assert error.hint.startswith("check certificate= and key= in tls=")
        assert error.code == ErrorCode.TLS_HANDSHAKE_FAILED


def test_files_that_can_not_be_used_are_named_at_once(authority: Authority, tmp_path: Path) -> None:
    of_client = authority.issue("client")
    other = authority.issue("other")
    locked = encrypted(of_client.key, "open sesame")
    (tmp_path / "notes.txt").write_text("no certificate")
    (tmp_path / "empty.pem").write_text("")
    ca, missing = authority.certificate, tmp_path / "missing.pem"
    for tls, words in (
        (ottla.Tls(missing), f"{missing} can't be read: No such file"),
        (ottla.Tls(tmp_path / "notes.txt"), "notes.txt has no certificates in PEM format"),
        (ottla.Tls(tmp_path / "empty.pem"), "empty.pem has no certificates in PEM format"),
        (ottla.Tls(tmp_path), "can't be read"),
        (ottla.Tls(ca, missing), f"{missing} can't be read: No such file"),
        (ottla.Tls(ca, of_client.certificate), "can't be used as a certificate and its key"),
        (ottla.Tls(ca, of_client.certificate, other.key), "can't be used as a certificate and its key"),
        (ottla.Tls(ca, of_client.certificate, locked), "can't be used as a certificate and its key"),
        (ottla.Tls(ca, of_client.certificate, locked, "open barley"), "can't be used as a certificate and its key"),
    ):
        with pytest.raises(ConfigError) as caught:
            ottla.Producer("b:1", tls=tls)
        assert words in caught.value.message
        assert "barley" not in str(caught.value)
    with pytest.raises(ConfigError, match="tls has a key, but no certificate"):
        ottla.Tls(key=of_client.key)


# ---- hostile servers -------------------------------------------------------------------------------------------------


def says(data: bytes, *, closes: bool = True) -> Serve:
    def serve(connection: socket.socket) -> None:
        connection.recv(65536)
        connection.sendall(data)
        while not closes and connection.recv(65536):
            pass

    return serve


@pytest.mark.parametrize(
    ("serve", "words", "code"),
    [
        (
            says(b""),
            "it closed the connection during the TLS handshake, as a port without TLS does",
            "NETWORK_EXCEPTION",
        ),
        (says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), "it is an HTTP server, but tls= is set", "TLS_HANDSHAKE_FAILED"),
        (says(b"\0\0\0\x06\0\0\0\0\0\x23"), "it does not speak TLS, but tls= is set", "TLS_HANDSHAKE_FAILED"),
        (says(b"\0\0\x12\x04" + bytes(30)), "it speaks HTTP/2, as a gRPC port does", "TLS_HANDSHAKE_FAILED"),
        (says(b"\x15\x03\x03\0\x02\x02\x28"), "the broker ended TLS with '", "TLS_HANDSHAKE_FAILED"),
        (says(b"\x16\x03\x03\xff\xff" + bytes(70_000)), "the TLS handshake failed", "TLS_HANDSHAKE_FAILED"),
        (says(b"\x16\x03\x03\x00\x04\x02\xff\xff\xff"), "the TLS handshake failed", "TLS_HANDSHAKE_FAILED"),
        (says(b"\x16\x03\x03\x00\x05\x63aaaa"), "the TLS handshake failed", "TLS_HANDSHAKE_FAILED"),
    ],
)
def test_a_server_that_breaks_the_handshake(serve: Serve, words: str, code: str) -> None:
    error = refusal(serve, ottla.Tls())
    assert words in error.message
    assert error.name == code


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x03\x40\x00\x02", b"\x16\x03"])
def test_a_handshake_that_is_not_finished_has_a_deadline(data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "CONNECT_S", 0.3)
    with listening(says(data, closes=False)) as port, connected(port, ottla.Tls()) as peer:
        began_at = time.monotonic()
        with pytest.raises(OttlaError, match="did not finish the TLS handshake within"):
            metadata(peer)
        assert time.monotonic() - began_at < LIMIT_S / 2


def test_a_server_that_says_goodbye_and_goes_on_is_left(authority: Authority) -> None:
    """Its further bytes would fill the memory of TLS, which does not read on."""
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)
    ended = threading.Event()

    def serve(plain: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = broker.context.wrap_bio(incoming, outgoing, server_side=True)

        def shake() -> bool:
            with suppress(ssl.SSLWantReadError):
                tls.do_handshake()
                return True
            return False

        while not shake():
            plain.sendall(outgoing.read())
            incoming.write(plain.recv(65536))
        with suppress(ssl.SSLError):
            tls.unwrap()
        plain.sendall(outgoing.read())
        with suppress(OSError):
            while True:
                plain.sendall(bytes(65536))
        ended.set()

    with listening(serve) as port, connected(port, ottla.Tls(ca=authority.certificate)) as peer:
        with pytest.raises(OttlaError, match="it closed the connection"):
            metadata(peer)
        assert ended.wait(LIMIT_S)


def test_damaged_bytes_end_the_connection(authority: Authority) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)

    def tampering(plain: socket.socket) -> None:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = broker.context.wrap_bio(incoming, outgoing, server_side=True)
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(outgoing.read())
                incoming.write(plain.recv(65536))
        tls.write(b"a response")
        sent = bytearray(outgoing.read())
        sent[-1] ^= 1
        plain.sendall(sent)
        plain.recv(65536)

    with (
        listening(tampering) as port,
        connected(port, ottla.Tls(ca=authority.certificate)) as peer,
        pytest.raises(OttlaError, match="what it sent is damaged") as caught,
    ):
        metadata(peer)
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION


@pytest.mark.story("late-alert-is-fatal")
def test_an_alert_after_the_broker_has_answered_interrupts_the_connection(authority: Authority) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}")
    context = TlsBroker(of_broker.certificate, of_broker.key).context
    mine, theirs = socket.socketpair()
    wire = TlsWire(mine, ssl.create_default_context(cafile=str(authority.certificate)), HOST)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_side=True)
    while True:
        wire.flush()
        incoming.write(theirs.recv(65536))
        try:
            tls.do_handshake()
            break
        except ssl.SSLWantReadError:
            assert list(wire.opened(outgoing.read())) == []
    tls.write(b"a response")
    assert list(wire.opened(outgoing.read())) == [b"a response"]
    incoming.write(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(ssl.SSLError):
        tls.read()
    with pytest.raises(OttlaError, match=r"TLS was interrupted .*alert") as caught:
        list(wire.opened(outgoing.read()))
    assert caught.value.code == ErrorCode.NETWORK_EXCEPTION
    mine.close()
    theirs.close()


def test_a_token_that_can_not_be_had_is_an_error_of_the_call(authority: Authority) -> None:
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)

    def fails() -> str:
        raise KeyError("no such token")

    def is_away() -> str:
        raise TimeoutError("no answer")

    threads: list[str] = []

    def works() -> str:
        threads.append(threading.current_thread().name)
        return "good"

    tls = ottla.Tls(ca=authority.certificate)
    with listening(broker) as port:
        with connected(port, tls, login=ottla.OAuthBearer(fails)) as peer:
            with pytest.raises(OttlaError, match="the function that returns the token has raised KeyError") as caught:
                metadata(peer)
            assert caught.value.code == ErrorCode.SASL_AUTHENTICATION_FAILED
        with connected(port, tls, login=ottla.OAuthBearer(is_away)) as peer:
            with pytest.raises(OttlaError, match="has raised TimeoutError") as caught:
                metadata(peer)
            assert caught.value.code == ErrorCode.NETWORK_EXCEPTION, "it may be called again"
        without = ottla.OAuthBearer(lambda: "not a token")
        with connected(port, tls, login=without) as peer, pytest.raises(OttlaError, match="not a token"):
            metadata(peer)
        with connected(port, tls, login=ottla.OAuthBearer(works)) as peer:
            assert metadata(peer) == "c"
    assert threads == [f"ottla-login-{HOST}:{port}"]


def test_a_token_that_does_not_come_has_a_deadline(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "LOGIN_S", 0.3)
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)
    released = threading.Event()

    def waits() -> str:
        released.wait(LIMIT_S)
        return "late"

    with (
        listening(broker) as port,
        connected(port, ottla.Tls(ca=authority.certificate), login=ottla.OAuthBearer(waits)) as peer,
    ):
        with pytest.raises(OttlaError, match="the login was not finished within"):
            metadata(peer)
        released.set()


@pytest.mark.story("hanging-token-functions-pile-up")
def test_token_functions_that_do_not_return_have_a_few_threads_and_further_logins_wait_for_one(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(login_threads, "_MOST_THREADS", 2)
    of_broker = authority.issue("broker", f"IP:{HOST}")
    broker = TlsBroker(of_broker.certificate, of_broker.key)
    calls: list[str] = []
    released = threading.Event()

    def waits() -> str:
        calls.append(threading.current_thread().name)
        released.wait(LIMIT_S)
        return "good"

    transport = KafkaTransport("me", Security(ottla.OAuthBearer(waits), ottla.Tls(ca=authority.certificate)))
    with listening(broker) as port:
        try:
            with monkeypatch.context() as hasty:
                hasty.setattr(connection_module, "LOGIN_S", 0.1)
                for _ in range(4):
                    peer = transport(f"{HOST}:{port}")
                    with pytest.raises(OttlaError, match="the login was not finished within"):
                        metadata(peer)
                    peer.close()
            assert len(calls) == 2
            with ThreadPoolExecutor(1) as pool:
                peer = transport(f"{HOST}:{port}")
                waiting = pool.submit(metadata, peer)
                wait_until(lambda: any(line.ended is None for line in transport._network.logins._waiting))
                released.set()
                assert waiting.result(LIMIT_S) == "c"
            peer.close()
        finally:
            released.set()
    assert len(calls) == 3, "logins that have ended need no token"
