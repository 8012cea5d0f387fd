"""A look at an address where Kafka's protocol may be spoken: real sockets, and whoever may listen behind them."""

from __future__ import annotations

import http.server
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from ottla.client.kafka_probe import Entry, Look, Met, look_at, look_at_all
from ottla.client.security.logins import Plain
from ottla.client.security.security import Security
from ottla.client.security.tls import Tls
from ottla.testing import Cluster

LIMIT_S = 5.0
Talk = Callable[[socket.socket], object]


@contextmanager
def listening(talk: Talk) -> Iterator[str]:
    """Somebody who does so with each connection; it is closed afterwards."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection, suppress(OSError):
                talk(connection)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def met_by(talk: Talk, limit_s: float = LIMIT_S) -> Met:
    with listening(talk) as address:
        return look_at(address, limit_s).met


def frame(asked: bytes, body: bytes) -> bytes:
    """An answer to a request, with its correlation id."""
    return struct.pack(">i", 4 + len(body)) + asked[8:12] + body


def kafka_that_tells(metadata: bytes) -> Talk:
    def talk(connection: socket.socket) -> None:
        connection.sendall(frame(connection.recv(100), bytes(6)))
        connection.sendall(frame(connection.recv(100), metadata))

    return talk


def test_brokers_of_a_cluster_say_who_they_are_and_what_they_tell() -> None:
    with Cluster(brokers=2) as cluster:
        addresses = cluster.bootstrap.split(",")
        looks = look_at_all([*addresses, *addresses], LIMIT_S)
        assert list(looks) == addresses
        for n, address in enumerate(addresses):
            look = looks[address]
            assert (look.met, look.controller, look.cluster_id) == (Met.KAFKA, n, "ottla")
            assert look.brokers == dict(enumerate(addresses))
            assert look.took_ms > 0
        assert look_at(cluster.brokers[0].address, LIMIT_S) == Look(cluster.brokers[0].address, Met.GRPC)


def test_an_answer_in_pieces_is_read_whole() -> None:
    body = struct.pack(">ii9sih2sh1sih", 1, 7, b"\0\7kafka-7", 9092, 2, b"r1", 1, b"c", 7, 0)

    def talk(connection: socket.socket) -> None:
        for answer in (bytes(6), body):
            for byte in frame(connection.recv(100), answer):
                connection.sendall(bytes([byte]))

    with listening(talk) as address:
        look = look_at(address, LIMIT_S)
    assert (look.brokers, look.cluster_id, look.controller) == ({7: "kafka-7:9092"}, "c", 7)


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        struct.pack(">i", 2**31 - 1),
        struct.pack(">iih", 1, 7, 30_000) + b"host",
        struct.pack(">iih1s", 1, 7, 1, b"\xff"),
    ],
    ids=["empty", "so many brokers", "so long a name", "no text"],
)
def test_who_speaks_kafka_and_tells_nothing_that_can_be_read(metadata: bytes) -> None:
    assert met_by(kafka_that_tells(metadata)) is Met.WARY


def test_who_wants_authentication_first_hangs_up() -> None:
    assert met_by(lambda connection: connection.sendall(frame(connection.recv(100), bytes(6)))) is Met.WARY


def test_who_takes_the_connection_and_is_mute() -> None:
    assert met_by(lambda connection: None) is Met.MUTE, "as a published port behind which nobody listens"
    assert met_by(lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.2p1\r\n")) is Met.MUTE
    done = threading.Event()
    with listening(lambda connection: done.wait(LIMIT_S)) as address:
        assert look_at(address, 0.1).met is Met.MUTE
        done.set()


def test_an_http_port() -> None:
    class Silent(http.server.BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            assert look_at(f"127.0.0.1:{server.server_port}", LIMIT_S).met is Met.HTTP
        finally:
            server.shutdown()
            thread.join()


def test_a_tls_port_that_hangs_up_on_plain_text() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)  # it has no certificate: its handshakes end with an alert

    def talk(connection: socket.socket) -> None:
        context.wrap_socket(connection, server_side=True).close()

    assert met_by(talk) is Met.TLS
    alert = b"\x15\x03\x03\x00\x02\x02\x16"
    assert met_by(lambda connection: connection.sendall(alert)) is Met.TLS, "and one that says so"


def test_nobody() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert look_at(f"127.0.0.1:{taken.getsockname()[1]}", LIMIT_S).met is Met.CONNECTION_REFUSED
    assert look_at("no-such-host.invalid:9092", LIMIT_S).met is Met.UNRESOLVED


def test_a_host_that_swallows_everything() -> None:
    """A listener whose queue is full answers no more than a firewall does."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        try:
            assert look_at(f"127.0.0.1:{address[1]}", 0.2).met is Met.UNREACHED
        finally:
            for each in waiting:
                each.close()


def look_as(entry: Entry, address: str) -> Look:
    return look_at_all([address], LIMIT_S, lambda _: entry)[address]


def test_a_client_with_tls_or_a_login_is_told_what_the_address_expects() -> None:
    secured = [
        (Security(tls=Tls()), "speaks Kafka's protocol without TLS, but tls= is set"),
        (Security(Plain("alice", "secret")), "the port expects no login (SASL), but login= is set"),
    ]
    with Cluster() as cluster:
        for security, words in secured:
            look = look_as(security, cluster.bootstrap)
            assert look.met is Met.REJECTED
            assert words in look.why
    for security, _ in secured:
        assert look_as(security, cluster.bootstrap).met is Met.CONNECTION_REFUSED
