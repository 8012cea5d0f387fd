"""The interface of a connection, as far as the clients need it. `ottla.client.kafka.peer.KafkaPeer` implements it over
Kafka's protocol (docs/adr/0028).

`ottla.fakes.scripted` is its counterpart without sockets: brokers that a test scripts, frame by frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from ottla.client.kafka.exchange import Exchange
from ottla.errors import OttlaError
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")
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

    def exchange(self, asked: Exchange[T], *, timeout: float) -> T:
        """Send a request, and return what its response means.

        Raises OttlaError, of the transport or from the response: UNSUPPORTED_VERSION if the broker does not serve the
        API.
        """
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
