"""A request and how its response is read: the form in which modules ask brokers (docs/adr/0046 says which do so).

Both directions are pure functions of the module that asks. A connection does the rest (`ottla.client.kafka.peer`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.client.kafka.apis import Api
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")

NONSENSE: Final = "the broker's response makes no sense"


class Terms(NamedTuple):
    """The version of a request, and the time in ms that the broker has for it."""

    version: int
    timeout_ms: int


class Outcome(NamedTuple, Generic[T]):
    """The meaning of a response, or its error."""

    value: T | None = None
    error: OttlaError | None = None


class Exchange(Generic[T]):
    """A request of one API, whose response means a T."""

    __slots__ = ("_build", "_read", "_takes_errors", "api", "size_bytes")

    def __init__(
        self,
        api: Api[Request, Response],
        build: Callable[[Terms], Request],
        read: Callable[[Response], T],
        *,
        takes_errors: bool = False,
        size_bytes: int = 0,
    ) -> None:
        """`build` returns the request, and `read` returns what its response means. Both may raise OttlaError. With
        `takes_errors`, `read` also gets responses that have an error for the whole request. `size_bytes` is the
        approximate size of a large request."""
        self.api: Final[Api[Any, Any]] = api
        self.size_bytes: Final = size_bytes
        self._build: Final[Callable[[Terms], Message]] = build
        self._read: Final[Callable[[Any], T]] = read
        self._takes_errors: Final = takes_errors

    def builder(self, timeout: float) -> Callable[[int], Message]:
        """Return a function that builds the request for a version. The broker has `timeout` seconds."""
        timeout_ms = int(timeout * 1000)
        return lambda version: self._build(Terms(version, timeout_ms))

    def result(self, response: Message, address: str) -> T:
        """Return what a response of the broker at `address` means. Raises OttlaError, including when the response makes
        no sense."""
        try:
            return self._meaning(response)
        except OttlaError:
            raise
        except Exception as error:
            reason = f"{self.api.name} at {address}: {NONSENSE} ({error!r})"
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, reason) from error

    @property
    def with_errors(self) -> Exchange[Outcome[T]]:
        """This exchange, which returns the error that a response has instead of raising it."""

        def read(response: Any) -> Outcome[T]:
            try:
                return Outcome(self._meaning(response))
            except OttlaError as error:
                return Outcome(error=error)

        return Exchange(self.api, self._build, read, takes_errors=True, size_bytes=self.size_bytes)

    def _meaning(self, response: Message) -> T:
        if not self._takes_errors and (failure := self.api.failure(response)) is not None:
            raise failure
        return self._read(response)
