"""One broker's address over Kafka's protocol: a connection as the clients use it (`client/transport.py`).

A broker answers the requests of a connection in order. So each stream has a line of its own, and single calls share
one: records keep no call waiting, and no call keeps records waiting. A call that waits for others, as JoinGroup does,
has a line to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast

from google.protobuf.message import Message

from ottla.client.kafka.apis import FETCH
from ottla.client.kafka.call import Answered, Call, Ended, Failed
from ottla.client.kafka.exchange import Exchange
from ottla.client.kafka.lines import Lines, OpenLine, Waiter
from ottla.client.kafka.translations.fetch import FetchSession
from ottla.client.kafka.translations.table import translation_of, translations_of
from ottla.client.kafka.translations.topic_names import TopicNames
from ottla.client.kafka.translations.transaction_version import api_for
from ottla.client.kafka.translations.translation import Terms, Translation
from ottla.errors import ErrorCode, OttlaError
from ottla_core.kafka.message import Message as KafkaMessage
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
T = TypeVar("T")

_GRACE_S: Final = 1.0
"""At the timeout of a call, the broker answers with an error: this is the time for that response to arrive."""
_GOODBYE_S: Final = 0.05
"""The time for the last request of a fetch session. The broker evicts a session whose client had no more time."""
_CLOSED: Final = "the connection was closed"


class KafkaPeer:
    """The address of one broker. The first call connects to it, as does the next call after a connection has ended."""

    def __init__(self, address: Lines, names: TopicNames) -> None:
        self._address: Final = address
        self._names: Final = names

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Make a call. Raises OttlaError, of the connection or from the response."""
        response = self.ask(method, request, timeout=timeout)
        error = response.error  # type: ignore[attr-defined]  # every response has one: tests/architecture
        if error.code:
            raise OttlaError(error.code, error.message)
        return response

    def ask(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Make a call, and return the response as it is, possibly with an error in it. Raises OttlaError."""
        translation = translation_of(method, request, self._names)
        translated = _Translated(method, translation, self._names, request, int(timeout * 1000))
        message, answered = self._address.ask(
            translated.api, translated.spelled, timeout=timeout, size_bytes=translated.size_bytes
        )
        return translated.response(message, answered)

    def exchange(self, asked: Exchange[T], *, timeout: float) -> T:
        """Send a request, and return what its response means. Raises OttlaError."""
        build = asked.builder(timeout)
        message, _ = self._address.ask(asked.api, build, timeout=timeout, size_bytes=asked.size_bytes)
        return asked.result(message, self._address.address)

    def open_stream(
        self,
        method: Method[Request, Response],
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[OttlaError, list[int]], None],
    ) -> KafkaStream[Request, Response]:
        """Open a line for these calls. Both callbacks run on the network's thread; `on_broken` runs once."""
        return KafkaStream(self._address, self._names, method, on_response, on_broken)

    def close(self) -> None:
        """End all lines; open calls fail."""
        self._address.close()


class KafkaStream(Generic[Request, Response]):
    """A line for the calls of one method."""

    def __init__(
        self,
        address: Lines,
        names: TopicNames,
        method: Method[Request, Response],
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[OttlaError, list[int]], None],
    ) -> None:
        self._address: Final = address
        self._names: Final = names
        self._method: Final = method
        self._new_translation: Final = translations_of(method)
        self._on_response: Final = on_response
        self._on_broken: Final = on_broken
        self._numbers: Final = itertools.count(1)
        self._open: Final[dict[int, None]] = {}
        self._leaving: FetchSession | None = None
        self._line: Final[OpenLine] = address.open(self._on_ended)

    def send(self, body: Request, *, timeout_ms: int, answered: bool = True) -> int:
        """Begin a call, and return its number. Raises OttlaError if the line is over."""
        number = next(self._numbers)
        translated = _Translated(self._method, self._new_translation(), self._names, body, timeout_ms)

        def end(outcome: Ended[Any]) -> None:
            self._on_outcome(number, translated, outcome)

        deadline = self._address.now + timeout_ms / 1000 + _GRACE_S
        if answered:
            self._open[number] = None
        try:
            self._line.begin(Call(translated.api, translated.spelled, end, deadline, translated.size_bytes, answered))
        except OttlaError:
            self._open.pop(number, None)
            raise
        return number

    def close(self, *, timeout: float = 0.0) -> None:
        """End the line, after up to `timeout` seconds for the broker to take what was sent.

        If the broker has a fetch session, this begins its end and does not wait. The close of the peer waits for it,
        so all sessions of a client end at the same time.
        """
        session = self._new_translation
        if isinstance(session, FetchSession) and session.may_exist:
            self._leaving = session
            self._line.leave(_GOODBYE_S)
            if not session.is_beginning:
                self._say_goodbye(session)
        else:
            self._line.close(_CLOSED, timeout=timeout)

    def _say_goodbye(self, session: FetchSession) -> None:
        """End the session by a last request, and the line once that is written. Its response would tell nothing."""
        if not session.may_exist:
            self._line.end(_CLOSED)
            return
        deadline = self._address.now + _GOODBYE_S
        last: Call[Waiter] = Call(FETCH, session.goodbye, self._on_left, deadline, answered=False)
        try:
            self._line.begin(last)
        except OttlaError:
            self._line.end(_CLOSED)

    def _on_left(self, _outcome: Ended[Any]) -> None:
        self._line.end(_CLOSED)

    def _on_outcome(self, number: int, translated: _Translated[Request, Response], outcome: Ended[Any]) -> None:
        if self._line.ended is not None and not isinstance(outcome, Answered):
            return  # `_on_ended` reports it
        self._open.pop(number, None)
        match outcome:
            case Answered():
                self._address.on_response()
                self._on_response(number, self._response(translated, outcome))
            case Failed(error=error):
                # The line goes on, so this call alone is answered by an error.
                self._on_response(number, translated.failed(error))
        if (session := self._leaving) is not None:
            self._say_goodbye(session)

    def _response(self, translated: _Translated[Request, Response], answered: Answered[Any]) -> Response:
        """Return the response. One that makes no sense is an error of its call."""
        try:
            return translated.response(self._line.message(answered), answered)
        except OttlaError as error:
            return translated.failed(error)

    def _on_ended(self, error: OttlaError) -> None:
        left = list(self._open)
        self._open.clear()
        message = f"{self._method.name} at {self._address.address}: {error.message}"
        self._on_broken(OttlaError(error.code, message, hint=error.hint), left)


class _Translated(Generic[Request, Response]):
    """A request that is translated into Kafka's messages, and whose response is translated back."""

    __slots__ = ("_method", "_names", "_request", "_timeout_ms", "_translation", "api", "size_bytes")

    def __init__(
        self,
        method: Method[Request, Response],
        translation: Translation,
        names: TopicNames,
        request: Request,
        timeout_ms: int,
    ) -> None:
        self._translation = translation
        self._method = method
        self._names = names
        self._request: Request | None = request
        self._timeout_ms = timeout_ms
        self.api = api_for(translation.api, request)
        self.size_bytes = request.ByteSize()

    def response(self, message: KafkaMessage, answered: Answered[Any]) -> Response:
        """Return the response. Raises OttlaError if its values make no sense."""
        terms = self._terms(answered.version, answered.features)
        try:
            return cast(Response, self._translation.response(message, terms))
        except Exception as error:  # without a response the caller would wait for ever
            reason = f"{self._method.name} at {answered.address}: the broker's response makes no sense ({error!r})"
            raise OttlaError(ErrorCode.NETWORK_EXCEPTION, reason) from error

    def failed(self, error: OttlaError) -> Response:
        """Return a response that has nothing but this error."""
        return self._method.response(error=Error(code=error.code, message=error.message))

    def spelled(self, version: int) -> KafkaMessage:
        request, self._request = self._request, None  # the frame has it from now on
        return self._translation.request(request, self._terms(version))

    def _terms(self, version: int, features: Mapping[str, int] = MappingProxyType({})) -> Terms:
        return Terms(version, self._timeout_ms, self._names, features)
