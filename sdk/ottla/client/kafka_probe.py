"""Probes an address for Kafka's protocol: what server is there, and what it reports of its cluster.

It needs no client library: two requests, ApiVersions v0 and Metadata v2 without topics, which every Kafka broker since
0.10.1 answers. Any other server is recognised by its first bytes (`diagnose`), and a TLS port, which may just hang up,
by a handshake. Metadata v2 begins with brokers (id int32, host string, port int32, rack string?), then cluster id
string?, then controller id int32.

With TLS or a login, a client of the SDK asks for the metadata. Plaintext goes to such a port only if that client has
failed, because a broker logs it as a client's mistake.
"""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ottla.client.cluster import ClusterClient
from ottla.client.diagnose import API_VERSIONS, GET, METADATA, protocol_of
from ottla.client.kafka.transport import KafkaTransport
from ottla.client.security.security import PLAINTEXT, Security
from ottla.errors import OttlaError
from ottla_core.host_port import HostPort

_MAX_RESPONSE_BYTES: Final = 4 * 1024 * 1024
_MAX_THREADS: Final = 32
_CLIENT_ID: Final = "ottla-probe"
_STRING: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")


class Met(Enum):
    """The kind of server at an address."""

    KAFKA = "ok"
    GRPC = "grpc"
    HTTP = "http"
    TLS = "tls"
    MUTE = "mute"
    """It accepts the connection, but sends nothing that is understood."""
    WARY = "wary"
    """It speaks Kafka's protocol, but reports nothing of its cluster: a client has to authenticate first."""
    REJECTED = "rejected"
    """The client's TLS or login does not lead to a broker there."""
    CONNECTION_REFUSED = "refused"
    UNREACHED = "unreached"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class Look:
    """What was found at `address` (host:port). Everything but `met` is known only for KAFKA, and `why` for REJECTED.

    `brokers` has the host:port of each broker by its id. As `controller` a broker of ottla names itself, because every
    broker forwards requests.
    """

    address: str
    met: Met
    cluster_id: str = ""
    controller: int = -1
    brokers: Mapping[int, str] = field(default_factory=dict)
    took_ms: float = 0.0
    why: str = ""


Entry = Security | None
"""How a client enters a listener. None means that the listener expects TLS, for which the client has no settings."""
Entries = Callable[[str], Entry]
"""Tells how a client enters the listener at an address."""


def as_plaintext(address: str) -> Entry:
    return PLAINTEXT


def look_at_all(addresses: Iterable[str], limit_s: float, entries: Entries = as_plaintext) -> dict[str, Look]:
    """Probe all addresses in parallel. `entries` says how to enter each. Never raises.

    One takes up to three times the limit, and as long again with TLS or a login. A resolver has its own limit.
    """
    once = list(dict.fromkeys(addresses))
    with ThreadPoolExecutor(min(len(once), _MAX_THREADS) or 1) as threads:
        return dict(zip(once, threads.map(lambda each: _look_as(each, limit_s, entries(each)), once), strict=True))


def _look_as(address: str, limit_s: float, entry: Entry) -> Look:
    if entry == PLAINTEXT:
        return look_at(address, limit_s)
    place = HostPort.parse(address)
    try:
        socket.create_connection(place, timeout=limit_s).close()
    except OSError as error:
        return Look(address, _unconnected(error))
    if entry is None:
        return Look(address, Met.TLS) if _shakes_hands(place, limit_s) else look_at(address, limit_s)
    return _look_by_client(address, limit_s, entry)


def _look_by_client(address: str, limit_s: float, security: Security) -> Look:
    began_at = time.monotonic()
    cluster = ClusterClient([address], KafkaTransport(_CLIENT_ID, security))
    try:
        view = cluster.fetch_metadata(timeout=3 * limit_s)
    except OttlaError as error:
        look = look_at(address, limit_s)
        is_broker = look.met in (Met.KAFKA, Met.TLS, Met.MUTE, Met.WARY)
        return Look(address, Met.REJECTED, why=error.message) if is_broker else look
    finally:
        cluster.close()
    brokers = {number: broker.address for number, broker in view.brokers.items()}
    took_ms = (time.monotonic() - began_at) * 1000
    return Look(address, Met.KAFKA, view.cluster_id, view.controller_id, brokers, took_ms)


def look_at(address: str, limit_s: float) -> Look:
    place = HostPort.parse(address)
    began_at = time.monotonic()
    try:
        with _Line(place, limit_s) as line:
            found = _probe(address, line)
            took_ms = (time.monotonic() - began_at) * 1000
        if found is None:
            return Look(address, _other_protocol(place, limit_s))
    except OSError as error:
        return Look(address, _unconnected(error))
    if found.met is not Met.KAFKA:
        return found
    return Look(address, found.met, found.cluster_id, found.controller, found.brokers, took_ms)


def _unconnected(error: OSError) -> Met:
    """Return why there is no connection."""
    if isinstance(error, socket.gaierror):
        return Met.UNRESOLVED
    return Met.CONNECTION_REFUSED if isinstance(error, ConnectionRefusedError) else Met.UNREACHED


def _probe(address: str, line: _Line) -> Look | None:
    """Return what is there; None if the response is not a Kafka broker's and could belong to several protocols."""
    response = line.request(API_VERSIONS)
    protocol = protocol_of(response)
    if protocol != "kafka":
        known = {"grpc": Met.GRPC, "http": Met.HTTP, "tls": Met.TLS}.get(protocol)
        return None if known is None else Look(address, known)
    try:
        return _read(address, line.request(METADATA))
    except (struct.error, UnicodeDecodeError):
        return Look(address, Met.WARY)


def _other_protocol(place: HostPort, limit_s: float) -> Met:
    """Return which other protocol is spoken: each is tried with its own first bytes, on a connection of its own."""
    with _Line(place, limit_s) as line:
        if protocol_of(line.request(GET)) == "http":
            return Met.HTTP
    return Met.TLS if _shakes_hands(place, limit_s) else Met.MUTE


def _shakes_hands(place: HostPort, limit_s: float) -> bool:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # the certificate does not matter here
    try:
        with socket.create_connection(place, timeout=limit_s) as plain, context.wrap_socket(plain):
            return True
    except ssl.SSLError as error:
        return "_ALERT_" in (error.reason or "")  # it has rejected the handshake by a TLS alert
    except OSError:
        return False


def _read(address: str, response: bytes) -> Look:
    """Read a response to METADATA, with its size. Raises struct.error if it ends too early."""
    at, brokers = 8, {}
    (count,) = _INT.unpack_from(response, at)
    at += 4
    for _ in range(count):
        (broker_id,) = _INT.unpack_from(response, at)
        host, at = _string(response, at + 4)
        (port,) = _INT.unpack_from(response, at)
        _rack, at = _string(response, at + 4)
        brokers[broker_id] = str(HostPort(host, port))
    cluster_id, at = _string(response, at)
    (controller,) = _INT.unpack_from(response, at)
    return Look(address, Met.KAFKA, cluster_id, controller, brokers)


def _string(data: bytes, at: int) -> tuple[str, int]:
    (size_bytes,) = _STRING.unpack_from(data, at)
    end = at + 2 + max(size_bytes, 0)
    if end > len(data):
        raise struct.error
    return data[at + 2 : end].decode(), end


class _Line:
    """A connection with one deadline for all requests on it. Raises OSError if it can't be made."""

    def __init__(self, place: HostPort, limit_s: float) -> None:
        self._over_at = time.monotonic() + limit_s
        self._socket = socket.create_connection(place, timeout=limit_s)

    def __enter__(self) -> _Line:
        return self

    def __exit__(self, *failure: object) -> None:
        self._socket.close()

    def request(self, question: bytes) -> bytes:
        """Return the response: a whole frame of Kafka's protocol, or as much as comes of anything else."""
        response = bytearray()
        try:
            self._left()
            self._socket.sendall(question)
            while len(response) < _expected_bytes(response):
                self._left()
                if not (piece := self._socket.recv(_expected_bytes(response) - len(response))):
                    break
                response += piece
        except (TimeoutError, ConnectionError):
            pass
        return bytes(response)

    def _left(self) -> None:
        self._socket.settimeout(max(0.001, self._over_at - time.monotonic()))


def _expected_bytes(response: bytearray) -> int:
    """Return the length of the response, as its beginning states it."""
    if protocol_of(bytes(response[:9])) != "kafka":
        return 9 if len(response) < 9 else len(response)
    return min(4 + int(_INT.unpack_from(response)[0]), _MAX_RESPONSE_BYTES)
