"""What the clients need of a connection, and no more. `ottla_core.rpc.client.Peer` is the real one.

`ottla.fakes.scripted` is its twin without sockets: brokers that a test scripts, frame by frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from ottla_core.errors import OttlaError
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Sent = TypeVar("Sent", bound=Message, contravariant=True)


class Stream(Protocol[Sent]):
    """One long-lived stream of frames to one broker."""

    def send(self, body: Sent, *, timeout_ms: int, answered: bool = True) -> int:
        """Hand over a frame without blocking; its correlation id. Raises OttlaError where the stream is broken."""
        ...

    def close(self, *, timeout: float = 0.0) -> None:
        """End the stream; open frames are reported as failed, after `timeout` seconds for the broker to take them."""
        ...


class Connection(Protocol):
    """One broker's or controller's address, connected lazily and again by itself."""

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """One unary call. Raises OttlaError: of the transport, or what the response carries."""
        ...

    def ask(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """The same, but the response comes as it is, with the error that it may carry."""
        ...

    def open_stream(
        self,
        method: Method[Request, Response],
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[OttlaError, list[int]], None],
    ) -> Stream[Request]:
        """Both callbacks run on a thread of the stream's own; `on_broken` once, as the last, with the open frames."""
        ...

    def close(self) -> None:
        """Let go of the connection; streams break."""
        ...


Transport = Callable[[str], Connection]
"""host:port → a connection to it. Never blocks."""


def grpc_transport(client_id: str) -> Transport:
    """Connections over gRPC that name `client_id` with every call."""
    from ottla_core.rpc.client import Peer

    return lambda address: Peer(address, client_id=client_id)
