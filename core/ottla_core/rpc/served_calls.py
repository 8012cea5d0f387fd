"""Gathered calls on the server: each frame of a stream is a call of a method of the service (docs/adr/0027).

*Order.* The one reader creates a task for each frame in the order of arrival, and asyncio starts tasks in the order of
their creation. The reader awaits no task, so a slow call holds up no other.

*Bounds.* A gathered call counts like a unary one (module `calls`). One for which there is no room is refused, and the
reader reads on: a call that waits for a slow log must not hold up the heartbeat behind it. Nothing is read while many
responses wait to be written, and a client that takes none of them loses its connection.

*The end.* A server that stops reading says which call it has started last. So the client knows of every later call that
it was not carried out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.alarm import Alarm
from ottla_core.rpc.call_frames import CallFrames, body_of, join_responses
from ottla_core.rpc.calls import Calls, OpenCall, TooMuchError
from ottla_core.rpc.connection_shutdown import shut_down_connection
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.deadlines import Deadlines
from ottla_core.rpc.outgoing_calls import MESSAGE_BYTES
from ottla_core.rpc.status import MAX_RESPONSE_BYTES, log_bug
from ottla_core.rpc.streams import MAX_OPEN_STREAMS, WRITE_LIMIT_S, Called, EndStreamError, is_cancelled
from ottla_proto.common_pb2 import Frames
from ottla_proto.contracts import GatheredCalls

MAX_UNWRITTEN_BYTES: Final = 4 * 1024 * 1024
"""No message is read while this many bytes of responses wait to be written."""
_TURN: Final = 100
"""How many calls are started in one turn of the loop."""
_ENVELOPE_BYTES: Final = 64
_SHUT_DOWN_LIMIT_S: Final = 5.0

_log = logging.getLogger(__name__)


class CallStreams:
    """The streams of gathered calls on one server. `endpoints` are by the name of their body in a frame."""

    def __init__(
        self, gathered: GatheredCalls, endpoints: Mapping[str, Called], calls: Calls, draining: asyncio.Event
    ) -> None:
        self.open = 0
        self._name: Final = f"{gathered.service}.{gathered.name}"
        self._frames: Final = CallFrames(gathered)
        self._endpoints: Final = endpoints
        self._calls: Final = calls
        self._draining: Final = draining

    async def serve(self, grpc_context: Any, context: RequestContext) -> None:
        """Serve until the client ends the stream or goes, or until `draining` is set and all open calls have ended."""
        if self.open >= MAX_OPEN_STREAMS:
            message = f"{self.open} streams are open for {self._name}, and this server takes no more"
            await grpc_context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        self.open += 1
        served = _ServedCalls(
            self._name, self._frames, self._endpoints, self._calls, grpc_context, context, self._draining
        )
        try:
            await served.serve()
        finally:
            self.open -= 1


class _Started(NamedTuple):
    task: asyncio.Task[None]
    counted: OpenCall


class _Response(NamedTuple):
    frame: bytes
    counted: OpenCall | None  # None: the call was not started


class _ServedCalls:
    def __init__(
        self,
        name: str,
        frames: CallFrames,
        endpoints: Mapping[str, Called],
        calls: Calls,
        grpc_context: Any,
        context: RequestContext,
        draining: asyncio.Event,
    ) -> None:
        self._name: Final = name
        self._frames: Final = frames
        self._endpoints: Final = endpoints
        self._calls: Final = calls
        self._grpc: Final = grpc_context
        self._peer: Final[str] = grpc_context.peer()
        self._context: Final = context
        self._draining: Final = draining
        self._loop: Final = asyncio.get_running_loop()
        self._last_started = 0
        self._started: Final[dict[int, _Started]] = {}
        self._late: Final[set[int]] = set()
        self._deadlines: Final = Deadlines()
        self._alarm: Final = Alarm(self._loop, self._on_time)
        self._responses: list[_Response] = []
        self._unwritten_bytes = 0
        self._to_write: Final = asyncio.Event()
        self._room: Final = asyncio.Event()
        self._room.set()
        self._idle: Final = asyncio.Event()  # no call is open, and every response is written
        self._idle.set()
        self._reads_no_more = False
        self._is_last = False
        self._ended: Final[asyncio.Future[EndStreamError]] = self._loop.create_future()

    async def serve(self) -> None:
        reading = asyncio.create_task(self._read())
        writing = asyncio.create_task(self._write())
        drained = asyncio.create_task(self._draining.wait())
        try:
            ends: set[asyncio.Future[Any]] = {reading, writing, drained, self._ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            reading.cancel()
            self._reads_no_more = True
            self._to_write.set()
            if not self._ended.done() and not writing.done():
                await self._until_responded(writing)
            # gRPC takes one write at a time, and the status that ends a stream counts as one.
            self._is_last = True
            self._to_write.set()
            await asyncio.wait({writing})
            await self._abort(reading, writing)
        finally:
            # The client has gone, or has every response that it can get. What still waits for something ends here.
            for task in (reading, writing, drained):
                task.cancel()
            self._alarm.cancel()
            for started in self._started.values():
                started.task.cancel()
            for response in self._responses:
                _end(response)
            self._responses = []

    async def _until_responded(self, writing: asyncio.Task[None]) -> None:
        """Wait until no call is open, or nothing can be written any more."""
        idle = asyncio.create_task(self._idle.wait())
        try:
            ends: set[asyncio.Future[Any]] = {idle, writing, self._ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()

    async def _abort(self, reading: asyncio.Task[None], writing: asyncio.Task[None]) -> None:
        """End the stream with a status that says why, unless its client has ended it."""
        end = _error_of(reading) or _error_of(writing) or (self._ended.result() if self._ended.done() else None)
        if isinstance(end, DecodeError):
            await self._grpc.abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is not a message of {self._name}: {end}")
        if isinstance(end, EndStreamError):
            await self._grpc.abort(grpc.StatusCode.ABORTED, str(end))
        if end is not None:
            raise end
        if self._draining.is_set():
            message = "the server is shutting down; try another server"
            await self._grpc.abort(grpc.StatusCode.UNAVAILABLE, message)

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        read: Callable[[], Any] = self._grpc.read
        while True:
            await self._room.wait()
            data = await read()
            # A call that arrives during a drain is not started: the client makes it again elsewhere.
            if data is grpc.aio.EOF or self._draining.is_set():
                return
            message = Frames.FromString(data)
            for place, frame in enumerate(message.frames, 1):
                self._start(frame)
                if place % _TURN == 0:
                    await asyncio.sleep(0)
            for number in message.cancelled:
                if (started := self._started.get(number)) is not None:
                    started.task.cancel()
            # An idle stream would otherwise hold its last message until the next one arrives.
            del data, message
            await asyncio.sleep(0)  # calls that need no wait respond before it is decided whether there is room

    def _start(self, data: bytes) -> None:
        """Start the call of one frame, or say that it was not started. Raises DecodeError."""
        call = self._frames.call_type.FromString(data)
        number, timeout_ms = call.correlation_id, call.timeout_ms
        if number <= self._last_started:
            raise DecodeError(f"call {number} came after call {self._last_started}")
        self._last_started = number
        body = body_of(call)
        endpoint = None if body is None else self._endpoints.get(body[0])
        if body is None or endpoint is None:
            message = f"this server does not know the method of a call by {self._name}"
            return self._refuse(number, ErrorCode.UNSUPPORTED_VERSION, message, "update the server")
        if not timeout_ms:
            message = f"a call by {self._name} has no timeout_ms"
            return self._refuse(number, ErrorCode.INVALID_REQUEST, message, "set one")
        try:
            counted = self._calls.begin(data, self._peer)
        except TooMuchError as error:
            return self._refuse(number, ErrorCode.NETWORK_EXCEPTION, str(error), "try again later")
        task = self._loop.create_task(self._respond(number, body, endpoint, timeout_ms))
        self._started[number] = _Started(task, counted)
        self._idle.clear()
        # A callback does this and not the task itself: a task that is cancelled before it starts never runs a line of
        # its own, and its call would count for ever.
        task.add_done_callback(lambda _: self._on_over(number))
        self._deadlines.set(number, self._loop.time() + timeout_ms / 1000)
        self._alarm.set(self._deadlines.next_at)
        return None

    def _refuse(self, number: int, code: ErrorCode, message: str, hint: str) -> None:
        self._queue(_Response(self._frames.not_started(number, OttlaError(code, message, hint=hint)), None))

    # ---- one call ----------------------------------------------------------------------------------------------------

    async def _respond(self, number: int, body: tuple[str, Message], endpoint: Called, timeout_ms: int) -> None:
        field, request = body
        del body
        calling = endpoint.call(request, self._context)
        del request  # the method alone holds the request now, and may drop it while it waits
        try:
            response = await self._called(number, calling, endpoint, timeout_ms)
            self._take(number, self._sendable(number, field, response, endpoint))
        except EndStreamError as end:
            self._end(end)
        # This is a bug outside the method. The client must not wait for a response that never comes.
        except Exception as error:
            self._end(EndStreamError(log_bug(endpoint.method.name, self._context.request_id, error)))

    async def _called(
        self, number: int, calling: Coroutine[Any, Any, Message], endpoint: Called, timeout_ms: int
    ) -> Message:
        try:
            response = await calling
        except asyncio.CancelledError as cancelled:
            if number in self._late:
                # The deadline ends the wait and not what the method has done.
                message = f"{endpoint.method.name} was not done within {timeout_ms / 1000:g} s; it may be done later"
                return endpoint.failed(OttlaError(ErrorCode.REQUEST_TIMED_OUT, message))
            if is_cancelled():
                raise
            return self._failed_by_bug(endpoint, cancelled)  # the method has awaited something that was cancelled
        except EndStreamError:
            raise
        except Exception as error:
            return self._failed_by_bug(endpoint, error)
        return response

    def _failed_by_bug(self, endpoint: Called, error: BaseException) -> Message:
        message = log_bug(endpoint.method.name, self._context.request_id, error)
        return endpoint.failed(OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, message))

    def _sendable(self, number: int, field: str, response: Message, endpoint: Called) -> bytes:
        """Return the frame of the response, or of an error if it is too large, or is no response.

        gRPC would end the stream at a message above its limit, and with it all other calls (I34).
        """
        try:
            frame = self._frames.response(number, field, response)
        except Exception as error:
            return self._frames.response(number, field, self._failed_by_bug(endpoint, error))
        if len(frame) <= MAX_RESPONSE_BYTES - _ENVELOPE_BYTES:
            return frame
        message = f"the response of {len(frame)} bytes is larger than the limit of {MAX_RESPONSE_BYTES}"
        too_large = OttlaError(ErrorCode.MESSAGE_TOO_LARGE, message, hint="request less data at a time")
        return self._frames.response(number, field, endpoint.failed(too_large))

    def _take(self, number: int, frame: bytes) -> None:
        """Queue the response. The call counts until it is written, because slow readers would otherwise take unbounded
        memory."""
        counted = self._started.pop(number).counted
        counted.holding(frame)
        self._queue(_Response(frame, counted))

    def _on_over(self, number: int) -> None:
        self._deadlines.drop(number)
        self._late.discard(number)
        if (started := self._started.pop(number, None)) is not None:  # it ended without a response
            started.counted.end()
        self._look_if_idle()

    def _on_time(self) -> None:
        while (number := self._deadlines.pop_passed(self._loop.time())) is not None:
            if (started := self._started.get(number)) is not None:
                self._late.add(number)
                started.task.cancel()
        self._alarm.set(self._deadlines.next_at)

    # ---- writing -----------------------------------------------------------------------------------------------------

    def _queue(self, response: _Response) -> None:
        self._responses.append(response)
        self._unwritten_bytes += len(response.frame)
        self._idle.clear()
        self._to_write.set()
        if self._unwritten_bytes >= MAX_UNWRITTEN_BYTES:
            self._room.clear()

    async def _write(self) -> None:
        """Write responses, as many in a message as there are when gRPC is free. Ends if `_is_last` and none is left."""
        said_last = False
        while not self._is_last or self._responses:
            await self._to_write.wait()
            self._to_write.clear()
            while self._responses or (self._reads_no_more and not said_last):
                message = self._next_message()
                said_last = self._reads_no_more
                frames = [response.frame for response in message]
                try:
                    await self._hand_over(join_responses(frames, self._last_started if said_last else None))
                finally:
                    for response in message:
                        _end(response)
                self._unwritten_bytes -= sum(map(len, frames))
                if self._unwritten_bytes < MAX_UNWRITTEN_BYTES:
                    self._room.set()
            self._look_if_idle()

    def _next_message(self) -> list[_Response]:
        message_bytes = 0
        for place, response in enumerate(self._responses):
            message_bytes += len(response.frame)
            if place and message_bytes > MESSAGE_BYTES:
                message, self._responses = self._responses[:place], self._responses[place:]
                return message
        message, self._responses = self._responses, []
        return message

    async def _hand_over(self, message: bytes) -> None:
        try:
            async with asyncio.timeout(WRITE_LIMIT_S):
                await self._grpc.write(message)
        except TimeoutError:
            # gRPC can't cancel a write that its client does not take, so the connection itself is cut.
            reason = f"{self._name}: {self._peer} has not read a message within {WRITE_LIMIT_S:g} s"
            _log.warning("%s; closing its connection", reason)
            await asyncio.to_thread(shut_down_connection, self._peer)
            await asyncio.sleep(_SHUT_DOWN_LIMIT_S)  # gRPC notices during this, and cancels `serve`
            raise EndStreamError(reason) from None
        except grpc.aio.BaseError:
            raise EndStreamError(f"{self._name}: {self._peer} has gone") from None

    def _look_if_idle(self) -> None:
        if not self._started and not self._unwritten_bytes:
            self._idle.set()

    def _end(self, reason: EndStreamError) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)


def _end(response: _Response) -> None:
    if response.counted is not None:
        response.counted.end()


def _error_of(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None
