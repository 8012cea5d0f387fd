"""Calls between simulated processes, in the place of gRPC's channels and servers (`ottla_core.rpc.transport`)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import grpc
import grpc.aio
from tests.world.network import Network, Pipe

_NO_METADATA: Final = grpc.aio.Metadata()
_INTERNAL: Final = (grpc.StatusCode.INTERNAL, "Internal error from Core")
"""A stream gives this status if it did not send a message that was too large."""


def _error(code: Any, details: str) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(code, _NO_METADATA, _NO_METADATA, details=details)


class Limits(NamedTuple):
    """These are the largest messages that one end of a call sends and takes."""

    send_bytes: int
    receive_bytes: int

    @classmethod
    def of(cls, options: Sequence[tuple[str, Any]]) -> Limits:
        """Return the limits that a channel or a server has with these options of gRPC."""
        found = dict(options)
        return cls(found["grpc.max_send_message_length"], found["grpc.max_receive_message_length"])


def _too_large(done: str, size_bytes: int, limit_bytes: int) -> tuple[Any, str]:
    """Return the status of a call that a message has ended, in gRPC's words."""
    return grpc.StatusCode.RESOURCE_EXHAUSTED, f"{done} message larger than max ({size_bytes} vs. {limit_bytes})"


class _Call:
    """One call, as both ends see it. A unary call is a stream of one message each way."""

    def __init__(
        self,
        network: Network,
        client: Any,
        server: Any,
        metadata: Any,
        deadline_s: float | None,
        *,
        client_limits: Limits,
        server_limits: Limits,
    ) -> None:
        self.network: Final = network
        self.client: Final = client
        self.metadata: Final = metadata
        self.ends_at: Final = None if deadline_s is None else client.world.now + deadline_s
        self.peer: Final = f"ipv4:{client.name}:1"
        self.to_server: Final = Pipe(network, client, server)
        self.to_client: Final = Pipe(network, server, client)
        self.requests: Final = _Messages(server)
        self.responses: Final = _Messages(client)
        self._client_limits: Final = client_limits
        self._server_limits: Final = server_limits
        self.status: tuple[Any, str] | None = None
        """How the client saw it end."""
        self.task: asyncio.Task[None] | None = None
        client.on_end.append(self.cancel)
        server.on_end.append(self._on_server_end)

    # ---- messages --------------------------------------------------------------------------------------------------

    def send_to_server(self, message: Any) -> bool:
        """Send a message, and return whether the client's limit allows it."""
        if len(message) > self._client_limits.send_bytes:
            self.end_client(*_too_large("CLIENT: Sent", len(message), self._client_limits.send_bytes))
            self.cancel()
            return False
        self.to_server.send(lambda: self._arrive_at_server(message))
        return True

    def _arrive_at_server(self, message: Any) -> None:
        if len(message) > self._server_limits.receive_bytes:
            self.finish(*_too_large("SERVER: Received", len(message), self._server_limits.receive_bytes))
            self.requests.end()
        else:
            self.requests.put(message)

    def send_to_client(self, message: Any) -> None:
        """Send a message. Raises InternalError, as gRPC does, if the server's limit does not allow it."""
        if len(message) > self._server_limits.send_bytes:
            self.finish(*_too_large("SERVER: Sent", len(message), self._server_limits.send_bytes))
            self._cancel_server()
            raise grpc.aio.InternalError("the message can't be sent")
        self.to_client.send(lambda: self._arrive_at_client(message))

    def _arrive_at_client(self, message: Any) -> None:
        if len(message) > self._client_limits.receive_bytes:
            self.end_client(*_too_large("CLIENT: Received", len(message), self._client_limits.receive_bytes))
            self.cancel()
        else:
            self.responses.put(message)

    # ---- its end ---------------------------------------------------------------------------------------------------

    def finish(self, code: Any, details: str) -> None:
        """Tell the client how the call has ended, after all responses."""
        self.to_client.send(lambda: self.end_client(code, details))

    def end_client(self, code: Any, details: str) -> None:
        if self.status is None:
            self.status = (code, details)
            self.responses.end()

    def cancel(self) -> None:
        """Tell the server that the client waits no longer."""
        self.to_server.send(self._cancel_server)

    def _cancel_server(self) -> None:
        self.requests.end()
        if self.task is not None:
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)

    def _on_server_end(self) -> None:
        self.to_client.send(lambda: self.end_client(grpc.StatusCode.UNAVAILABLE, "Connection reset by peer"))


class _Messages:
    """Messages that have arrived at a process, until they are read there."""

    def __init__(self, process: Any) -> None:
        self._process: Final = process
        self._arrived: Final[deque[Any]] = deque()
        self._is_over = False
        self._waiting: asyncio.Future[None] | None = None

    def put(self, message: Any) -> None:
        self._arrived.append(message)
        self._wake()

    def end(self) -> None:
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._waiting is not None:
            self._process.loop.call_soon_threadsafe(_done, self._waiting)

    async def get(self) -> Any:
        """Return the next message, or gRPC's EOF after the last one."""
        while not self._arrived:
            if self._is_over:
                return grpc.aio.EOF
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._arrived.popleft()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


class SimulatedChannel:
    def __init__(self, network: Network, process: Any, address: str, limits: Limits) -> None:
        host, _, port = address.rpartition(":")
        self._limits: Final = limits
        self._network: Final = network
        self._process: Final = process
        self._address: Final = (host, int(port))
        self._is_closed = False
        self._open: Final[dict[_Call, None]] = {}

    def unary_unary(
        self, method: str, *, request_serializer: Any = None, response_deserializer: Any = None
    ) -> Callable[..., Any]:
        async def call(request: Any, *, timeout: float, metadata: Any = ()) -> Any:
            call: _Call | None = None
            try:
                async with asyncio.timeout(timeout):
                    call = begun = await self._begin(method, metadata, timeout)
                    data = request_serializer(request) if request_serializer else request
                    begun.send_to_server(data)
                    response = await begun.responses.get()
            except TimeoutError:
                raise _error(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded") from None
            finally:
                if call is not None:
                    self._over(call)
            if response is grpc.aio.EOF:
                assert begun.status is not None
                raise _error(*begun.status)
            return response_deserializer(response) if response_deserializer else response

        return call

    def stream_stream(
        self, method: str, *, request_serializer: Any = None, response_deserializer: Any = None
    ) -> Callable[..., Any]:
        def open_stream(*, metadata: Any = ()) -> _ClientStream:
            return _ClientStream(self, self._begin(method, metadata, None), request_serializer, response_deserializer)

        return open_stream

    async def _begin(self, method: str, metadata: Any, deadline_s: float | None) -> _Call:
        """Find the server and begin a call there. Raises AioRpcError."""
        if self._is_closed:
            raise grpc.aio.UsageError("the channel is closed")
        await asyncio.sleep(self._network.delay_s())
        await self._network.until_heard(self._process.name, self._address[0])
        server = self._network.servers.get(self._address)
        if not isinstance(server, SimulatedServer) or (
            self._network.cut_until(self._process.name, server.process.name) > self._network.world.now
        ):
            raise _error(grpc.StatusCode.UNAVAILABLE, f"{self._address} takes no connection")
        call = _Call(
            self._network,
            self._process,
            server.process,
            metadata,
            deadline_s,
            client_limits=self._limits,
            server_limits=server.limits,
        )
        self._open[call] = None
        call.to_server.send(lambda: server.on_call(method, call))
        return call

    def _over(self, call: _Call) -> None:
        if self._open.pop(call, 0) is None and call.status is None:
            call.status = (grpc.StatusCode.CANCELLED, "the client has cancelled")
            call.cancel()

    async def close(self) -> None:
        self._is_closed = True
        for call in list(self._open):
            self._over(call)
            call.responses.end()


class _ClientStream:
    """What the product uses of a `grpc.aio.StreamStreamCall`."""

    def __init__(self, channel: SimulatedChannel, began: Any, serialize: Any, deserialize: Any) -> None:
        self._channel: Final = channel
        self._began: Final = asyncio.ensure_future(began)
        self._began.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._serialize: Final = serialize
        self._deserialize: Final = deserialize
        self._status: tuple[Any, str] | None = None

    async def _call(self) -> _Call:
        try:
            call: _Call = await asyncio.shield(self._began)
        except grpc.aio.AioRpcError as error:
            self._status = (error.code(), error.details() or "")
            raise
        return call

    async def wait_for_connection(self) -> None:
        await self._call()

    async def write(self, message: Any) -> None:
        call = await self._call()
        if call.status is not None:
            raise asyncio.InvalidStateError("the call is over")
        data = self._serialize(message) if self._serialize else message
        if not call.send_to_server(data):
            raise _error(*_INTERNAL)

    async def read(self) -> Any:
        call = await self._call()
        message = await call.responses.get()
        if message is grpc.aio.EOF:
            assert call.status is not None
            self._channel._open.pop(call, None)
            if call.status[0] is not grpc.StatusCode.OK:
                raise _error(*call.status)
            return message
        return self._deserialize(message) if self._deserialize else message

    def cancel(self) -> bool:
        if self._began.done() and not self._began.cancelled() and self._began.exception() is None:
            call = self._began.result()
            self._channel._over(call)
            call.responses.end()
        else:
            self._began.cancel()
            self._status = self._status or (grpc.StatusCode.CANCELLED, "the client has cancelled")
        return True

    def done(self) -> bool:
        return self._now() is not None

    def _now(self) -> tuple[Any, str] | None:
        if self._began.done() and not self._began.cancelled() and self._began.exception() is None:
            status: tuple[Any, str] | None = self._began.result().status
            return status
        return self._status

    async def code(self) -> Any:
        status = self._now()
        return status[0] if status else None

    async def details(self) -> str:
        status = self._now()
        return status[1] if status else ""


class _AbortError(Exception):
    """The method has ended its call with a status."""


class SimulatedServer:
    def __init__(self, network: Network, process: Any, limits: Limits) -> None:
        self.process: Final = process
        self.limits: Final = limits
        self._network: Final = network
        self._handlers: Final[list[Any]] = []
        self._address = ("", 0)
        self._tasks: Final[dict[asyncio.Task[None], None]] = {}

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Any) -> None:
        self._handlers.extend(generic_rpc_handlers)

    def add_registered_method_handlers(self, *_: object) -> None:
        """Do nothing: the generic handlers have the methods."""

    def add_insecure_port(self, address: str) -> int:
        host, _, port = address.rpartition(":")
        self._address = (host, int(port) or self._network.free_port())
        if self._address in self._network.servers:
            return 0
        self._network.servers[self._address] = self
        self.process.on_end.append(self._close)
        return self._address[1]

    async def start(self) -> None:
        """Do nothing: it serves from the moment that it has its port."""

    def _close(self) -> None:
        if self._network.servers.get(self._address) is self:
            del self._network.servers[self._address]

    async def stop(self, grace: float | None) -> None:
        self._close()
        if self._tasks and grace:
            await asyncio.wait(list(self._tasks), timeout=grace)
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def on_call(self, method: str, call: _Call) -> None:
        self.process.loop.call_soon_threadsafe(self._start, method, call)

    def _start(self, method: str, call: _Call) -> None:
        details = _Details(method, call.metadata)
        handler = next(filter(None, (each.service(details) for each in self._handlers)), None)
        if handler is None:
            call.finish(grpc.StatusCode.UNIMPLEMENTED, f"{method} is not served")
            return
        task = asyncio.get_running_loop().create_task(self._serve(handler, call))
        call.task = task
        self._tasks[task] = None
        task.add_done_callback(lambda done: self._tasks.pop(done, None))

    async def _serve(self, handler: Any, call: _Call) -> None:
        context = _Context(call, handler.request_deserializer, handler.response_serializer)
        try:
            if handler.request_streaming:
                await handler.stream_stream(None, context)
            else:
                request = await context.read()
                if request is grpc.aio.EOF:
                    return
                await context.write(await handler.unary_unary(request, context))
        except (_AbortError, grpc.aio.InternalError):
            return
        except asyncio.CancelledError:
            call.finish(grpc.StatusCode.UNAVAILABLE, "the server has cancelled the call")
            raise
        except Exception as error:
            self.process.world.failures.append(f"{self.process.name}: a method raised {error!r}")
            call.finish(grpc.StatusCode.UNKNOWN, repr(error))
            return
        call.finish(grpc.StatusCode.OK, "")


class _Details:
    def __init__(self, method: str, metadata: Any) -> None:
        self.method: Final = method
        self.invocation_metadata: Final = metadata


class _Context:
    """What the product uses of a `grpc.aio.ServicerContext`."""

    def __init__(self, call: _Call, deserialize: Any, serialize: Any) -> None:
        self._call: Final = call
        self._deserialize: Final = deserialize
        self._serialize: Final = serialize

    async def read(self) -> Any:
        message = await self._call.requests.get()
        return self._deserialize(message) if self._deserialize and message is not grpc.aio.EOF else message

    async def write(self, message: Any) -> None:
        data = self._serialize(message) if self._serialize else message
        self._call.send_to_client(data)

    async def abort(self, code: Any, details: str = "") -> None:
        self._call.finish(code, details)
        raise _AbortError

    def peer(self) -> str:
        return self._call.peer

    def invocation_metadata(self) -> Any:
        return self._call.metadata

    def time_remaining(self) -> float | None:
        ends_at = self._call.ends_at
        return None if ends_at is None else max(0.0, ends_at - self._call.client.world.now)
