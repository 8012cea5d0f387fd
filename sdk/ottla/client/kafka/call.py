"""A call to a broker, and the ways in which it ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from ottla.client.kafka.apis import AnyApi
from ottla.client.kafka.frames import response_in
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message
from ottla_core.kafka_formats.primitives import MalformedError

Waiter = TypeVar("Waiter")


@dataclass(slots=True, eq=False)
class Call(Generic[Waiter]):
    """A request, and the waiter for its outcome.

    `request` builds the message for a version, which is known only once the broker has said what it serves. It may
    raise OttlaError. `size_bytes` is the approximate size of the request, and counts while the call is queued. A call
    that is not `answered` (a Produce with acks=0) ends when it has been written. The connection sets its `number`.
    """

    api: AnyApi
    request: Callable[[int], Message]
    waiter: Waiter
    deadline: float
    size_bytes: int = 0
    answered: bool = True
    number: int = 0


class Answered(NamedTuple, Generic[Waiter]):
    """The broker at `address` has answered. `frame` is its response as it came, which the waiter decodes on its own
    thread. `features` are those of its cluster (`Versions.features`)."""

    call: Call[Waiter]
    version: int
    frame: bytes
    address: str
    features: Mapping[str, int] = MappingProxyType({})

    def message(self) -> Message:
        """Return the response. Raises OttlaError if its bytes make no sense."""
        try:
            return response_in(self.call.api, self.version, self.frame)
        except MalformedError as error:
            reason = f"{self.call.api.name} at {self.address}: the broker answered with garbage: {error}"
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, reason) from None


class Written(NamedTuple, Generic[Waiter]):
    """The last byte of a call without a response has been written."""

    call: Call[Waiter]


class Failed(NamedTuple, Generic[Waiter]):
    """There will be no response. If the call `was_sent`, the broker may have carried it out all the same."""

    call: Call[Waiter]
    error: OttlaError
    was_sent: bool


Ended: TypeAlias = Answered[Waiter] | Written[Waiter] | Failed[Waiter]
"""How a call ends, which it does once."""
