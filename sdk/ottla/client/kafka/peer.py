"""One broker's address over Kafka's protocol: a connection as the clients use it (`client/transport.py`).

A broker answers the requests of a connection in order. So each stream has a line of its own, and single calls share
one: records keep no call waiting, and no call keeps records waiting. A call that waits for others, as JoinGroup does,
has a line to itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ottla.client.kafka.apis import FETCH
from ottla.client.kafka.call import Answered, Call, Ended, Failed
from ottla.client.kafka.exchange import Exchange, Outcome
from ottla.client.kafka.lines import Lines, OpenLine, Waiter
from ottla.errors import OttlaError
from ottla.machines.broker_session import FINAL_EPOCH, BrokerSession
from ottla_core.kafka.messages import FetchRequest

T = TypeVar("T")

_GRACE_S: Final = 1.0
"""At the timeout of a call, the broker answers with an error: this is the time for that response to arrive."""
_GOODBYE_S: Final = 0.05
"""The time for the last request of a fetch session. The broker evicts a session whose client had no more time."""
_CLOSED: Final = "the connection was closed"


class KafkaPeer:
    """The address of one broker. The first call connects to it, as does the next call after a connection has ended."""

    def __init__(self, address: Lines) -> None:
        self._address: Final = address

    def exchange(self, asked: Exchange[T], *, timeout: float) -> T:
        """Send a request, and return what its response means. Raises OttlaError."""
        build = asked.builder(int(timeout * 1000))
        message, answered = self._address.ask(asked.api, build, timeout=timeout, size_bytes=asked.size_bytes)
        return asked.result(message, answered.address, answered.features)

    def open_stream(
        self,
        name: str,
        on_response: Callable[[int, Outcome[Any]], None],
        on_broken: Callable[[OttlaError, list[int]], None],
        session: BrokerSession | None = None,
    ) -> KafkaStream:
        """Open a line for these calls. Both callbacks run on the network's thread; `on_broken` runs once."""
        return KafkaStream(self._address, name, on_response, on_broken, session)

    def close(self) -> None:
        """End all lines; open calls fail."""
        self._address.close()


class KafkaStream:
    """A line for some calls. At its close it ends the fetch session, if there is one."""

    def __init__(
        self,
        address: Lines,
        name: str,
        on_response: Callable[[int, Outcome[Any]], None],
        on_broken: Callable[[OttlaError, list[int]], None],
        session: BrokerSession | None,
    ) -> None:
        self._address: Final = address
        self._name: Final = name
        self._on_response: Final = on_response
        self._on_broken: Final = on_broken
        self._session: Final = session
        self._numbers: Final = itertools.count(1)
        self._open: Final[dict[int, None]] = {}
        self._is_leaving = False
        self._line: Final[OpenLine] = address.open(self._on_ended)

    def send(self, asked: Exchange[Any], *, timeout_ms: int, answered: bool = True) -> int:
        """Begin a call, and return its number. Raises OttlaError if the line is over."""
        number = next(self._numbers)

        def end(outcome: Ended[Any]) -> None:
            self._on_outcome(number, asked, outcome)

        deadline = self._address.now + timeout_ms / 1000 + _GRACE_S
        if answered:
            self._open[number] = None
        try:
            self._line.begin(Call(asked.api, asked.builder(timeout_ms), end, deadline, asked.size_bytes, answered))
        except OttlaError:
            self._open.pop(number, None)
            raise
        return number

    def close(self, *, timeout: float = 0.0) -> None:
        """End the line, after up to `timeout` seconds for the broker to take what was sent.

        If the broker has a fetch session, this begins its end and does not wait. The close of the peer waits for it,
        so all sessions of a client end at the same time.
        """
        if self._session is not None and self._session.may_exist:
            self._is_leaving = True
            self._line.leave(_GOODBYE_S)
            if not self._session.is_beginning:
                self._say_goodbye(self._session)
        else:
            self._line.close(_CLOSED, timeout=timeout)

    def _say_goodbye(self, session: BrokerSession) -> None:
        """End the session by a last request, and the line once that is written. Its response would tell nothing."""
        if not session.may_exist:
            self._line.end(_CLOSED)
            return

        def last(_version: int) -> FetchRequest:
            return FetchRequest(session_id=session.id, session_epoch=FINAL_EPOCH)

        deadline = self._address.now + _GOODBYE_S
        call: Call[Waiter] = Call(FETCH, last, self._on_left, deadline, answered=False)
        try:
            self._line.begin(call)
        except OttlaError:
            self._line.end(_CLOSED)

    def _on_left(self, _outcome: Ended[Any]) -> None:
        self._line.end(_CLOSED)

    def _on_outcome(self, number: int, asked: Exchange[Any], outcome: Ended[Any]) -> None:
        if self._line.ended is not None and not isinstance(outcome, Answered):
            return  # `_on_ended` reports it
        self._open.pop(number, None)
        match outcome:
            case Answered():
                self._address.on_response()
                self._on_response(number, self._result(asked, outcome))
            case Failed(error=error):
                # The line goes on, so this call alone is answered by an error.
                self._on_response(number, Outcome(error=error))
        if self._is_leaving and self._session is not None:
            self._say_goodbye(self._session)

    def _result(self, asked: Exchange[T], answered: Answered[Any]) -> Outcome[T]:
        """Return what the response means. One that makes no sense is an error of its call."""
        try:
            message = self._line.message(answered)
            return Outcome(asked.result(message, answered.address, answered.features))
        except OttlaError as error:
            return Outcome(error=error)

    def _on_ended(self, error: OttlaError) -> None:
        left = list(self._open)
        self._open.clear()
        message = f"{self._name} at {self._address.address}: {error.message}"
        self._on_broken(OttlaError(error.code, message, hint=error.hint), left)
