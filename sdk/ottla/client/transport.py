"""The interface of a connection, as far as the clients need it. `ottla.client.kafka.peer.KafkaPeer` implements it over
Kafka's protocol (docs/design/sdk-transport.md).

`ottla.fakes.scripted` is its counterpart without sockets: brokers that a test scripts, request by request.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from ottla.client.kafka.exchange import Exchange, Outcome
from ottla.errors import OttlaError
from ottla.machines.broker_session import BrokerSession

T = TypeVar("T")


class Stream(Protocol):
    """One long-lived stream of requests to one broker."""

    def send(self, asked: Exchange[Any], *, timeout_ms: int, answered: bool = True) -> int:
        """Send a request without blocking, and return its number. Raises OttlaError if the stream is broken."""
        ...

    def close(self, *, timeout: float = 0.0) -> None:
        """End the stream, after up to `timeout` seconds for the broker to take open requests; those are reported as
        failed."""
        ...


class Connection(Protocol):
    """One broker's address, connected lazily and again by itself."""

    def exchange(self, asked: Exchange[T], *, timeout: float) -> T:
        """Send a request, and return what its response means.

        Raises OttlaError, of the transport or from the response: UNSUPPORTED_VERSION if the broker does not serve the
        API.
        """
        ...

    def open_stream(
        self,
        name: str,
        on_response: Callable[[int, Outcome[Any]], None],
        on_broken: Callable[[OttlaError, list[int]], None],
        session: BrokerSession | None = None,
    ) -> Stream:
        """Open a stream. Both callbacks run on a thread of its own; `on_broken` runs once, last, with open requests.
        When the stream is closed, it asks the broker to end the `session`.

        Raises OttlaError if the address failed a moment ago.
        """
        ...

    def close(self) -> None:
        """Close the connection; its streams break."""
        ...


Transport = Callable[[str], Connection]
"""host:port → a connection to it. Never blocks."""
