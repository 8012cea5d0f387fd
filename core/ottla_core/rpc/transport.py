"""The parts of gRPC's asyncio API by which services call each other: channels and servers.

A simulation puts its own in their place. So the functions are called as `transport.open_channel(…)`, and never
imported by name. A call raises gRPC's own `AioRpcError`, with a status code and details. The client of etcd has its own
channel (`cluster.etcd`).

With the certificate of a service (`internal_tls`), both ends prove who they are. Without one, they are in plaintext.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import grpc
import grpc.aio

from ottla_core.rpc.internal_tls import InternalTls, Material
from ottla_core.rpc.status import CHANNEL_OPTIONS, SERVER_OPTIONS


class Channel(Protocol):
    """Calls to one address. It connects at the first call and reconnects when the connection is lost."""

    def unary_unary(
        self, method: str, *, request_serializer: Any = None, response_deserializer: Any = None
    ) -> Callable[..., Awaitable[Any]]:
        """Return a function that takes the request, `timeout` and `metadata`, and returns the response."""
        ...

    def stream_stream(
        self, method: str, *, request_serializer: Any = None, response_deserializer: Any = None
    ) -> Callable[..., Any]:
        """Return a function that takes `metadata` and opens a stream, a `grpc.aio.StreamStreamCall`."""
        ...

    async def close(self) -> None: ...


class Server(Protocol):
    """Serves the methods of generic handlers on one port, each call with a `grpc.aio.ServicerContext`."""

    def add_generic_rpc_handlers(self, generic_rpc_handlers: Any) -> None: ...
    def add_insecure_port(self, address: str) -> int:
        """Return the port. Raises RuntimeError, or returns 0, if it can't be bound."""
        ...

    def add_secure_port(self, address: str, server_credentials: Any) -> int:
        """Return the port, as `add_insecure_port` does."""
        ...

    async def start(self) -> None: ...
    async def stop(self, grace: float | None) -> None: ...


def open_channel(address: str, material: Material | None = None) -> Channel:
    channel: Channel
    if material is None:
        channel = grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS)
    else:
        channel = grpc.aio.secure_channel(address, material.channel_credentials, options=CHANNEL_OPTIONS)
    return channel


def new_server() -> Server:
    server: Server = grpc.aio.server(options=SERVER_OPTIONS)
    return server


def add_port(server: Server, address: str, tls: InternalTls | None) -> int:
    """Return the port. Raises RuntimeError, or returns 0, if it can't be bound."""
    if tls is None:
        return server.add_insecure_port(address)
    return server.add_secure_port(address, tls.server_credentials())
