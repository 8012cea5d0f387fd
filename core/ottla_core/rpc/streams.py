"""A framed stream carries many calls over one gRPC stream, and responds to them in any order.

A unary call per fetch would cost gRPC's setup each time, and would lose the order in which a client sent. So fetches
have a stream, each of whose frames is one call with a correlation id and a timeout.

*Order.* Every frame runs as its own task, and the one reader creates the tasks in arrival order. asyncio starts tasks
in the order of their creation. So whatever a method does before its first await happens in the order of the frames
(I2). Responses need no order, because a fetch that waits for records must not delay the responses behind it.

*Bounds.* The stream is not read while its frames, or those of all streams of the method, hold too much (I13, module
`budget`). TCP then slows the client down. A client that does not take its responses would hold that memory for ever, so
its connection is cut after `WRITE_LIMIT_S`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.budget import FrameInFlight, MethodBudget, StreamBudget
from ottla_core.rpc.connection_shutdown import shut_down_connection
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.frames import frame_types
from ottla_core.rpc.status import MAX_RESPONSE_BYTES, log_bug
from ottla_proto.contracts import Method

DEFAULT_TIMEOUT_S: Final = 30.0
MAX_OPEN_STREAMS: Final = 5_000
"""The most streams of one method. Even an idle stream costs memory, and each may exceed the budget by one frame."""
WRITE_LIMIT_S: Final = 30.0
"""How long a client may take to read one response: Kafka's request.timeout.ms, after which it has given up."""
# gRPC notices a connection that was shut down within this time, and cancels `serve`.
_SHUT_DOWN_LIMIT_S: Final = 5.0

_log = logging.getLogger(__name__)


class Called(Protocol):
    """The part of an endpoint (`server.Endpoint`) that a stream needs."""

    @property
    def method(self) -> Method[Any, Any]: ...
    def call(self, request: Message, context: RequestContext) -> Coroutine[Any, Any, Message]: ...
    def failed(self, error: OttlaError) -> Message: ...


class EndStreamError(Exception):
    """The only possible response is to end the stream."""


def is_cancelled() -> bool:
    """Return whether the running task itself was cancelled, because its client has given up the call, or has gone."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


class Streams:
    """The streams of one method on one server. Their number and the memory that they hold together are bounded."""

    def __init__(self, endpoint: Called, draining: asyncio.Event) -> None:
        self.open = 0
        self.budget = MethodBudget()
        self._endpoint = endpoint
        self._draining = draining

    async def serve(self, grpc_context: Any, context: RequestContext) -> None:
        """Serve until the client ends the stream or goes, or until `draining` is set. In this case open frames get
        their responses first."""
        if self.open >= MAX_OPEN_STREAMS:
            message = f"{self.open} streams are open for {self._endpoint.method.name}, and this server takes no more"
            await grpc_context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, message)
        self.open += 1
        try:
            await _ServedStream(self._endpoint, grpc_context, context, self._draining, self.budget).serve()
        finally:
            self.open -= 1


class _ServedStream:
    def __init__(
        self,
        endpoint: Called,
        grpc_context: Any,
        context: RequestContext,
        draining: asyncio.Event,
        budget: MethodBudget,
    ) -> None:
        self._endpoint = endpoint
        self._grpc = grpc_context
        self._context = context
        self._draining = draining
        self._types = frame_types(endpoint.method)
        self._budget = StreamBudget(budget)
        self._tasks: dict[asyncio.Task[None], None] = {}
        # gRPC takes one write at a time, and the status that ends a stream counts as one.
        self._writing = asyncio.Lock()
        self._ended: asyncio.Future[EndStreamError] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        reading = asyncio.create_task(self._read())
        drained = asyncio.create_task(self._draining.wait())
        try:
            ends: set[asyncio.Future[Any]] = {reading, drained, self._ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            # `cancel` returns False if the reading has ended by itself. `result` then raises what ended it, such as a
            # frame that is no message; otherwise the client has closed its side, and still waits for the responses.
            if not reading.cancel():
                reading.result()
            # Frames that were accepted get their responses before the stream ends.
            await self._until_responded()
            if self._ended.done():
                await self._abort(grpc.StatusCode.ABORTED, str(self._ended.result()))
            if self._draining.is_set():
                await self._abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down; try another server")
        except DecodeError:
            await self._abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is not a {self._endpoint.method.name} frame")
        finally:
            # The client has gone, or has every response. Requests that still wait, such as a parked fetch, end here.
            # Otherwise each client that left would keep its tasks until they time out.
            reading.cancel()
            drained.cancel()
            for task in self._tasks:
                task.cancel()
            # A fetch session belongs to its stream. Without this, the sessions of clients that have gone would fill the
            # memory.
            self._context.stream.begin(None)

    async def _read(self) -> None:
        read: Callable[[], Awaitable[Any]] = self._grpc.read
        while True:
            # The budget is asked before the read, because what gRPC has read is in memory already.
            await self._budget.until_room()
            data = await read()
            # A frame that arrives during a drain is not started: the client sends it again elsewhere.
            if data is grpc.aio.EOF or self._draining.is_set():
                return
            frame = self._types.request.FromString(data)
            in_flight = self._budget.take(len(data))
            task = asyncio.create_task(self._respond(frame, in_flight))
            self._tasks[task] = None
            # The bytes are given back in a callback and not by the task itself: a task that is cancelled before it
            # starts never runs a line of its own, and its bytes would count for ever.
            task.add_done_callback(partial(self._on_over, in_flight))
            # An idle stream would otherwise hold its last frame until the next one arrives.
            del data, frame

    async def _until_responded(self) -> None:
        """Wait until no frame is open, or one has ended the stream."""
        ends: set[asyncio.Future[Any]] = {asyncio.gather(*self._tasks, return_exceptions=True), self._ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)

    async def _abort(self, code: Any, message: str) -> None:
        async with self._writing:
            await self._grpc.abort(code, message)

    # ---- one frame ---------------------------------------------------------------------------------------------------

    async def _respond(self, frame: Any, in_flight: FrameInFlight) -> None:
        try:
            body = await self._called(self._endpoint.call(frame.body, self._context), frame.timeout_ms)
            response = self._sendable(frame.correlation_id, body)
            # The response counts until the client has taken it, or slow readers would take unbounded memory.
            in_flight.grow(len(response))
            await self._write(response)
        except EndStreamError as end:
            self._end(end)
        # This is a bug outside the method. Without an end of the stream the client would wait for a response that never
        # comes.
        except Exception as error:
            self._end(EndStreamError(log_bug(self._endpoint.method.name, self._context.request_id, error)))

    def _sendable(self, correlation_id: int, body: Message) -> bytes:
        """Return the frame of `body`, or of an error if `body` is too large to be sent, or is no response.

        gRPC would end the stream at a frame above its limit, and with it all other calls of the stream (I34).
        """
        try:
            response = self._frame(correlation_id, body)
        except Exception as error:
            return self._frame(correlation_id, self._failed_by_bug(error))
        if len(response) <= MAX_RESPONSE_BYTES:
            return response
        message = f"the response of {len(response)} bytes is larger than the limit of {MAX_RESPONSE_BYTES}"
        too_large = OttlaError(ErrorCode.MESSAGE_TOO_LARGE, message, hint="request less data at a time")
        return self._frame(correlation_id, self._endpoint.failed(too_large))

    def _frame(self, correlation_id: int, body: Message) -> bytes:
        frame: bytes = self._types.response(correlation_id=correlation_id, body=body).SerializeToString()
        return frame

    def _failed_by_bug(self, error: BaseException) -> Message:
        message = log_bug(self._endpoint.method.name, self._context.request_id, error)
        return self._endpoint.failed(OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, message))

    def _on_over(self, in_flight: FrameInFlight, task: asyncio.Task[None]) -> None:
        """Give the frame's bytes back. A callback calls this when the task is done, or cancelled before it started."""
        self._tasks.pop(task, None)
        in_flight.end()

    def _end(self, reason: EndStreamError) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    async def _called(self, call: Coroutine[Any, Any, Message], timeout_ms: int) -> Message:
        timeout_s = timeout_ms / 1000 if timeout_ms else DEFAULT_TIMEOUT_S
        try:
            # The deadline ends the wait and not what the method has done: a record that was appended stays appended.
            async with asyncio.timeout(timeout_s):
                return await call
        except TimeoutError:
            message = f"{self._endpoint.method.name} was not done within {timeout_s:g} s; it may still be done later"
            return self._endpoint.failed(OttlaError(ErrorCode.REQUEST_TIMED_OUT, message))
        except EndStreamError:
            raise
        except asyncio.CancelledError as cancelled:
            if is_cancelled():
                raise
            return self._failed_by_bug(cancelled)  # the method has awaited something that was cancelled
        except Exception as error:
            return self._failed_by_bug(error)

    async def _write(self, response: bytes) -> None:
        async with self._writing:
            try:
                async with asyncio.timeout(WRITE_LIMIT_S):
                    await self._grpc.write(response)
            except TimeoutError:
                # gRPC can't cancel a write that its client does not take, so the connection itself is cut.
                await self._shut_down()
            except grpc.aio.BaseError:
                pass  # the client has gone, of which gRPC tells `serve`

    async def _shut_down(self) -> None:
        """End a stream whose client does not take its responses: gRPC notices the closed connection and cancels
        `serve`, and with it this frame."""
        reason = f"{self._endpoint.method.name}: {self._grpc.peer()} has not read a response within {WRITE_LIMIT_S:g} s"
        _log.warning("%s; closing its connection", reason)
        # It looks at every open file of the process, which takes long in a broker with thousands of segments.
        await asyncio.to_thread(shut_down_connection, self._grpc.peer())
        await asyncio.sleep(_SHUT_DOWN_LIMIT_S)
        raise EndStreamError(reason)
