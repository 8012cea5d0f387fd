"""A framed stream as services use it: one frame at a time, from an event loop."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable
from typing import Any, Final, Generic, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from ottla_core.errors import ErrorCode
from ottla_core.rpc.frames import frame_types
from ottla_core.rpc.status import TransportError, raise_error, transport_error
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


def check_cancelled(address: str, action: str) -> None:
    """Raise TransportError if a call was cancelled but its caller was not: that is how gRPC reports that another task
    has closed the channel. A task that mistook it for its own cancellation would vanish without a trace."""
    task = asyncio.current_task()
    if task is not None and not task.cancelling():
        raise TransportError(ErrorCode.NETWORK_EXCEPTION, f"{action} at {address}: the connection was closed")


class AioFrameStream(Generic[Request, Response]):
    """Use `AioPeer.open_stream`. The response to a frame without a waiting caller is dropped."""

    def __init__(
        self, channel: Any, address: str, method: Method[Request, Response], metadata: tuple[tuple[str, str], ...]
    ) -> None:
        self._address: Final = address
        self._method: Final = method
        self._types: Final = frame_types(method)
        self._ids: Final = itertools.count(1)
        self._call: Final[Any] = channel.stream_stream(
            method.path,
            request_serializer=self._types.request.SerializeToString,
            response_deserializer=self._types.response.FromString,
        )(metadata=metadata)
        self._reading: asyncio.Task[Any] | None = None

    async def exchange(self, body: Request, *, timeout_ms: int, timeout: float) -> Response:
        """Return the response to `body`. Raises TransportError, or the OttlaError that the response carries."""
        return await self.response_to(await self.send(body, timeout_ms=timeout_ms), timeout=timeout)

    async def send(self, body: Request, *, timeout_ms: int) -> int:
        """Return the number to pass to `response_to`. Raises TransportError; a cancelled `send` ends the stream."""
        correlation_id = next(self._ids)
        frame = self._types.request(correlation_id=correlation_id, timeout_ms=timeout_ms, body=body)
        await self._within(timeout_ms / 1000, self._call.write(frame))
        return correlation_id

    async def response_to(self, correlation_id: int, *, timeout: float) -> Response:
        """Return the response to a frame. Raises TransportError, or the OttlaError that the response carries.

        It may be cancelled at any time: responses to earlier frames are passed over.
        """
        response: Response = await self._within(timeout, self._read_until(correlation_id))
        raise_error(response.error)  # type: ignore[attr-defined]  # every response has one: tests/architecture
        return response

    async def _within(self, timeout: float, step: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(timeout):
                return await step
        except TimeoutError:
            message = f"{self._method.name} at {self._address}: no answer within {timeout:g} s"
            raise TransportError(ErrorCode.REQUEST_TIMED_OUT, message) from None
        except grpc.RpcError as error:
            raise transport_error(error, self._address, self._method.name) from None
        except asyncio.CancelledError:
            check_cancelled(self._address, self._method.name)
            raise
        except asyncio.InvalidStateError:  # gRPC raises this for a write on a call that is over
            message = f"{self._method.name} at {self._address}: the stream is over"
            raise TransportError(ErrorCode.NETWORK_EXCEPTION, message) from None

    async def _read_until(self, correlation_id: int) -> Any:
        """Read until the response comes. The read is shielded, because a read that is cut short would end the
        stream."""
        while True:
            if self._reading is None:
                self._reading = asyncio.create_task(self._call.read())
            frame = await asyncio.shield(self._reading)
            self._reading = None
            if frame is grpc.aio.EOF:
                message = f"{self._method.name} at {self._address}: the other side ended the stream"
                raise TransportError(ErrorCode.NETWORK_EXCEPTION, message)
            if frame.correlation_id == correlation_id:
                return frame.body

    async def close(self) -> None:
        """End the stream. What waits for it on the other side ends, too."""
        self._call.cancel()
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)
