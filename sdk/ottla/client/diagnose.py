"""Why an address does not answer, in plain words: nothing listens, or something other than a broker, or a broker's port
that expects another security.protocol.

It runs only after a connection has failed, and takes at most a second per address. A Kafka broker answers an
ApiVersions request, an HTTP server answers anything with a status line, a TLS port with an alert, and a gRPC server
with an HTTP/2 settings frame.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from collections.abc import Callable, Sequence
from threading import Thread
from typing import Final, Literal, NamedTuple

from ottla.client.security.security import PLAINTEXT, Security
from ottla.client.security.tls import Tls
from ottla_core.host_port import HostPort

Protocol = Literal["kafka", "grpc", "http", "tls", ""]

LIMIT_S: Final = 2.0
_TIMEOUT_S: Final = 0.5
_WANTED: Final = "a broker's Kafka port (usually 9092)"
_SETTINGS: Final = b"\x04"
_NO_STREAM: Final = bytes(4)
CORRELATION_ID: Final = 0x6F74
API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, CORRELATION_ID, -1)
"""Size, api key 18, version 0, correlation id, null client id: understood by every Kafka broker since 0.10."""
METADATA: Final = struct.pack(">ihhihi", 14, 3, 2, CORRELATION_ID, -1, 0)
"""Size, api key 3, version 2, correlation id, null client id, no topics."""
GET: Final = b"GET / HTTP/1.0\r\n\r\n"


class Diagnosis(NamedTuple):
    """`message`: one clause for an error; `hopeless`: waiting is in vain; `listening`: a server accepts connections."""

    message: str
    hopeless: bool
    listening: bool = False


def diagnose_all(addresses: Sequence[str], diagnose: Callable[[str], Diagnosis]) -> list[Diagnosis]:
    """Diagnose all addresses at once, within seconds; name lookups that take longer are not waited for."""
    found = {address: Diagnosis(f"{address} can't be reached", hopeless=False) for address in addresses}

    def look(address: str) -> None:
        found[address] = diagnose(address)

    lookers = [Thread(target=look, args=(address,), name="ottla-diagnosis", daemon=True) for address in addresses]
    deadline_at = time.monotonic() + LIMIT_S
    for looker in lookers:
        looker.start()
    for looker in lookers:
        looker.join(max(0.0, deadline_at - time.monotonic()))
    return [found[address] for address in addresses]


def diagnose_address(address: str, security: Security = PLAINTEXT) -> Diagnosis:
    """Return why `address` ("host:port") gives no sensible response to a client with this security. Takes up to a
    second and a half; never raises."""
    place, expects_login = HostPort.parse(address), False
    try:
        response = _first_bytes(place, API_VERSIONS)
        if not protocol_of(response):
            response = _first_bytes(place, GET)
        if security.login is None and protocol_of(response) == ("kafka" if security.tls is None else "tls"):
            # A broker that goes down also hangs up, but does not listen afterwards.
            expects_login = _hangs_up(place, METADATA, security.tls) and bool(_first_bytes(place, API_VERSIONS))
    except socket.gaierror:
        return Diagnosis(f"the host name of {address} can't be resolved", hopeless=False)  # not yet, in a container
    except ConnectionRefusedError:
        return Diagnosis(f"nothing listens at {address}", hopeless=False)
    except OSError as error:
        return Diagnosis(f"{address} can't be reached ({error.strerror or error})", hopeless=False)
    if expects_login and security.tls is not None and security.tls.certificate is not None:
        return Diagnosis(
            f"{address} does not accept this client's certificate, or expects a login (SASL): see the broker's log",
            hopeless=True,
        )
    if expects_login:
        return Diagnosis(f"{address} expects a login (SASL): pass login=, or set security.protocol", hopeless=True)
    return _named(address, protocol_of(response), uses_tls=security.tls is not None)


def _named(address: str, protocol: Protocol, *, uses_tls: bool) -> Diagnosis:
    if protocol == "tls" and not uses_tls:
        return Diagnosis(f"{address} expects TLS: pass tls=True, or set security.protocol", hopeless=True)
    if protocol == "kafka" and uses_tls:
        return Diagnosis(f"{address} speaks Kafka's protocol without TLS, but tls= is set", hopeless=True)
    if protocol == "http":
        return Diagnosis(f"{address} is an HTTP port, not {_WANTED}", hopeless=True)
    if protocol == "grpc":
        return Diagnosis(f"{address} is a gRPC port, not {_WANTED}", hopeless=True)
    return Diagnosis(f"{address} accepts connections but did not answer in time", hopeless=False, listening=True)


def _first_bytes(place: HostPort, question: bytes) -> bytes:
    """Return the first bytes that come back, b"" for none."""
    with socket.create_connection(place, timeout=_TIMEOUT_S) as connection:
        connection.settimeout(_TIMEOUT_S)
        try:
            connection.sendall(question)
            return connection.recv(64)
        except (TimeoutError, ConnectionError):
            return b""


def _hangs_up(place: HostPort, question: bytes, tls: Tls | None) -> bool:
    """Return whether the server closes the connection instead of an answer."""
    with contextlib.ExitStack() as opened:
        connection = opened.enter_context(socket.create_connection(place, timeout=_TIMEOUT_S))
        connection.settimeout(_TIMEOUT_S)
        try:
            if tls is not None:
                wrapped = tls.context().wrap_socket(connection, server_hostname=place.host)
                connection = opened.enter_context(wrapped)
            connection.sendall(question)
            return not connection.recv(64)
        except ConnectionError:
            return True
        except OSError:
            return False


def protocol_of(response: bytes) -> Protocol:
    """Return the protocol by the first bytes of a response to API_VERSIONS or to GET; "" for an unknown one."""
    if len(response) >= 8 and struct.unpack_from(">i", response, 4)[0] == CORRELATION_ID:
        return "kafka"
    if response.startswith(b"HTTP/"):
        return "http"
    if response.startswith(b"\x15\x03"):
        return "tls"
    return "grpc" if response[3:4] == _SETTINGS and response[5:9] == _NO_STREAM else ""
