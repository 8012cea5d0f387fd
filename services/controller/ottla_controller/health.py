"""A process that dies is noticed at once, and not only when its lease ends (rule C7).

The connections of a process that dies end at once: the health stream to it breaks, and its port refuses. That is proof.
A stopped process or a cut cable shows nothing here, but its lease ends. gRPC's health service (grpc.health.v1) is the
other side. grpc.aio has no types, and its `Any` values do not leave this module.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any, Final

import grpc
import grpc.aio
from grpc_health.v1 import health_pb2

from ottla_core.host_port import HostPort
from ottla_core.rpc import transport
from ottla_core.rpc.internal_tls import InternalTls

FAILURES: Final = 2
FAILURES_APART_S: Final = 0.1  # two of them in well under 300 ms
CONNECT_LIMIT_S: Final = 0.3
RETRY_S: Final = 0.5

_WATCH: Final = "/grpc.health.v1.Health/Watch"
_CHECK: Final = "/grpc.health.v1.Health/Check"


class HealthWatch:
    """Watches the process at `address` (host:port). `held` tells whether a stream to it is open."""

    def __init__(self, address: str, tls: InternalTls | None = None) -> None:
        self.held = False
        self._address: Final = address
        self._tls: Final = tls

    async def until_dead(self) -> None:
        """Return once the process is proven dead, however long that takes.

        A process that was never reached is not proven dead: its address may be wrong, or known only elsewhere. A port
        may accept connections for a moment after its process has died, so it is called again until a stream is open.
        """
        broken = False
        while True:
            broken = await self._hold(broken=broken)
            if broken and await _refuses(self._address):
                return
            await asyncio.sleep(FAILURES_APART_S if broken else RETRY_S)

    async def _hold(self, *, broken: bool) -> bool:
        """Hold a stream until it ends. Return whether the last open stream has broken, rather than ended in order.

        If no stream could be opened, that is as before: `broken`.
        """
        async with _channel(self._address, self._tls) as channel:
            try:
                async for response in _health(channel.unary_stream, _WATCH)(health_pb2.HealthCheckRequest()):
                    self.held = response.status == health_pb2.HealthCheckResponse.SERVING
                    if not self.held:
                        return False  # it ends in order; the stream would only hold it up
            except grpc.RpcError:
                return self.held or broken
            finally:
                self.held = False
        return False


async def responds(address: str, tls: InternalTls | None = None, *, timeout: float) -> bool:
    """Return whether the process at `address` says within `timeout` seconds that it serves."""
    async with _channel(address, tls) as channel:
        try:
            response = await _health(channel.unary_unary, _CHECK)(health_pb2.HealthCheckRequest(), timeout=timeout)
        except grpc.RpcError:
            return False
        return bool(response.status == health_pb2.HealthCheckResponse.SERVING)


async def _refuses(address: str) -> bool:
    """Return whether nothing listens there. It is tried twice, because a port that is about to be bound again answers
    the second time."""
    for attempt in range(FAILURES):
        if attempt:
            await asyncio.sleep(FAILURES_APART_S)
        if not await _refuses_once(address):
            return False
    return True


async def _refuses_once(address: str) -> bool:
    """Return whether every address of the name refuses. Silence is not a refusal, and neither is an unknown name."""
    host, port = HostPort.parse(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_LIMIT_S):
            for family, kind, protocol, _, at in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                with socket.socket(family, kind, protocol) as connection:
                    connection.setblocking(False)
                    with contextlib.suppress(ConnectionRefusedError):
                        await loop.sock_connect(connection, at)
                        return False
    except OSError:  # this includes TimeoutError
        return False
    return True


def _channel(address: str, tls: InternalTls | None) -> Any:
    return transport.open_channel(address, tls.recent() if tls is not None else None)


def _health(kind: Any, path: str) -> Any:
    return kind(
        path,
        request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
        response_deserializer=health_pb2.HealthCheckResponse.FromString,
    )
