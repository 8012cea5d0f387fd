"""Long-lived streams for one API, one for each broker and lane. Each request is sent with a context, and its outcome is
reported once, with that context.

The outcome is a response, or the error that the stream broke, was closed, or had no response in time. A request without
a response within its timeout breaks its stream, as Kafka's clients close the connection. Whatever hangs there is not
waited for, and the next request opens another stream.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import RLock
from typing import Any, Final, Generic, ParamSpec, TypeVar, cast

from ottla.client.kafka.exchange import Exchange, Outcome
from ottla.client.transport import Connection, Stream
from ottla.errors import ErrorCode, OttlaError
from ottla.machines.broker_session import BrokerSession
from ottla_core.clock import Clock

T = TypeVar("T")
Context = TypeVar("Context")
P = ParamSpec("P")

_GRACE_S: Final = 0.5
"""At its timeout, the broker answers a request with an error: this is the time for that response to arrive."""


@dataclass(slots=True)
class _Open(Generic[Context]):
    context: Context
    deadline_at: float


class BrokerStreams(Generic[T, Context]):
    """The streams of one client for one API, by address. Thread-safe; never blocks."""

    def __init__(
        self,
        name: str,
        connection: Callable[[str], Connection],
        clock: Clock,
        on_response: Callable[[Context, T], None],
        on_failed: Callable[[list[Context], OttlaError], None],
        on_bug: Callable[[BaseException], None],
    ) -> None:
        """The callbacks run on the streams' threads, and `on_failed` also on the sending thread.

        `on_bug` gets errors that the other callbacks raise on a stream's thread, where no caller would get them; the
        request is no longer open then.
        """
        self._name: Final = name
        self._connection: Final = connection
        self._clock: Final = clock
        self._on_response: Final = on_response
        self._on_failed: Final = on_failed
        self._on_bug: Final = on_bug
        self._streams: dict[tuple[str, Hashable], _BrokerStream[T, Context]] = {}
        self._lock: Final = RLock()  # the garbage collector may close a forgotten client anywhere
        self._closed = False

    def send(
        self,
        address: str,
        asked: Callable[[BrokerSession], Exchange[T]],
        context: Context,
        *,
        timeout: float,
        answered: bool = True,
        lane: Hashable = None,
    ) -> bool:
        """Send the request that `asked` returns for the stream's fetch session. Return False if that failed at once;
        then `on_failed` has been called. `timeout` is in seconds."""
        try:
            self._stream_to((address, lane)).send(asked, context, timeout, answered)
        except OttlaError as error:
            self._on_failed([context], error)
            return False
        return True

    def break_overdue(self) -> float:
        """Break the streams with a request past its deadline; return the monotonic time at which to check again."""
        now = self._clock.monotonic()
        with self._lock:
            streams = list(self._streams.values())
        earliest = float("inf")
        for stream in streams:
            due_at = stream.due_at()
            if due_at <= now:
                stream.break_off(
                    OttlaError(ErrorCode.REQUEST_TIMED_OUT, f"{self._name} at {stream.address}: no response in time")
                )
            else:
                earliest = min(earliest, due_at)
        return earliest

    def close(self, *, timeout: float = 0.0) -> None:
        """Close every stream; open requests fail. Brokers have `timeout` seconds to take requests with acks=0."""
        with self._lock:
            self._closed = True
            streams = list(self._streams.values())
        for stream in streams:
            stream.break_off(OttlaError(ErrorCode.NETWORK_EXCEPTION, "the client was closed"), timeout)

    def _stream_to(self, key: tuple[str, Hashable]) -> _BrokerStream[T, Context]:
        with self._lock:
            if self._closed:
                raise OttlaError(ErrorCode.NETWORK_EXCEPTION, "the client was closed")
            stream = self._streams.get(key)
            if stream is None:
                stream = self._streams[key] = _BrokerStream(self, key)
            return stream

    def _open(self, stream: _BrokerStream[T, Context]) -> Stream:
        connection = self._connection(stream.address)
        return connection.open_stream(self._name, stream.on_response, stream.on_broken, stream.session)

    def _forget(self, stream: _BrokerStream[T, Context]) -> None:
        with self._lock:
            if self._streams.get(stream.key) is stream:
                del self._streams[stream.key]


class _BrokerStream(Generic[T, Context]):
    """One stream and its open requests. It is used until it breaks, then forgotten."""

    def __init__(self, streams: BrokerStreams[T, Context], key: tuple[str, Hashable]) -> None:
        self.key: Final = key
        self.address: Final = key[0]
        self.session: Final = BrokerSession()
        self._streams: Final = streams
        self._lock: Final = RLock()  # a signal handler may read too
        self._open: dict[int, _Open[Context]] = {}
        self._reason: OttlaError | None = None
        self._stream: Stream = streams._open(self)

    def send(
        self, asked: Callable[[BrokerSession], Exchange[T]], context: Context, timeout: float, answered: bool
    ) -> None:
        deadline_at = self._streams._clock.monotonic() + timeout + _GRACE_S
        with self._lock:  # a response finds its request only after that has been noted
            try:
                timeout_ms = max(1, int(timeout * 1000))
                number = self._stream.send(asked(self.session), timeout_ms=timeout_ms, answered=answered)
            except OttlaError:
                self._streams._forget(self)
                raise
            if answered:
                self._open[number] = _Open(context, deadline_at)

    def due_at(self) -> float:
        with self._lock:
            return min((request.deadline_at for request in list(self._open.values())), default=float("inf"))

    def break_off(self, reason: OttlaError, timeout: float = 0.0) -> None:
        self._streams._forget(self)
        self._reason = reason
        self._stream.close(timeout=timeout)

    def on_response(self, number: int, outcome: Outcome[Any]) -> None:
        with self._lock:
            request = self._open.pop(number, None)
        if request is None:
            return
        if outcome.error is not None:
            self._tell(self._streams._on_failed, [request.context], outcome.error)
        else:
            self._tell(self._streams._on_response, request.context, cast(T, outcome.value))

    def on_broken(self, error: OttlaError, _open: list[int]) -> None:
        self._streams._forget(self)
        with self._lock:
            contexts = [request.context for request in self._open.values()]
            self._open.clear()
        self._tell(self._streams._on_failed, contexts, self._reason or error)

    def _tell(self, callback: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            callback(*args, **kwargs)
        except BaseException as bug:
            self._streams._on_bug(bug)
