"""A request and how its response is read: the form in which modules ask brokers (docs/design/sdk-transport.md).

Both directions are functions without IO, in the module that asks. A connection does the rest
(`ottla.client.kafka.peer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.client.kafka.apis import AnyApi, Api, own_error
from ottla.errors import ErrorCode, OttlaError, error_from_code, from_core
from ottla_core.kafka.message import Message

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")
U = TypeVar("U")

Features = Mapping[str, int]
"""The finalized features of a cluster: their levels, by name."""
NO_FEATURES: Final[Features] = MappingProxyType({})
_OF_BAD_DATA: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""The exceptions that unexpected values cause. Any other exception may come from a signal handler."""
NONSENSE: Final = "the broker's response makes no sense"


class Terms(NamedTuple):
    """The version of a request, and the time in ms that the broker has for it."""

    version: int
    timeout_ms: int


class Outcome(NamedTuple, Generic[T]):
    """The meaning of a response, or its error."""

    value: T | None = None
    error: OttlaError | None = None


class ByFeatures(NamedTuple, Generic[Response, T]):
    """A reader that also gets the finalized features of the cluster that has answered."""

    read: Callable[[Response, Features], T]


class Exchange(Generic[T]):
    """A request of one API, whose response means a T."""

    __slots__ = ("_build", "_read", "_takes_errors", "api", "size_bytes")

    def __init__(
        self,
        api: Api[Request, Response],
        build: Callable[[Terms], Request],
        read: Callable[[Response], T] | ByFeatures[Response, T],
        *,
        takes_errors: bool = False,
        size_bytes: int = 0,
    ) -> None:
        """`build` returns the request, and `read` returns what its response means. Both may raise OttlaError. With
        `takes_errors`, `read` also gets responses that have an error for the whole request. `size_bytes` is the
        approximate size of a large request."""
        self.api: Final[AnyApi] = api
        self.size_bytes: Final = size_bytes
        self._build: Final[Callable[[Terms], Message]] = build
        self._read: Final[Callable[[Any, Features], T]] = (
            read.read if isinstance(read, ByFeatures) else lambda response, _: read(response)
        )
        self._takes_errors: Final = takes_errors

    def then(self, judge: Callable[[T], U]) -> Exchange[U]:
        """Return an exchange whose response means what `judge` returns for its meaning in this exchange.

        `judge` may raise OttlaError.
        """

        def read(response: Any, features: Features) -> U:
            return judge(self._read(response, features))

        return Exchange(
            self.api, self._build, ByFeatures(read), takes_errors=self._takes_errors, size_bytes=self.size_bytes
        )

    def builder(self, timeout_ms: int) -> Callable[[int], Message]:
        """Return a function that builds the request for a version. The broker has `timeout_ms`."""

        def build(version: int) -> Message:
            try:
                return self._build(Terms(version, timeout_ms))
            except OttlaError:
                raise
            except _OF_BAD_DATA as error:
                reason = f"a request of {self.api.name} can't be made of these arguments ({error!r})"
                raise OttlaError(ErrorCode.INVALID_REQUEST, reason) from error

        return build

    def result(self, response: Message, address: str, features: Features = NO_FEATURES) -> T:
        """Return what a response of the broker at `address` means. Raises OttlaError, including when the response makes
        no sense."""
        try:
            return self._meaning(response, features)
        except OttlaError:
            raise
        except _OF_BAD_DATA as error:
            reason = f"{self.api.name} at {address}: {NONSENSE} ({error!r})"
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, reason) from error

    @property
    def with_errors(self) -> Exchange[Outcome[T]]:
        """An exchange that returns the error of a response as an `Outcome`, instead of raising it."""

        def read(response: Any, features: Features) -> Outcome[T]:
            try:
                return Outcome(self._meaning(response, features))
            except OttlaError as error:
                return Outcome(error=error)

        return Exchange(self.api, self._build, ByFeatures(read), takes_errors=True, size_bytes=self.size_bytes)

    def _meaning(self, response: Message, features: Features) -> T:
        if not self._takes_errors and (failure := self.api.failure(response)) is not None:
            raise failure
        return self._read(response, features)


def raise_failed(part: Message) -> None:
    """Raise the error that a part of a response has, if it has one."""
    if (error := own_error(part)) is not None:
        raise from_core(error)


def lacking(api: AnyApi, part: object) -> OttlaError:
    """Return the error for a response that lacks a part that was requested."""
    return error_from_code(ErrorCode.NETWORK_EXCEPTION, f"the response to {api.name} lacks {part}")
