"""The interface of a connection, as far as the clients need it. `ottla_core.rpc.client.Peer` implements it over gRPC,
and `ottla.client.kafka.peer.KafkaPeer` over Kafka's protocol (docs/adr/0028).

`ottla.fakes.scripted` is its counterpart without sockets: brokers that a test scripts, frame by frame.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from ottla.client.kafka.transport import KafkaTransport
from ottla.errors import OttlaError, config_error
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Sent = TypeVar("Sent", bound=Message, contravariant=True)


class Stream(Protocol[Sent]):
    """One long-lived stream of frames to one broker."""

    def send(self, body: Sent, *, timeout_ms: int, answered: bool = True) -> int:
        """Send a frame without blocking, and return its correlation id. Raises OttlaError if the stream is broken."""
        ...

    def close(self, *, timeout: float = 0.0) -> None:
        """End the stream, after up to `timeout` seconds for the broker to take open frames; those are reported as
        failed."""
        ...


class Connection(Protocol):
    """One broker's or controller's address, connected lazily and again by itself."""

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Make a unary call. Raises OttlaError, of the transport or from the response."""
        ...

    def ask(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Make a unary call, and return the response as it is, possibly with an error in it."""
        ...

    def open_stream(
        self,
        method: Method[Request, Response],
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[OttlaError, list[int]], None],
    ) -> Stream[Request]:
        """Open a stream. Both callbacks run on a thread of its own; `on_broken` runs once, last, with open frames.
        Raises OttlaError if the address failed a moment ago."""
        ...

    def close(self) -> None:
        """Close the connection; its streams break."""
        ...


Transport = Callable[[str], Connection]
"""host:port → a connection to it. Never blocks."""


def grpc_transport(client_id: str) -> Transport:
    """Return a transport over gRPC, which names `client_id` with every call. Raises ConfigError without gRPC."""
    try:
        from ottla_core.rpc.client import Peer
    except ModuleNotFoundError as missing:
        raise config_error(
            f"a connection to a service needs {missing.name}, which is not installed",
            hint="run `pip install 'ottla[server]'`, or give addresses of brokers, which need none",
        ) from missing

    return lambda address: Peer(address, client_id=client_id)


def chosen_transport(client_id: str) -> Transport:
    """Return the transport over Kafka's protocol, or over gRPC if the environment variable _OTTLA_TRANSPORT is "grpc".

    The variable is for our tests and benchmarks.
    """
    return grpc_transport(client_id) if os.environ.get("_OTTLA_TRANSPORT") == "grpc" else KafkaTransport(client_id)
