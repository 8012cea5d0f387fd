"""The lines to an address, as far as a connection needs them (`ottla.client.kafka.peer`).

`ottla.client.kafka.sockets` has those with sockets, and `ottla.fakes.scripted_line` those to scripted brokers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from ottla.client.kafka.apis import AnyApi
from ottla.client.kafka.call import Answered, Call, Ended
from ottla.errors import OttlaError
from ottla_core.kafka.message import Message

Waiter: TypeAlias = Callable[[Ended[Any]], None]


class OpenLine(Protocol):
    """A connection to an address, whose calls are answered in their order."""

    ended: OttlaError | None
    """Why the line is over. It is set before the last outcomes are reported."""

    def begin(self, call: Call[Waiter]) -> None:
        """Begin a call, whose waiter gets the outcome. Raises OttlaError if the line is over, or has no room."""
        ...

    def message(self, answered: Answered[Any]) -> Message:
        """Return a response, and pause the line if it asks for that. Raises OttlaError if its bytes make no sense."""
        ...

    def leave(self, timeout: float) -> None:
        """End the line in `timeout` seconds, unless it ends before."""
        ...

    def close(self, reason: str, *, timeout: float = 0.0) -> None:
        """End the line; open calls fail. Before that the broker has `timeout` seconds to take what was sent."""
        ...

    def end(self, reason: str) -> None:
        """End the line, but do not wait until it is over. Open calls fail."""
        ...


class Lines(Protocol):
    """The lines to one address."""

    @property
    def address(self) -> str:
        """The address, as host:port."""
        ...

    @property
    def now(self) -> float:
        """The monotonic time in seconds."""
        ...

    def open(self, on_ended: Callable[[OttlaError], None]) -> OpenLine:
        """Return a new line. `on_ended` runs once, when it is over. Raises OttlaError while no line may be opened."""
        ...

    def ask(
        self, api: AnyApi, request: Callable[[int], Message], *, timeout: float, size_bytes: int = 0
    ) -> tuple[Message, Answered[Any]]:
        """Make a call and wait for its response. `request` builds the message for a version, and `size_bytes` is its
        approximate size. Return the message of the response, and the response as it came. Raises OttlaError."""
        ...

    def on_response(self) -> None:
        """Note that the broker has answered a call."""
        ...

    def close(self) -> None:
        """End every line; open calls fail."""
        ...
