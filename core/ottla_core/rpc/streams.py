"""Serving a framed stream: many calls over one gRPC stream, answered in any order.

Every frame runs as its own task, started in arrival order: whatever a method does before its first await happens in
the order of the frames, which is how produce keeps a partition's order (docs/invariants.md). Reading stops at 32
frames or 32 MiB in flight; a client that does not read its answers is thereby bounded too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from ottla_core.errors import ErrorCode, OttlaError
from ottla_core.rpc.context import RequestContext
from ottla_core.rpc.frames import frame_types
from ottla_core.rpc.status import log_bug
from ottla_proto.contracts import Method

MAX_FRAMES_IN_FLIGHT: Final = 32
MAX_BYTES_IN_FLIGHT: Final = 32 * 1024 * 1024
DEFAULT_TIMEOUT_S: Final = 30.0


class Called(Protocol):
    """What a stream needs of an endpoint (server.Endpoint)."""

    @property
    def method(self) -> Method[Any, Any]: ...
    async def call(self, request: Message, context: RequestContext) -> Message | None: ...
    def failed(self, error: OttlaError) -> Message: ...


class EndStreamError(Exception):
    """A method raises it where the only possible answer is to end the stream: a failed acks=0 produce (rule 66)."""


class Budget:
    """Frames and bytes in flight of one stream. One reader waits, many tasks give back."""

    def __init__(self) -> None:
        self.frames = 0
        self.bytes = 0
        self._room = asyncio.Event()
        self._room.set()

    async def until_room(self) -> None:
        await self._room.wait()

    def take(self, size_bytes: int) -> None:
        self.frames += 1
        self.bytes += size_bytes
        if self.frames >= MAX_FRAMES_IN_FLIGHT or self.bytes >= MAX_BYTES_IN_FLIGHT:
            self._room.clear()

    def grow(self, size_bytes: int) -> None:
        """A frame in flight takes more: its answer is there and not yet written."""
        self.bytes += size_bytes
        if self.bytes >= MAX_BYTES_IN_FLIGHT:
            self._room.clear()

    def give_back(self, size_bytes: int) -> None:
        self.frames -= 1
        self.bytes -= size_bytes
        if self.frames < MAX_FRAMES_IN_FLIGHT and self.bytes < MAX_BYTES_IN_FLIGHT:
            self._room.set()


async def serve_frames(endpoint: Called, grpc_context: Any, context: RequestContext, draining: asyncio.Event) -> None:
    """Serve until the client ends the stream or goes, or until `draining`: then open frames are answered first."""
    stream = _ServedStream(endpoint, grpc_context, context)
    reading = asyncio.create_task(stream.read())
    drained = asyncio.create_task(draining.wait())
    try:
        ends: set[asyncio.Future[Any]] = {reading, drained, stream.ended}
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if stream.ended.done():
            await grpc_context.abort(grpc.StatusCode.ABORTED, str(stream.ended.result()))
        if not reading.done():
            reading.cancel()
            await stream.until_answered()
            await grpc_context.abort(grpc.StatusCode.UNAVAILABLE, "the server is going down; ask again elsewhere")
        reading.result()
        await stream.until_answered()
        if stream.ended.done():  # by the last frame, after the client had said that it was the last
            await grpc_context.abort(grpc.StatusCode.ABORTED, str(stream.ended.result()))
    except DecodeError:
        await grpc_context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"this is no {endpoint.method.name} frame")
    finally:
        # The client has gone, or everything is answered: what is parked for it ends here.
        reading.cancel()
        drained.cancel()
        stream.cancel()


class _ServedStream:
    def __init__(self, endpoint: Called, grpc_context: Any, context: RequestContext) -> None:
        self._endpoint = endpoint
        self._grpc = grpc_context
        self._context = context
        self._types = frame_types(endpoint.method)
        self._budget = Budget()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()  # gRPC takes one write at a time
        self.ended: asyncio.Future[EndStreamError] = asyncio.get_running_loop().create_future()

    async def read(self) -> None:
        read: Callable[[], Awaitable[Any]] = self._grpc.read
        while True:
            await self._budget.until_room()
            data = await read()
            if data is grpc.aio.EOF:
                return
            frame = self._types.request.FromString(data)
            self._budget.take(len(data))
            task = asyncio.create_task(self._answer(frame, len(data)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def until_answered(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _answer(self, frame: Any, size_bytes: int) -> None:
        try:
            body = await self._body(frame)
            if body is not None:
                reply = self._types.reply(correlation_id=frame.correlation_id, body=body).SerializeToString()
                self._budget.grow(len(reply))  # until the client has taken it
                size_bytes += len(reply)
                async with self._writing:
                    await self._grpc.write(reply)
        except EndStreamError as end:
            if not self.ended.done():
                self.ended.set_result(end)
        finally:
            self._budget.give_back(size_bytes)

    async def _body(self, frame: Any) -> Message | None:
        timeout_s = frame.timeout_ms / 1000 if frame.timeout_ms else DEFAULT_TIMEOUT_S
        try:
            async with asyncio.timeout(timeout_s):
                return await self._endpoint.call(frame.body, self._context)
        except TimeoutError:
            words = f"{self._endpoint.method.name} was not done within {timeout_s:g} s; it may be done later"
            return self._endpoint.failed(OttlaError(ErrorCode.REQUEST_TIMED_OUT, words))
        except EndStreamError:
            raise
        except Exception as error:
            words = log_bug(self._endpoint.method.name, self._context.request_id, error)
            return self._endpoint.failed(OttlaError(ErrorCode.UNKNOWN_SERVER_ERROR, words))
