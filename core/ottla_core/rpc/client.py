"""Calling a contract from threads: the sync side, which also works under gevent (no event loop in here).

A `Peer` is one address. Unary calls need a deadline. A framed stream is one long-lived call whose frames are answered
in any order. When it breaks, it names the open frames, and only those, as failed: *indefinitely*, because the other
side may have carried them out.
"""

from __future__ import annotations

import atexit
import itertools
import logging
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Lock, Thread, current_thread
from typing import Any, Final, Generic, Protocol, TypeVar
from weakref import WeakSet

import grpc
from google.protobuf.message import Message

from ottla_core.errors import ErrorCode
from ottla_core.forks import in_children
from ottla_core.rpc.context import client_metadata
from ottla_core.rpc.frames import FrameTypes, frame_types
from ottla_core.rpc.gevent_room import Room
from ottla_core.rpc.status import CHANNEL_OPTIONS, SHARED_CHANNEL_OPTIONS, TransportError, raise_error, transport_error
from ottla_proto.common_pb2 import Error
from ottla_proto.contracts import Method

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class HasError(Protocol):
    @property
    def error(self) -> Error: ...


_log = logging.getLogger(__name__)

_END_LIMIT_S: Final = 5.0
_streams: WeakSet[FrameStream[Any, Any]] = WeakSet()


# A parent's streams are unusable in its child, where no thread reads them. So nothing has to be ended there.
in_children(_streams.clear)


@atexit.register
def _close_streams() -> None:
    """Close streams that were not closed, before the interpreter ends."""
    for stream in list(_streams):
        stream.close()


class Peer:
    """One address. It connects at the first use, and again by itself when a connection was lost.

    Unary calls of all peers of the process share a connection to the address, because a process may have thousands of
    members of groups, each with its heartbeats. The streams of a peer have one of their own, so that records keep no
    call waiting.
    """

    def __init__(self, address: str, *, client_id: str = "") -> None:
        self.address: Final = address
        self._metadata: Final = client_metadata(address, client_id)
        self._shared: Final[Any] = grpc.insecure_channel(address, options=SHARED_CHANNEL_OPTIONS)
        self._streaming: Final[Any] = grpc.insecure_channel(address, options=CHANNEL_OPTIONS)
        self._calls: Final[dict[str, Any]] = {}

    def call(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Return the response. Raises TransportError, or the OttlaError that the response carries."""
        response = self.ask(method, request, timeout=timeout)
        raise_error(response.error)  # type: ignore[attr-defined]  # every response has one: tests/architecture
        return response

    def ask(self, method: Method[Request, Response], request: Request, *, timeout: float) -> Response:
        """Return the response as it is, with the error that it may carry. Raises TransportError."""
        call = self._calls.get(method.path)
        if call is None:
            call = self._shared.unary_unary(
                method.path,
                request_serializer=method.request.SerializeToString,
                response_deserializer=method.response.FromString,
            )
            self._calls[method.path] = call
        try:
            response: Response = call(request, timeout=timeout, metadata=self._metadata)
        except grpc.RpcError as error:
            raise transport_error(error, self.address, method.name) from None
        except ValueError:  # gRPC raises this for a call on a channel that another thread has just closed
            message = f"{method.name} at {self.address}: the connection was closed"
            raise TransportError(ErrorCode.NETWORK_EXCEPTION, message) from None
        return response

    def open_stream(
        self,
        method: Method[Request, Response],
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[TransportError, list[int]], None],
    ) -> FrameStream[Request, Response]:
        """Open a stream. Both callbacks run on the stream's own reader thread. `on_broken` is called once, as the
        last."""
        return FrameStream(self._streaming, self.address, method, self._metadata, on_response, on_broken)

    def close(self) -> None:
        self._shared.close()
        self._streaming.close()


class FrameStream(Generic[Request, Response]):
    """One stream of frames. `send` never blocks, and the caller bounds what is in flight."""

    def __init__(
        self,
        channel: Any,
        address: str,
        method: Method[Request, Response],
        metadata: tuple[tuple[str, str], ...],
        on_response: Callable[[int, Response], None],
        on_broken: Callable[[TransportError, list[int]], None],
    ) -> None:
        self._method = method
        self._address = address
        self._types: FrameTypes = frame_types(method)
        self._on_response = on_response
        self._on_broken = on_broken
        self._ids: Iterator[int] = itertools.count(1)
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._open: dict[int, None] = {}
        self._broken: TransportError | None = None
        self._lock = Lock()
        self._room = Room()
        self._call: Any | None = channel.stream_stream(
            method.path,
            request_serializer=None,  # serialized in `send`: a frame in flight is held once, as bytes
            response_deserializer=self._types.response.FromString,
        )(iter(self._outbox.get, None), metadata=metadata)
        self._reader = Thread(target=self._read, name=f"ottla-{method.name.lower()}-{address}", daemon=True)
        self._reader.start()
        _streams.add(self)

    def send(self, body: Request, *, timeout_ms: int, answered: bool = True) -> int:
        """Send a frame, and return its correlation id. `answered=False` is for acks=0, which has no response.

        Raises TransportError if the stream is broken already. Then the frame was not sent.
        """
        with self._lock:
            if self._broken is not None:
                raise TransportError(self._broken.code, self._broken.message)
            correlation_id = next(self._ids)
            if answered:
                self._open[correlation_id] = None
            frame = self._types.request(correlation_id=correlation_id, timeout_ms=timeout_ms, body=body)
            self._outbox.put(frame.SerializeToString())
            return correlation_id

    def close(self, *, timeout: float = 0.0) -> None:
        """End the stream. Frames that are still open are reported to `on_broken`.

        With a timeout, in seconds, the other side may first take what was sent and answer it. This is the only way to
        know that frames without a response have left this process. A callback must not call it then.
        """
        self._outbox.put(None)
        if timeout > 0:
            self._reader.join(timeout)
        if (call := self._call) is not None:
            call.cancel()
        if self._reader is not current_thread():
            self._reader.join(_END_LIMIT_S)

    def _read(self) -> None:
        call = self._call
        try:
            for frame in call:  # type: ignore[union-attr]  # set before the thread was started
                self._open.pop(frame.correlation_id, None)
                self._on_response(frame.correlation_id, frame.body)
            message = f"{self._method.name} at {self._address}: the other side ended the stream"
            error = TransportError(ErrorCode.NETWORK_EXCEPTION, message)
        except grpc.RpcError as failure:
            error = transport_error(failure, self._address, self._method.name)
            failure.__traceback__ = None  # the exception is the call itself, which would hold itself through this frame
        except BaseException as failure:  # a callback has raised it: senders must learn that nothing reads any more
            _log.exception("%s at %s: handling a response failed", self._method.name, self._address)
            error = TransportError(
                ErrorCode.UNKNOWN_SERVER_ERROR, f"{self._method.name} at {self._address}: {failure!r}"
            )
            call.cancel()  # type: ignore[union-attr]  # set by then
        # The call ends here, with its thread. If it were left to the interpreter's end, it would deadlock there: its
        # `__del__` waits for a lock that a thread of gRPC's, stopped in the middle, never gives back.
        self._call = call = None
        with self._lock:
            self._broken = error
            left = list(self._open)
            self._open.clear()
        self._outbox.put(None)  # this ends the thread with which gRPC reads the requests
        self._room.give_back()
        self._on_broken(error, left)
