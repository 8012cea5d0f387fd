"""The client's side of gathered calls: all small calls of a process to one address, over one stream (docs/adr/0027).

`outgoing_calls` decides what is sent when and how each call ends. This is its edge: it reads the clock, carries
messages to gRPC and back, and opens the stream at the first call and again after it has ended.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, NamedTuple, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from ottla_core.errors import ErrorCode
from ottla_core.rpc.alarm import Alarm
from ottla_core.rpc.call_frames import CallFrames, body_of, join_calls
from ottla_core.rpc.deadlines import NEVER
from ottla_core.rpc.outgoing_calls import CrowdedError, Ended, OutgoingCalls
from ottla_core.rpc.retry import Backoff
from ottla_core.rpc.status import MAX_MESSAGE_BYTES, TransportError, log_bug, raise_error, transport_error
from ottla_proto.common_pb2 import ResponseFrames
from ottla_proto.contracts import GatheredCalls, Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

WRITE_LIMIT_S: Final = 30.0
"""How long the peer may take to accept one message. Then its stream ends, and the next call opens another one."""

_MAX_CALL_BYTES: Final = MAX_MESSAGE_BYTES - 64
_FIRST_REST_S: Final = 0.05
_LONGEST_REST_S: Final = 0.25
"""How long a client pauses after a stream that brought no response. gRPC has its own pauses between attempts to
connect; this one is for a peer that accepts streams and ends them."""


class _Waiter(NamedTuple):
    """The future that a caller waits for, with the words for its errors."""

    method: str
    timeout_s: float
    response: asyncio.Future[Any]


class CallStream:
    """The stream to one address. `AioPeer.gathered` creates it."""

    def __init__(
        self,
        channel: Callable[[], Any],
        address: str,
        gathered: GatheredCalls,
        metadata: tuple[tuple[str, str], ...],
    ) -> None:
        """Make the stream, which is opened on the channel that `channel` then returns."""
        self._address: Final = address
        self._path: Final = gathered.path
        self._frames: Final = CallFrames(gathered)
        self._metadata: Final = metadata
        self._channel: Final = channel
        self._calls: Final = OutgoingCalls[_Waiter]()
        self._loop: Final = asyncio.get_running_loop()
        self._due: Final = asyncio.Event()
        self._looks_at = NEVER  # when the writer wakes up by itself to look for a message
        self._alarm: Final = Alarm(self._loop, self._on_time)
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False
        self._rest: Final = Backoff(_FIRST_REST_S, _LONGEST_REST_S)
        self._rests_until = -math.inf
        self._failure = TransportError(ErrorCode.NETWORK_EXCEPTION, "no stream was open")

    def carries(self, method: Method[Any, Any]) -> bool:
        """Return whether calls of this method of the contract go over the stream."""
        return self._frames.carries(method)

    async def call(
        self, method: Method[Request, Response], request: Request, *, timeout: float, linger_s: float = 0.0
    ) -> Response:
        """Return the response. Raises TransportError, or the OttlaError that the response carries."""
        response = await self.ask(method, request, timeout=timeout, linger_s=linger_s)
        raise_error(response.error)  # type: ignore[attr-defined]  # every response has one: tests/architecture
        return response

    async def ask(
        self,
        method: Method[Request, Response],
        request: Request,
        *,
        timeout: float,
        linger_s: float = 0.0,
        while_busy: bool = False,
    ) -> Response:
        """Return the response even if it carries an error, because some responses carry more than that.

        Raises TransportError.

        The call may be sent `linger_s` after the message before it, so that others go with it; with `while_busy` it
        waits only as long as any call has no response.
        """
        now = self._loop.time()
        self._check_open(method, now)
        try:
            number = self._calls.next_number()
        except CrowdedError as error:
            raise self._not_sent(method.name, str(error), hint="try again later") from None
        frame = self._frames.call(number, max(1, round(timeout * 1000)), method, request)
        if len(frame) > _MAX_CALL_BYTES:
            message = f"the call has {len(frame)} bytes, and the limit is {_MAX_CALL_BYTES}"
            raise self._not_sent(method.name, message, code=ErrorCode.MESSAGE_TOO_LARGE, hint="send less at a time")
        response: asyncio.Future[Response] = self._loop.create_future()
        waiter = _Waiter(method.name, timeout, response)
        self._calls.add(
            number, frame, waiter, now=now, deadline=now + timeout, linger_s=linger_s, while_busy=while_busy
        )
        del frame
        self._look()
        try:
            return await response
        except asyncio.CancelledError:
            self._calls.give_up(number)
            self._look()
            raise

    async def close(self) -> None:
        """End the stream, and with it every call."""
        self._is_closed = True
        self._failure = TransportError(ErrorCode.NETWORK_EXCEPTION, "the connection was closed")
        if self._running is not None:
            self._running.cancel()
            await asyncio.wait({self._running})
        self._end_all(self._calls.on_end())

    # ---- what is due -------------------------------------------------------------------------------------------------

    def _check_open(self, method: Method[Any, Any], now: float) -> None:
        if self._is_closed or (self._running is None and now < self._rests_until):
            raise self._not_sent(method.name, self._failure.message, code=self._failure.code)

    def _look(self) -> None:
        """Wake the writer, open the stream and set the timer of the deadlines, as far as something has become due."""
        at = self._calls.go_at
        if self._running is None and at != NEVER and not self._is_closed:
            self._running = self._loop.create_task(self._run())
        if at < self._looks_at:
            self._due.set()
        self._alarm.set(self._calls.next_deadline)

    def _on_time(self) -> None:
        for waiter, was_sent in self._calls.on_time(self._loop.time()):
            if was_sent:
                message = f"{waiter.method} at {self._address}: no response within {waiter.timeout_s:g} s"
                error = TransportError(ErrorCode.REQUEST_TIMED_OUT, message)
            else:
                message = f"the peer has not taken it within {waiter.timeout_s:g} s"
                error = self._not_sent(waiter.method, message, code=ErrorCode.REQUEST_TIMED_OUT)
            _fail(waiter, error)
        self._look()

    # ---- one stream --------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Serve one stream from its beginning to its end, and end the calls that are open then."""
        try:
            self._failure = await self._served()
        except Exception as error:  # without an end of its own, every later call would wait for this stream
            self._failure = self._failure_by_bug(error)
        finally:
            self._running = None
            self._looks_at = NEVER
            if not self._is_closed:
                self._rests_until = self._loop.time() + self._rest.next()
            self._end_all(self._calls.on_end())

    async def _served(self) -> TransportError:
        """Return why the stream is over."""
        open_stream = self._channel().stream_stream(self._path, request_serializer=None, response_deserializer=None)
        stream = open_stream(metadata=self._metadata)
        reading = asyncio.create_task(self._read(stream))
        writing = asyncio.create_task(self._write(stream))
        try:
            await asyncio.wait({reading, writing}, return_when=asyncio.FIRST_COMPLETED)
            return await self._failure_of(stream, reading, writing)
        finally:
            for task in (reading, writing):
                task.cancel()
            stream.cancel()
            await asyncio.gather(reading, writing, return_exceptions=True)

    async def _failure_of(
        self, stream: Any, reading: asyncio.Task[None], writing: asyncio.Task[None]
    ) -> TransportError:
        """Return why the stream is over."""
        for task in (writing, reading):
            error = task.exception() if task.done() and not task.cancelled() else None
            if isinstance(error, TransportError):
                return error
            if isinstance(error, DecodeError):
                message = f"{self._address} has sent what is no message of gathered calls: {error}"
                return TransportError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
            if isinstance(error, Exception) and not isinstance(error, grpc.RpcError | asyncio.InvalidStateError):
                return self._failure_by_bug(error)
        if not stream.done():  # this process has closed the channel
            return TransportError(ErrorCode.NETWORK_EXCEPTION, f"{self._address}: the connection was closed")
        nothing = grpc.aio.Metadata()
        status = grpc.aio.AioRpcError(await stream.code(), nothing, nothing, details=await stream.details())
        return transport_error(status, self._address, "the stream of calls")

    def _failure_by_bug(self, error: Exception) -> TransportError:
        return TransportError(ErrorCode.UNKNOWN_SERVER_ERROR, log_bug(self._path, "of the stream", error))

    async def _write(self, stream: Any) -> None:
        # Calls stay in the queue until the stream is there: if it can't be opened, none of them was sent.
        await self._within_limit(stream.wait_for_connection(), "accepted the stream")
        while True:
            await self._until_due()
            message = self._calls.message(self._loop.time())
            if message is None:
                continue
            encoded = join_calls(*message)
            del message
            await self._within_limit(stream.write(encoded), "read a message")

    async def _within_limit(self, step: Awaitable[None], what: str) -> None:
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                await step
        except TimeoutError:
            message = f"{self._address} has not {what} within {WRITE_LIMIT_S:g} s"
            raise TransportError(ErrorCode.REQUEST_TIMED_OUT, message) from None

    async def _until_due(self) -> None:
        while (at := self._calls.go_at) > self._loop.time():
            self._due.clear()
            self._looks_at = at
            timer = None if at == NEVER else self._loop.call_at(at, self._due.set)
            try:
                await self._due.wait()
            finally:
                self._looks_at = -NEVER
                if timer is not None:
                    timer.cancel()

    async def _read(self, stream: Any) -> None:
        while (data := await stream.read()) is not grpc.aio.EOF:
            self._rest.reset()
            message = ResponseFrames.FromString(data)
            for frame in message.frames:
                self._on_frame(self._frames.response_type.FromString(frame))
            if message.HasField("last_started"):
                refused = TransportError(
                    ErrorCode.NETWORK_EXCEPTION,
                    f"{self._address} is shutting down; try another server",
                    indefinite=False,
                )
                for waiter, _ in self._calls.on_last_started(message.last_started):
                    _fail(waiter, refused)
            self._look()  # there may be room in the window

    def _on_frame(self, frame: Any) -> None:
        waiter = self._calls.on_response(frame.correlation_id)
        if waiter is None or waiter.response.done():
            return
        body = body_of(frame)
        if frame.HasField("not_started"):
            _fail(waiter, self._not_sent(waiter.method, frame.not_started.message, code=frame.not_started.code))
        elif body is None:
            message = f"{waiter.method} at {self._address}: this release does not know the response"
            _fail(waiter, TransportError(ErrorCode.UNSUPPORTED_VERSION, message, hint="update this service"))
        else:
            waiter.response.set_result(body[1])

    # ---- the ends of calls -------------------------------------------------------------------------------------------

    def _end_all(self, ended: Iterable[Ended[_Waiter]]) -> None:
        for waiter, was_sent in ended:
            message = f"{waiter.method} at {self._address}: {self._failure.message}"
            _fail(waiter, TransportError(self._failure.code, message, indefinite=was_sent))

    def _not_sent(
        self, method: str, reason: str, *, code: int = ErrorCode.NETWORK_EXCEPTION, hint: str = ""
    ) -> TransportError:
        message = f"{method} at {self._address} was not carried out: {reason}"
        return TransportError(code, message, hint=hint, indefinite=False)


def _fail(waiter: _Waiter, error: TransportError) -> None:
    if not waiter.response.done():
        waiter.response.set_exception(error)
