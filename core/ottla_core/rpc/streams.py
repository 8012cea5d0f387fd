"""Serving a framed stream: many calls over one gRPC stream, answered in any order.

Every frame runs as its own task, started in arrival order: whatever a method does before its first await happens in
the order of the frames, which is how produce keeps a partition's order (docs/invariants.md). Reading stops where the
stream or all streams of the method hold too much (`budget`), and a client that does not take its answers is cut off.
A frame that the contract calls silent is never answered: where it fails, the stream ends (rule 66).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
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
"""For one method. Even an idle stream costs memory, and each may exceed the budget by one frame."""
WRITE_LIMIT_S: Final = 30.0
"""How long a client may take to read one response: Kafka's request.timeout.ms, after which it has given up."""
_SHUT_DOWN_LIMIT_S: Final = 5.0

_log = logging.getLogger(__name__)


class Called(Protocol):
    """What a stream needs of an endpoint (server.Endpoint)."""

    @property
    def method(self) -> Method[Any, Any]: ...
    def call(self, request: Message, context: RequestContext) -> Coroutine[Any, Any, Message | None]: ...
    def failed(self, error: OttlaError) -> Message: ...


class EndStreamError(Exception):
    """A method raises it where the only possible answer is to end the stream."""


class Streams:
    """The streams of one method on one server: their number is bounded, and what they hold together."""

    def __init__(self, endpoint: Called, draining: asyncio.Event) -> None:
        self.open = 0
        self.budget = MethodBudget()
        self._endpoint = endpoint
        self._draining = draining

    async def serve(self, grpc_context: Any, context: RequestContext) -> None:
        """Serve until the client ends the stream or goes, or until `draining`: then open frames are answered first."""
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
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()  # gRPC takes one write at a time, its status included
        self._ended: asyncio.Future[EndStreamError] = asyncio.get_running_loop().create_future()

    async def serve(self) -> None:
        reading = asyncio.create_task(self._read())
        drained = asyncio.create_task(self._draining.wait())
        try:
            ends: set[asyncio.Future[Any]] = {reading, drained, self._ended}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            if not reading.cancel():
                reading.result()
            await self._until_responded()
            if self._ended.done():
                await self._abort(grpc.StatusCode.ABORTED, str(self._ended.result()))
            if self._draining.is_set():
                await self._abort(grpc.StatusCode.UNAVAILABLE, "the server is shutting down; try another server")
        except DecodeError:
            await self._abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is not a {self._endpoint.method.name} frame")
        finally:
            # The client has gone, or everything is answered: requests that still wait end here.
            reading.cancel()
            drained.cancel()
            for task in self._tasks:
                task.cancel()
            self._context.stream.begin(None)

    async def _read(self) -> None:
        read: Callable[[], Awaitable[Any]] = self._grpc.read
        while True:
            await self._budget.until_room()
            data = await read()
            if data is grpc.aio.EOF or self._draining.is_set():
                return
            frame = self._types.request.FromString(data)
            in_flight = self._budget.take(len(data))
            task = asyncio.create_task(self._respond(frame, in_flight))
            self._tasks.add(task)
            task.add_done_callback(partial(self._on_over, in_flight))
            del data, frame  # or they stay until the next one is there

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
            correlation_id, timeout_ms, silent = frame.correlation_id, frame.timeout_ms, self._is_silent(frame.body)
            call = self._endpoint.call(frame.body, replace(self._context, in_flight=in_flight))
            del frame  # the method alone has it now, and may let it go
            body = await self._called(call, timeout_ms)
            if silent:
                self._check_silence(body)
            elif body is not None:
                response = self._sendable(correlation_id, body)
                in_flight.grow(len(response))  # until the client has taken it
                await self._write(response)
        except EndStreamError as end:
            self._end(end)
        except Exception as error:  # or the client would wait for ever
            self._end(EndStreamError(log_bug(self._endpoint.method.name, self._context.request_id, error)))

    def _sendable(self, correlation_id: int, body: Message) -> bytes:
        """Return the frame of `body`, or of an error if `body` is too large to be sent: it would end the stream, and
        all other calls with it."""
        response: bytes = self._types.response(correlation_id=correlation_id, body=body).SerializeToString()
        if len(response) <= MAX_RESPONSE_BYTES:
            return response
        message = f"the response of {len(response)} bytes is larger than the limit of {MAX_RESPONSE_BYTES}"
        failed = self._endpoint.failed(
            OttlaError(ErrorCode.MESSAGE_TOO_LARGE, message, hint="request less data at a time")
        )
        frame: bytes = self._types.response(correlation_id=correlation_id, body=failed).SerializeToString()
        return frame

    def _on_over(self, in_flight: FrameInFlight, task: asyncio.Task[None]) -> None:
        """Called when a task is done, not by the task itself: one that is cancelled before it starts runs nothing."""
        self._tasks.discard(task)
        in_flight.end()

    def _end(self, reason: EndStreamError) -> None:
        if not self._ended.done():
            self._ended.set_result(reason)

    def _is_silent(self, body: Message) -> bool:
        return bool(self._endpoint.method.silent(body))

    def _check_silence(self, body: Any) -> None:
        """Raise EndStreamError where a frame without a response has one."""
        if body is not None:
            reason = body.error.message  # every response has one: tests/architecture
            message = f"a {self._endpoint.method.name} that gets no response failed"
            raise EndStreamError(f"{message}: {reason}" if reason else message)

    async def _called(self, call: Coroutine[Any, Any, Message | None], timeout_ms: int) -> Message | None:
        timeout_s = timeout_ms / 1000 if timeout_ms else DEFAULT_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                return await call
        except TimeoutError:
            message = f"{self._endpoint.method.name} was not done within {timeout_s:g} s; it may still be done later"
            return self._endpoint.failed(OttlaError(ErrorCode.REQUEST_TIMED_OUT, message))
        except EndStreamError:
            raise
        except Exception as error:
            message = log_bug(self._endpoint.method.name, self._context.request_id, error)
            return self._endpoint.failed(OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, message))

    async def _write(self, response: bytes) -> None:
        async with self._writing:
            try:
                async with asyncio.timeout(WRITE_LIMIT_S):
                    await self._grpc.write(response)
            except TimeoutError:
                await self._shut_down()
            except grpc.aio.BaseError:
                pass  # the client has gone, of which gRPC tells `serve`

    async def _shut_down(self) -> None:
        """End a stream whose client does not take its answers: gRPC cancels `serve`, and so this frame too."""
        reason = f"{self._endpoint.method.name}: {self._grpc.peer()} has not read a response within {WRITE_LIMIT_S:g} s"
        _log.warning("%s; closing its connection", reason)
        await asyncio.to_thread(shut_down_connection, self._grpc.peer())
        await asyncio.sleep(_SHUT_DOWN_LIMIT_S)
        raise EndStreamError(reason)
